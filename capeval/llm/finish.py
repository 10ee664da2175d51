"""How a reply ended, by the reason that the endpoint gives for its end.

Servers and routers add their own reasons to those of OpenAI's API, or pass on those of the model
behind them: Anthropic's, Gemini's, Cohere's, Mistral's, or those of Text Generation Inference.
"""

from __future__ import annotations

import re
from typing import Literal

Ending = Literal["complete", "cut", "declined", "failed"]

# What is in no list is a failure: every server has its own words for one.
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
    name = _name(reason)
    return _ENDING_OF.get(name, "failed") if name else "complete"


def contradiction(remark: object) -> Ending | None:
    """Return how a reply ended by a remark beside its finish reason; None if it ended well.

    Such a remark (a status, or the reason that a router translated) has no fixed words, so what is
    unknown says nothing.
    """
    if not isinstance(remark, str):
        return None
    found = _ENDING_OF.get(_name(remark))
    if found is None and _FAILURE.search(_name(remark)):
        return "failed"
    return None if found == "complete" else found


def _name(reason: str) -> str:
    # Gemini's compatible endpoint adds its own reason: "content_filter: RECITATION".
    return re.sub(r"[\s-]+", "_", reason.partition(":")[0].strip().lower())
