"""Plays the chat model of VDCscore by comparing words, always alike.

For `tests/server.py`: `--responder tests.metrics.vdc_responder:answer`.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tests.metrics.chat_responder import data_of
from tests.server import completion

__all__ = ["answer", "is_comparison", "reply_to", "sent"]

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Answer a request, or the call that tests the endpoint."""
    prompt = request["messages"][0]["content"]
    text = reply_to(prompt)
    return completion(text, prompt_tokens=len(prompt) // 4, completion_tokens=len(text) // 4)


def is_comparison(prompt: str) -> bool:
    return prompt.startswith("Compare two answers")


def sent(prompt: str) -> dict[str, str]:
    """Return the texts of a prompt."""
    (data,) = data_of(prompt)
    assert isinstance(data, dict)
    return data


def reply_to(prompt: str) -> str:
    """Answer with the sentence most like the question; compare by the words of the right answer."""
    if is_comparison(prompt):
        data = sent(prompt)
        right, given = _words(data["right_answer"]), _words(data["answer_to_check"])
        share = len(right & given) / max(1, len(right))
        return json.dumps({"match": "yes" if share == 1 else "no", "score": round(5 * share)})
    if prompt.startswith("Answer a question"):
        data = sent(prompt)
        sentences = _SENTENCE_END.split(data["description"])
        asked = _words(data["question"])
        return json.dumps({"answer": max(sentences, key=lambda one: len(asked & _words(one)))})
    return '{"ok": true}'


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower())) - {"a", "an", "the"}
