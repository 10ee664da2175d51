"""Draft multiple-choice questions from annotations and from what a video model gets wrong."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from capeval.construct.drafts import Item, Line
from capeval.errors import ReplyError
from capeval.files.packaged import prompt_of, tag_free_json
from capeval.llm.questions import Question as ChatQuestion
from capeval.llm.replies import Number, ReplyForm, Words, in_form, one_of, read_reply
from capeval.runs.engine import Labels
from capeval.schema import OPTION_LETTERS, Annotation, Caption, Question
from capeval.text import normal_form

PROMPTS = "mcq-construct-v1"
LABELS = Labels("drafting questions of", "video", "drafted", "undrafted")

TASK_TYPES = (
    *("camera motion", "camera transition", "scene description", "scene transition"),
    *("action recognition", "action sequence", "action-subject matching"),
    *("object recognition", "object appearance", "object location"),
)
"""The task types of TUNA-MCQ (section 3.2.3)."""

_OPTIONS = 4
# Six questions of about 110 tokens, four times: some models write JSON on many lines.
_MOST_TOKENS = 2800


class _Difference(ReplyForm):
    element: str
    seen: Words


class _Differences(ReplyForm):
    differences: list[_Difference]


class _Wrong(ReplyForm):
    text: Words
    point: Number


class _Drafted(ReplyForm):
    task_type: str
    question: Words
    right: Words
    wrong: list[_Wrong]
    elements: list[str]


class _Questions(ReplyForm):
    questions: list[_Drafted]


@dataclass(frozen=True)
class Points:
    """What a video model saw instead of elements: pairs of an element's id and a sentence."""

    model: str = ""
    pairs: Sequence[tuple[str, str]] = ()


def read_points(
    annotations: Sequence[Annotation], replies: Mapping[str, Caption]
) -> tuple[dict[str, Points], dict[str, str]]:
    """Return what a video model gets wrong by video, and why other replies are unusable.

    `replies` are its replies to the prompt of mcq-errors-v1, as captions.
    """
    found: dict[str, Points] = {}
    unusable: dict[str, str] = {}
    for one in annotations:
        try:
            if (reply := replies.get(one.index)) is None:
                raise ReplyError("there is no reply")
            given, _ = read_reply(reply.caption, lambda value, _: in_form(_Differences, value))
            pairs = [
                (one_of(point.element, one.elements, "element"), point.seen)
                for point in given.differences
            ]
            found[one.index] = Points(reply.model or "", pairs)
        except ReplyError as error:
            unusable[one.index] = str(error)
    return found, unusable


def annotation_json(annotation: Annotation) -> str:
    """Return an annotation for a prompt: its events by number, and its elements by id."""
    events = {number: one.event for number, one in enumerate(annotation.events, start=1)}
    elements = {name: one.content for name, one in annotation.elements.items()}
    return tag_free_json({"events": events, "elements": elements})


def plain(text: str) -> str:
    """Return a text for comparison: without case, extra spaces and a full stop.

    >>> plain(" Zooms  in. ") == plain("zooms in"), plain("+5") == plain("-5")
    (True, False)
    """
    return " ".join(normal_form(text).casefold().split()).rstrip(".")


def question_items(
    annotations: Sequence[Annotation], points: Mapping[str, Points], model: str
) -> list[Item]:
    """Return what a chat model is asked: one question for each video."""
    items = []
    for one in annotations:
        of = points.get(one.index, Points())
        pairs = {n: {"element": i, "seen": seen} for n, (i, seen) in enumerate(of.pairs, start=1)}
        values = {"annotation": annotation_json(one), "points": tag_free_json(pairs)}
        prompt = prompt_of(PROMPTS, "draft", values)
        question = ChatQuestion("draft", prompt, _Questions, _MOST_TOKENS)
        read = partial(_read, annotation=one, points=of, model=model)
        items.append(Item(one.index, question, read))
    return items


def _read(
    reply: _Questions, *, annotation: Annotation, points: Points, model: str
) -> Mapping[str, Any]:
    """Return the drafted questions as JSON values; raises `ReplyError`."""
    found: dict[str, dict[str, Any]] = {}
    for number, one in enumerate(reply.questions, start=1):
        try:
            used = _used_points(one, annotation.elements, points)
            if plain(one.question) in found:
                raise ReplyError("it is asked twice")
        except ReplyError as error:
            raise ReplyError(f"question {number}: {error}") from None
        drafters = [*annotation.drafted_by, *([points.model] if used else []), model]
        found[plain(one.question)] = {
            **one.model_dump(exclude={"wrong"}),
            "wrong": [wrong.text for wrong in one.wrong],
            "drafted_by": [*dict.fromkeys(drafters)],
            **({"errors": used} if used else {}),
        }
    if not found:
        raise ReplyError("there must be at least one question")
    return {"questions": [*found.values()]}


def _used_points(one: _Drafted, elements: Collection[str], points: Points) -> list[str]:
    """Return the errors that are options of a question; raises `ReplyError` if it is not one."""
    one_of(one.task_type, TASK_TYPES, "task type")
    if len(one.wrong) != _OPTIONS - 1:
        raise ReplyError(f"it must have {_OPTIONS - 1} wrong options, not {len(one.wrong)}")
    if len({plain(text) for text in (one.right, *(w.text for w in one.wrong))}) < _OPTIONS:
        raise ReplyError("its options must all differ")
    if not one.elements:
        raise ReplyError("it must name the elements on which the right option rests")
    for element in one.elements:
        one_of(element, elements, "element")
    numbers = range(len(points.pairs) + 1)
    used = [one_of(wrong.point, numbers, "point") for wrong in one.wrong]
    return [points.pairs[number - 1][1] for number in used if number]


def lettered(
    annotations: Sequence[Annotation], lines: Mapping[str, Line], seed: int
) -> tuple[Question, ...]:
    """Return the drafted questions of all videos in order, with the options in their places.

    Of every four questions in a row, each has its right option in another place; which, and the
    order of the wrong options, is drawn. So each letter is right in n/4 of n questions, rounded
    down or up. With the same seed, questions keep their letters when videos are added after theirs;
    when questions before them are added or dropped, they may not.
    """
    rng = np.random.default_rng(seed)
    questions: list[Question] = []
    places: list[int] = []
    for one in (one for one in annotations if one.index in lines):
        for number, given in enumerate(lines[one.index]["questions"], start=1):
            tags = dict(given)
            asked, right, wrong = (tags.pop(name) for name in ("question", "right", "wrong"))
            options = [wrong[at] for at in rng.permutation(_OPTIONS - 1)]
            places = places or rng.permutation(_OPTIONS).tolist()
            options.insert(place := places.pop(), right)
            questions.append(
                Question(
                    id=f"{one.index}/{number}",
                    video=one.video or one.index,
                    question=asked,
                    options=tuple(options),
                    answer=OPTION_LETTERS[place],
                    tags=tags,
                )
            )
    return tuple(questions)
