"""Draft multiple-choice questions from annotations and from what a video model gets wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from capeval.construct.chat_work import Item, Line
from capeval.errors import ReplyError
from capeval.files.packaged import prompt_of, tag_free_json
from capeval.llm.questions import Question as ChatQuestion
from capeval.llm.replies import Number, ReplyForm, Words, in_form, read_reply
from capeval.runs.engine import Labels
from capeval.schema import OPTION_LETTERS, Annotation, Caption, Question
from capeval.text import counted, normal_form, shown

PROMPTS = "mcq-construct-v1"
LABELS = Labels("drafting questions of", "video", "drafted", "undrafted")

TaskType = Literal[
    "camera motion",
    "camera transition",
    "scene description",
    "scene transition",
    "action recognition",
    "action sequence",
    "action-subject matching",
    "object recognition",
    "object appearance",
    "object location",
]
"""The task types of TUNA-MCQ (section 3.2.3)."""

OPTIONS = 4

# Six questions of about 110 tokens, four times: some models write JSON on many lines.
_MOST_TOKENS = 2800
_NAMED = 3
# "B. left", but not "(b) (a) (c)", which is an order.
_LETTERED = re.compile(r"([A-D])[.:)]\s")


class _Difference(ReplyForm):
    element: str
    seen: Words


class _Differences(ReplyForm):
    differences: list[_Difference]


class _Wrong(ReplyForm):
    text: Words
    point: Number


class _Drafted(ReplyForm):
    task_type: TaskType
    question: Words
    right: Words
    wrong: list[_Wrong]
    elements: list[str]


class _Questions(ReplyForm):
    questions: list[_Drafted]


@dataclass(frozen=True)
class Points:
    """What a video model, `model`, saw instead of elements: pairs of an element's id and a text."""

    model: str = ""
    pairs: Sequence[tuple[str, str]] = ()


def read_points(
    annotations: Sequence[Annotation], replies: Mapping[str, Caption]
) -> tuple[dict[str, Points], str]:
    """Return what a video model gets wrong in each video, and a notice of unusable replies.

    `replies` are its replies to the prompt of mcq-errors-v1 as captions. A reply is usable if it is
    in the form that the prompt asks for and names elements of the annotation.
    """
    found: dict[str, Points] = {}
    unusable: dict[str, str] = {}
    for one in annotations:
        try:
            if one.index not in replies:
                raise ReplyError("there is no reply")
            reply = replies[one.index]
            given, _ = read_reply(reply.caption, lambda value, _: in_form(_Differences, value))
            for point in given.differences:
                _check_element(point.element, one)
        except ReplyError as error:
            unusable[one.index] = str(error)
        else:
            pairs = [(point.element, point.seen) for point in given.differences]
            found[one.index] = Points(reply.model or "", pairs)
    if not unusable:
        return found, ""
    first = "; ".join(f"{index}: {why}" for index, why in [*unusable.items()][:_NAMED])
    more = f"; {len(unusable) - _NAMED} more" if len(unusable) > _NAMED else ""
    what = f"{counted(len(unusable), 'video')} without usable errors, drafted without them"
    return found, f"{what}: {first}{more}"


def _check_element(element: str, annotation: Annotation) -> None:
    if element not in annotation.elements:
        raise ReplyError(f"there is no element {shown(element)} in the annotation")


def annotation_lines(annotation: Annotation) -> str:
    """Return an annotation for a prompt: a line of JSON for each event, with its elements by id."""
    contents = iter(annotation.elements.items())
    lines = []
    for event in annotation.events:
        own = [next(contents) for _ in event.visual_elements]
        elements = {element: one.content for element, one in own}
        lines.append(tag_free_json({"event": event.event, "elements": elements}))
    return "\n".join(lines)


def plain(text: str) -> str:
    """Return an option for comparison: without case, extra spaces and a full stop.

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
        lines = [
            tag_free_json({"point": number, "element": element, "seen": seen})
            for number, (element, seen) in enumerate(of.pairs, start=1)
        ]
        values = {"annotation": annotation_lines(one), "points": "\n".join(lines) or "(none)"}
        prompt = prompt_of(PROMPTS, "draft", values)
        question = ChatQuestion("draft", prompt, _Questions, _MOST_TOKENS)
        items.append(
            Item(one.index, question, partial(_read, annotation=one, points=of, model=model))
        )
    return items


def _read(
    reply: _Questions, *, annotation: Annotation, points: Points, model: str
) -> Mapping[str, Any]:
    """Return the drafted questions as JSON values; raises `ReplyError`."""
    if not reply.questions:
        raise ReplyError("there must be at least one question")
    found: dict[str, dict[str, Any]] = {}
    for number, one in enumerate(reply.questions, start=1):
        try:
            used = _checked(one, annotation, len(points.pairs))
            if plain(one.question) in found:
                raise ReplyError("it is asked twice")
        except ReplyError as error:
            raise ReplyError(f"question {number}: {error}") from None
        drafters = [*annotation.drafted_by, *([points.model] if used else []), model]
        found[plain(one.question)] = {
            "task_type": one.task_type,
            "question": one.question,
            "right": one.right,
            "wrong": [wrong.text for wrong in one.wrong],
            "elements": [*dict.fromkeys(one.elements)],
            "drafted_by": [*dict.fromkeys(drafters)],
            **({"errors": [points.pairs[at - 1][1] for at in used]} if used else {}),
        }
    return {"questions": [*found.values()]}


def _checked(one: _Drafted, annotation: Annotation, points: int) -> list[int]:
    """Return the numbers of the points that a question uses; raises `ReplyError`."""
    if len(one.wrong) != OPTIONS - 1:
        raise ReplyError(f"it must have {OPTIONS - 1} wrong options, not {len(one.wrong)}")
    texts = [one.right, *(wrong.text for wrong in one.wrong)]
    if len({*map(plain, texts)}) < OPTIONS:
        raise ReplyError("its options must all differ")
    letters = {match[1] for text in texts if (match := _LETTERED.match(text))}
    if len(letters) == OPTIONS:
        raise ReplyError("its options must not carry letters")
    if not one.elements:
        raise ReplyError("it must name the elements on which the right option rests")
    for element in one.elements:
        _check_element(element, annotation)
    used = [wrong.point for wrong in one.wrong if wrong.point]
    for number in used:
        if not 1 <= number <= points:
            raise ReplyError(f"there is no point {number}; points go from 1 to {points}, 0 is none")
    return used


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
    for one in annotations:
        drafted = lines.get(one.index, {"questions": []})["questions"]
        for number, given in enumerate(drafted, start=1):
            places = places or rng.permutation(OPTIONS).tolist()
            place = places.pop()
            options = [given["wrong"][at] for at in rng.permutation(OPTIONS - 1)]
            options.insert(place, given["right"])
            tags = {
                name: given[name]
                for name in ("task_type", "elements", "drafted_by", "errors")
                if name in given
            }
            questions.append(
                Question(
                    id=f"{one.index}/{number}",
                    video=one.video or one.index,
                    question=given["question"],
                    options=tuple(options),
                    answer=OPTION_LETTERS[place],
                    tags=tags,
                )
            )
    return tuple(questions)


def question_line(question: Question) -> dict[str, Any]:
    """Return a question in capeval's own layout: a JSON line with its tags beside its fields."""
    return {**question.model_dump(exclude={"benchmark", "tags"}), **question.tags}
