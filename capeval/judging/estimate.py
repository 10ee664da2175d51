"""What judging is expected to cost, before it does: only calls that the cache does not hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from capeval.errors import CacheMiss, CapevalError
from capeval.judging.prompts import PromptSet, Stage
from capeval.judging.protocol import Tally
from capeval.judging.selection import OpenJudge
from capeval.schema import Annotation, Caption, Usage

_STAGES: tuple[Stage, ...] = ("split", "match", "classify")

# English prose: about four characters a token, about 25 words an event.
_CHARACTERS = 4
_EVENT_CHARACTERS = 150


@dataclass
class Estimate:
    """Calls, tokens and US dollars that are expected; `cost` is None without a price."""

    captions: int = 0
    stages: dict[str, Usage] = field(default_factory=dict)
    cost: float | None = None

    def __add__(self, other: Estimate) -> Estimate:
        stages = {
            stage: self.stages.get(stage, Usage()) + other.stages.get(stage, Usage())
            for stage in {**self.stages, **other.stages}
        }
        known = self.cost is not None and other.cost is not None
        cost = (self.cost or 0.0) + (other.cost or 0.0) if known else None
        return Estimate(self.captions + other.captions, stages, cost)

    @property
    def usage(self) -> Usage:
        """All stages together."""
        return sum(self.stages.values(), Usage())


async def estimate(
    work: Sequence[tuple[Annotation, Caption]], opened: OpenJudge, *, repeats: int
) -> Estimate:
    """Return what judging `work` is expected to take; makes no call."""
    result = Estimate(captions=len(work))
    if opened.offline is None or opened.prompts is None:
        result.cost = 0.0
        return result
    for annotation, caption in work:
        for repeat in range(0 if caption.is_empty else repeats):
            tally = Tally()
            try:
                await opened.offline.judge(annotation, caption.caption, repeat=repeat, tally=tally)
            except CacheMiss:
                expected = _expected(annotation, caption.caption, opened.prompts)
                for stage in _from(tally.stage):
                    before = result.stages.get(stage, Usage())
                    result.stages[stage] = before + expected[stage]
            except CapevalError:
                # A stored failure: what it will take is not known, and it is asked again anyway.
                continue
    price = opened.meter.price(opened.judge.name)
    if not result.stages:
        result.cost = 0.0
    elif price is not None:
        result.cost = price.cost(result.usage)
    return result


def _tokens(*texts: str) -> int:
    return sum(map(len, texts)) // _CHARACTERS


def _expected(annotation: Annotation, caption: str, prompts: PromptSet) -> dict[Stage, Usage]:
    told = _tokens(caption)
    events = max(1, len(caption) // _EVENT_CHARACTERS)
    references = _tokens(*(event.event for event in annotation.events))
    elements = [e.content for event in annotation.events for e in event.visual_elements]
    shown = _tokens(*elements) + 6 * len(elements)
    template = {stage: _tokens(prompts.templates[stage]) for stage in _STAGES}
    echoed = told + shown if prompts.contract == "tuna" else 0
    return {
        "split": Usage(calls=1, input_tokens=template["split"] + told, output_tokens=told + 20),
        "match": Usage(
            calls=1,
            input_tokens=template["match"] + told + references + 12 * events,
            output_tokens=12 * events + 10,
        ),
        "classify": Usage(
            calls=1,
            input_tokens=template["classify"] + told + shown,
            output_tokens=14 * len(elements) + 10 + echoed,
        ),
    }


def _from(stage: str) -> tuple[Stage, ...]:
    names = [str(name) for name in _STAGES]
    return _STAGES[names.index(stage) if stage in names else 0 :]
