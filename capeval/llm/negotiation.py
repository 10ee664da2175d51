"""The parameters that a model accepts, discovered once and remembered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from capeval.text import one_line


@dataclass(frozen=True, slots=True)
class Plan:
    """How requests to one model are sent."""

    temperature: bool = True
    seed: bool = True
    length: Literal["max_tokens", "max_completion_tokens", "none"] = "max_tokens"
    format: Literal["json_schema", "json_object", "none"] = "json_schema"
    thinks: bool = False
    """It reasons before it answers, and needs room for that."""

    @property
    def sent(self) -> tuple[str, ...]:
        """Names of the parameters that it can still give up."""
        names = ["temperature"] * self.temperature + ["seed"] * self.seed
        names += [self.length] * (self.length != "none")
        names += ["response_format"] * (self.format != "none")
        return tuple(names)

    @property
    def left_off(self) -> tuple[str, ...]:
        """What requests ask for and this plan does not send; "json_schema" if only JSON is."""
        names = ["temperature"] * (not self.temperature) + ["seed"] * (not self.seed)
        names += ["max_tokens"] * (self.length == "none")
        names += {"json_schema": [], "json_object": ["json_schema"], "none": ["response_format"]}[
            self.format
        ]
        return tuple(names)

    def without(self, parameter: str) -> Plan:
        """Return the plan that gives up `parameter`, or the next best form of it."""
        match parameter:
            case "temperature":
                return replace(self, temperature=False)
            case "seed":
                return replace(self, seed=False)
            case "max_tokens":
                return replace(self, length="max_completion_tokens")
            case "max_completion_tokens":
                return replace(self, length="none")
            case "response_format":
                if self.format == "json_schema":
                    return replace(self, format="json_object")
                return replace(self, format="none")
            case _:
                raise ValueError(f"not a negotiable parameter: {parameter}")


class Negotiation:
    """The plan for each model; a change is made once, however many calls find it out."""

    def __init__(self, on_notice: Callable[[str], None]) -> None:
        self._plans: dict[str, Plan] = {}
        self._on_notice = on_notice

    def plan(self, model: str) -> Plan:
        """Return how requests to `model` are sent now."""
        return self._plans.get(model, Plan())

    def found_thinking(self, model: str) -> bool:
        """Record that `model` reasons before it answers; return False if that was known."""
        now = self.plan(model)
        if now.thinks:
            return False
        self._plans[model] = replace(now, thinks=True)
        self._on_notice(one_line(f"{model} thinks before it answers: its replies get more room"))
        return True

    def give_up(self, model: str, parameter: str, used: Plan, reason: str) -> None:
        """Record that `model` refused `parameter` in a call made by the plan `used`."""
        now = self.plan(model)
        refused = used.without(parameter)
        aspects = ("temperature", "seed", "length", "format")
        aspect = next(name for name in aspects if getattr(refused, name) != getattr(used, name))
        if getattr(now, aspect) != getattr(used, aspect):
            return  # another call found it out while this one was under way
        self._plans[model] = now.without(parameter)
        self._on_notice(one_line(f"{model} does not take {parameter}; going on without ({reason})"))
