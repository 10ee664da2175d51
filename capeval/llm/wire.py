"""Requests and replies as the JSON of an endpoint, and the parameters that a model accepts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from capeval.llm.retry import CallFailed
from capeval.llm.thinking import after_thinking
from capeval.llm.types import ChatReply, ChatRequest
from capeval.schema.usage import Usage
from capeval.text import Loss, one_line, storable

SERVER_ADVICE = (
    "set the reasoning parser of the server to the model's (vLLM and SGLang: --reasoning-parser; "
    "llama.cpp: --reasoning-format), or switch reasoning off"
)
"""What to do about a model whose replies cannot be separated from its reasoning."""

# The limit includes reasoning; without room for it there would be no visible reply.
HIDDEN_REASONING_TOKENS = 8192
# OpenAI's guide to reasoning advises to reserve this much until it is known how much is needed.
MUCH_REASONING_TOKENS = 25_000
MUCH_REASONING = ("high", "xhigh", "max")
MOST_TOKENS = 100_000_000
LONGEST_NAME = 200
# Parameters that a request can do without.
OPTIONAL = ("temperature", "seed", "max_tokens", "max_completion_tokens", "response_format")


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """How requests to one model are sent; it `thinks` if it needs room to reason first."""

    temperature: bool = True
    seed: bool = True
    length: Literal["max_tokens", "max_completion_tokens", "none"] = "max_tokens"
    format: Literal["json_schema", "json_object", "none"] = "json_schema"
    thinks: bool = False

    @property
    def left_off(self) -> tuple[str, ...]:
        """Requested parameters that this plan omits; "json_schema" if it sends only JSON mode."""
        omitted = {
            "temperature": not self.temperature,
            "seed": not self.seed,
            "max_tokens": self.length == "none",
            "json_schema": self.format == "json_object",
            "response_format": self.format == "none",
        }
        return tuple(name for name, is_omitted in omitted.items() if is_omitted)

    def weaker(self, parameter: str) -> dict[str, Any]:
        """Return the change that gives up `parameter`, or takes the next best form of it."""
        if parameter == "response_format":
            return {"format": "json_object" if self.format == "json_schema" else "none"}
        lengths = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "none"}
        return {"length": lengths[parameter]} if parameter in lengths else {parameter: False}


class Negotiation:
    """The plan for each model and effort; a change is made once, however many calls discover it."""

    def __init__(self, on_notice: Callable[[str], None]) -> None:
        # What a model takes may depend on how much it reasons.
        self._plans: dict[tuple[str, str | None], RequestPlan] = {}
        self._misplaced: set[str] = set()
        self._on_notice = on_notice

    def plan(self, model: str, reasoning: str | None = None) -> RequestPlan:
        """Return how requests to `model` are sent now."""
        return self._plans.get((model, reasoning), RequestPlan())

    def found_thinking(self, model: str, reasoning: str | None = None) -> bool:
        """Record that `model` reasons before it answers; return False if that was known."""
        now = self.plan(model, reasoning)
        if now.thinks:
            return False
        self._plans[model, reasoning] = replace(now, thinks=True)
        self._on_notice(one_line(f"{model} thinks before it answers: its replies get more room"))
        return True

    def found_misplaced_answer(self, model: str) -> None:
        """Record that the server puts the answers of `model` among its reasoning."""
        if model not in self._misplaced:
            self._misplaced.add(model)
            notice = (
                f"{model} left the content of a reply empty beside its reasoning, which is "
                f"never read as an answer; {SERVER_ADVICE}"
            )
            self._on_notice(Loss(one_line(notice)))

    def give_up(self, request: ChatRequest, parameter: str, used: RequestPlan, reason: str) -> None:
        """Record that the model refused `parameter` in a call made by the plan `used`."""
        model, reasoning = request.model, request.reasoning
        now = self.plan(model, reasoning)
        changed = used.weaker(parameter)
        if any(getattr(now, aspect) != getattr(used, aspect) for aspect in changed):
            return  # another call has discovered it meanwhile
        self._plans[model, reasoning] = replace(now, **changed)
        self._on_notice(
            Loss(one_line(f"{model} does not take {parameter}; going on without ({reason})"))
        )


def body_of(request: ChatRequest, plan: RequestPlan) -> dict[str, Any]:
    """Return the JSON body for `request`, without what `plan` leaves off."""
    body: dict[str, Any] = {"model": request.model, "messages": list(request.messages)}
    much = request.reasoning in MUCH_REASONING
    room = MUCH_REASONING_TOKENS if much else HIDDEN_REASONING_TOKENS
    if plan.length == "max_tokens":
        body["max_tokens"] = request.max_tokens + room * (plan.thinks or much)
    elif plan.length == "max_completion_tokens":
        body["max_completion_tokens"] = request.max_tokens + room
    if request.reasoning is not None:
        body["reasoning_effort"] = request.reasoning
    if plan.temperature and request.temperature is not None:
        body["temperature"] = request.temperature
    if plan.seed:
        body["seed"] = request.repeat
    if request.schema is not None and plan.format == "json_schema":
        schema = {"name": request.schema.name, "schema": request.schema.schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif request.schema is not None and plan.format == "json_object":
        body["response_format"] = {"type": "json_object"}
    return body


def parse_json(status: int, content_type: str, content: bytes) -> Mapping[str, Any]:
    """Return the JSON object of a response; raises `CallFailed`."""
    try:
        payload = json.loads(content)
    except (ValueError, RecursionError):
        is_page = "html" in content_type.lower() or content.lstrip().startswith(b"<")
        kind = "HTML" if is_page else one_line(content_type, 60) or "no type"
        raise CallFailed(status, f"the response is not JSON ({kind})") from None
    if not isinstance(payload, dict):
        raise CallFailed(status, "the response is not a JSON object")
    return payload


Ending = Literal["complete", "cut", "declined", "failed"]
# OpenAI's own reasons, and those of models and servers behind routers: Anthropic's, Gemini's,
# Cohere's, Mistral's, Text Generation Inference's. What is in no list is a failure: every server
# has its own words for one.
_ENDINGS: dict[Ending, str] = {
    "complete": "stop stop_sequence stop_token eos eos_token end_turn end_of_turn endoftext "
    "complete completed done finished normal success ok null none tool_call tool_calls tool_use "
    "function_call",
    "cut": "length max_length model_length max_tokens max_output_tokens max_new_tokens token_limit "
    "model_context_window_exceeded",
    "declined": "content_filter content_filtered refusal safety image_safety sensitive recitation "
    "prohibited_content blocklist spii guardrail_intervened error_toxic",
}
_ENDING_OF = {name: ending for ending, names in _ENDINGS.items() for name in names.split()}
_FAILURE = re.compile(
    "error|fail|abort|cancel|time_?out|exception|overload|incomplete|insufficient"
)


def ending(reason: object) -> Ending:
    """Return how a reply with this finish reason ended; without any it is taken to be complete.

    >>> ending("STOP"), ending(None), ending("content_filter: RECITATION"), ending("server_error")
    ('complete', 'complete', 'declined', 'failed')
    """
    if not isinstance(reason, str):
        return "complete" if reason is None else "failed"
    # Gemini's compatible endpoint adds its own reason: "content_filter: RECITATION".
    name = re.sub(r"[\s-]+", "_", reason.partition(":")[0].strip().lower())
    return _ENDING_OF.get(name, "failed") if name else "complete"


def reply_from(payload: Mapping[str, Any], asked: str, left_off: tuple[str, ...]) -> ChatReply:
    """Read a chat completion, tolerant of what servers leave out; raises `CallFailed`."""
    choices = payload.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise _failed(_error(payload), "the response has no choices")
    # What a failed call has written so far may look like a whole reply.
    error = _error(payload) or choice.get("error") or message.get("error")
    finish = _finish(payload, choice)
    if error or ending(finish) == "failed":
        raise _failed(error, f"the reply is marked as failed ({one_line(str(finish), 60)})")
    text, refusal = _text(message.get("content")), _text(message.get("refusal"))
    if refusal:
        text, finish = refusal, "refusal"
    return ChatReply(
        # An unpaired surrogate can be neither printed nor stored.
        text=text if text.isascii() else storable(text),
        finish_reason=one_line(finish, LONGEST_NAME) if isinstance(finish, str) else None,
        model=_name(payload.get("model")) or asked,
        fingerprint=_name(payload.get("system_fingerprint")),
        usage=_usage(payload.get("usage")),
        left_off=left_off,
    )


def _error(payload: Mapping[str, Any]) -> object:
    """Return the error that is anywhere at the top of a response, if there is one."""
    if error := payload.get("error") or payload.get("errors"):
        return error[0] if isinstance(error, list) else error
    codes = [str(payload.get(key)) for key in ("code", "status")]
    failed = next((int(code) for code in codes if re.fullmatch("[45][0-9][0-9]", code)), None)
    if failed or "error" in (payload.get("object"), payload.get("type")):
        return {**payload, "code": failed}
    return None


def _finish(payload: Mapping[str, Any], choice: Mapping[str, Any]) -> object:
    """Return the finish reason, or a worse one that is given beside it."""
    finish = choice.get("finish_reason")
    if ending(finish) == "cut":
        return "length"
    if ending(finish) != "complete":
        return finish
    filters = choice.get("content_filter_results")
    if isinstance(filters, dict) and any(
        isinstance(found, dict) and found.get("filtered") is True for found in filters.values()
    ):
        return "content_filter"
    details = payload.get("incomplete_details")
    for remark in (
        details.get("reason") if isinstance(details, dict) else None,
        payload.get("status"),
        choice.get("native_finish_reason"),
    ):
        # Such a remark has no fixed words, so an unknown one says nothing.
        found = ending(remark)
        if found == "cut":
            return "length"
        if found == "declined" or (isinstance(remark, str) and _FAILURE.search(remark.lower())):
            return remark
    return finish


def _failed(error: object, reason: str) -> CallFailed:
    # Routers answer 200 and put the status of the model behind them into the body.
    code = error.get("code") if isinstance(error, dict) else None
    status = code if type(code) is int and 400 <= code <= 599 else 200
    return CallFailed(status, "" if error else reason, error)


def cut_while_thinking(reply: ChatReply, payload: Mapping[str, Any]) -> bool:
    """Return whether a model used up its tokens before it began its answer."""
    if reply.finish_reason != "length":
        return False
    return _has_reasoning(payload) or not after_thinking(reply.text)


def misplaced_answer(reply: ChatReply, payload: Mapping[str, Any]) -> bool:
    """Return whether a reply was completed with reasoning alone."""
    return reply.finish_reason != "length" and not reply.text.strip() and _has_reasoning(payload)


def _has_reasoning(payload: Mapping[str, Any]) -> bool:
    message = payload["choices"][0]["message"]
    return any(message.get(name) for name in ("reasoning_content", "reasoning"))


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    # Parts of other types ("reasoning", "thinking") are not the reply.
    texts = [
        part.get("text") if part.get("type", "text") in {"text", "output_text"} else None
        for part in parts
        if isinstance(part, dict)
    ]
    return "".join(text for text in texts if isinstance(text, str))


def _usage(usage: object) -> Usage:
    if not isinstance(usage, dict):
        return Usage(calls=1)
    details = usage.get("prompt_tokens_details")
    return Usage(
        calls=1,
        input_tokens=_count(usage.get("prompt_tokens")),
        cached_tokens=_count(details.get("cached_tokens")) if isinstance(details, dict) else 0,
        output_tokens=_count(usage.get("completion_tokens")),
    )


def _count(value: object) -> int:
    # A number that no call can have consumed is ignored; the meter then estimates.
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else 0


def _name(value: object) -> str | None:
    return one_line(value, LONGEST_NAME) if isinstance(value, str) and value.strip() else None


def model_ids(payload: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the ids in an endpoint's list of models."""
    listed = payload.get("data")
    found = [
        item.get("id") if isinstance(item, dict) else item
        for item in (listed if isinstance(listed, list) else [])
    ]
    names = [name for name in found if isinstance(name, str) and name.strip() == name]
    return tuple(name for name in dict.fromkeys(names) if name.isprintable() and name)
