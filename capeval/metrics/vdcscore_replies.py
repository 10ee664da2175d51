"""The two requests of VDCscore and what the model may reply: an answer; a match and a score."""

from __future__ import annotations

from typing import Any

from capeval.errors import ReplyError
from capeval.files.packaged import tag_free_json
from capeval.llm.replies import COUNT, TEXT, Number, ReplyForm, in_form, object_of
from capeval.llm.types import ReplySchema
from capeval.metrics.chat_metric import Question
from capeval.text import shown, storable

PROMPTS = "vdcscore-v1"
TOP = 5
"""The best score of an answer."""

# The authors' limit for both; what is cut off is asked for again, with more.
_MAX_TOKENS = 256
ANSWER_TOKENS, COMPARISON_TOKENS = 20, 12
"""What the replies are expected to take: a phrase, and two words, each with its keys."""

_ANSWER = ReplySchema("answer", object_of(answer=TEXT))
_MATCH = {"type": "string", "enum": ["yes", "no"]}
_COMPARISON = ReplySchema("comparison", object_of(match=_MATCH, score=COUNT))


class _AnswerForm(ReplyForm):
    answer: str


class _ComparisonForm(ReplyForm):
    match: str
    score: Number


def answering(number: int, caption: str, question: str) -> Question:
    """Return the request to answer a question from a caption."""
    data = {"description": caption, "question": question}
    return _request(f"question {number}: answer", "answer", data, _ANSWER)


def comparing(number: int, question: str, correct: str, predicted: str) -> Question:
    """Return the request to compare an answer with the correct one."""
    data = {"question": question, "right_answer": correct, "answer_to_check": predicted}
    return _request(f"question {number}: comparison", "compare", data, _COMPARISON)


def _request(stage: str, name: str, data: dict[str, str], schema: ReplySchema) -> Question:
    values = {"data": tag_free_json(data)}
    return Question(stage, PROMPTS, name, values, schema, _MAX_TOKENS, tuple(data.values()))


def read_answer(value: Any, notes: list[str]) -> str:
    """Return the answer of a reply; raises `ReplyError`.

    >>> read_answer({"answer": " a red car"}, [])
    'a red car'
    """
    del notes
    answer = in_form(_AnswerForm, value).answer
    # The form of the prompt, sent back, has no letter either.
    if not any(map(str.isalnum, answer)):
        raise ReplyError(f"the answer must be text, not {shown(answer)}")
    return storable(answer.strip())


def read_comparison(value: Any, notes: list[str], stage: str) -> tuple[bool, int]:
    """Return whether the answers match, and the score from 0 to 5; raises `ReplyError`.

    >>> read_comparison({"match": "yes", "score": 4}, [], "question 1: comparison")
    (True, 4)
    """
    given = in_form(_ComparisonForm, value)
    word = given.match.strip().lower()
    if word not in ("yes", "no"):
        raise ReplyError(f'match must be "yes" or "no", not {shown(given.match)}')
    if word != given.match:
        notes.append(f"{stage}: {shown(given.match)} was read as {word}")
    if not 0 <= given.score <= TOP:
        raise ReplyError(
            f"the score must be a whole number from 0 to {TOP}, not {shown(given.score)}"
        )
    return word == "yes", given.score
