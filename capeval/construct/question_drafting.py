"""`capeval mcq construct draft`: questions from annotations and from errors of a video model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from capeval.config import prompt_of
from capeval.construct.asked_items import (
    AskedItems,
    ConstructChatOptions,
    ItemToAsk,
    Line,
    check_unedited,
    seal,
)
from capeval.construct.drafts import captions_by_index
from capeval.errors import ReplyError
from capeval.files.jsonl import check_output, write_jsonl
from capeval.judging.judges import open_chat
from capeval.llm.asker import ChatQuestion
from capeval.llm.replies import Number, ReplyForm, Words, in_form, one_of, read_reply
from capeval.mcq.question_files import question_line
from capeval.options import (
    INPUTS,
    OUTPUT,
    FilePath,
    command,
    declares,
    option,
    python_only,
    required,
)
from capeval.runs.engine import Labels, functions
from capeval.runs.sources import annotations_file, annotations_of
from capeval.schema import OPTION_LETTERS, Annotation, Caption, Question
from capeval.show.result import Result
from capeval.text import Loss, counted, listed, normal_form, tag_free_json

PROMPTS = "mcq-construct-v1"

TASK_TYPES = (
    *("camera motion", "camera transition", "scene description", "scene transition"),
    *("action recognition", "action sequence", "action-subject matching"),
    *("object recognition", "object appearance", "object location"),
)
"""The task types of TUNA-MCQ (section 3.2.3)."""

_OPTIONS = 4
# Six questions of about 110 tokens, four times: some models write JSON on many lines.
_MOST_TOKENS = 2800


@declares
class QuestionDraftOptions(ConstructChatOptions):
    """The arguments of `capeval.construct_draft`.

    Parameters
    ----------
    annotations : Annotations: a file, or 'tuna'.
    errors : A run of `capeval generate --prompts mcq-errors-v1 --frames 8`, or its file: errors of
        a video model become wrong options.
    out : The file of questions.
    seed : The seed of the letters of the right options.
    """

    annotations: FilePath = required(positional=True, metavar="ANNOTATIONS")
    _: KW_ONLY
    errors: FilePath | None = option(None, panel=INPUTS, metavar="RUN|FILE")
    out: FilePath = option("questions.jsonl", panel=OUTPUT, metavar="FILE")
    seed: int = python_only(0, min=0)


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
    """Errors of a video model: the id of an element, and a sentence about what it saw instead."""

    model: str = ""
    pairs: Sequence[tuple[str, str]] = ()


def _read_points(
    annotations: Sequence[Annotation], replies: Mapping[str, Caption]
) -> tuple[dict[str, Points], dict[str, str]]:
    """Return a video model's errors by index, and why other replies are unusable."""
    found: dict[str, Points] = {}
    unusable: dict[str, str] = {}
    for one in annotations:
        try:
            if (reply := replies.get(one.index)) is None:
                raise ReplyError("there is no reply")
            given, _ = read_reply(reply.caption, lambda value, _: in_form(_Differences, value))
            points = given.differences
            pairs = [(one_of(it.element, one.elements, "element"), it.seen) for it in points]
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
    """Normalise a text: ignore case, extra spaces and a final full stop.

    >>> plain(" Zooms  in. ") == plain("zooms in"), plain("+5") == plain("-5")
    (True, False)
    """
    return " ".join(normal_form(text).casefold().split()).rstrip(".")


def _items(
    annotations: Sequence[Annotation], points: Mapping[str, Points], model: str
) -> list[ItemToAsk]:
    items = []
    for one in annotations:
        of = points.get(one.index, Points())
        pairs = {n: {"element": i, "seen": seen} for n, (i, seen) in enumerate(of.pairs, start=1)}
        values = {"annotation": annotation_json(one), "points": tag_free_json(pairs)}
        prompt = prompt_of(PROMPTS, "draft", values)
        question = ChatQuestion("draft", prompt, _Questions, _MOST_TOKENS)
        read = partial(_read, annotation=one, points=of, model=model)
        items.append(ItemToAsk(one.index, question, read))
    return items


def _read(
    reply: _Questions, *, annotation: Annotation, points: Points, model: str
) -> Mapping[str, Any]:
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
    """Return the errors among the options of a question; raises `ReplyError` for a bad question."""
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


class DraftedQuestions(tuple[Question, ...], Result):
    """The drafted questions of all videos."""

    def headline(self) -> str:
        videos = counted(len({one.video for one in self}), "video")
        errors = sum("errors" in one.tags for one in self)
        drafted = f"{counted(len(self), 'question')} about {videos} drafted"
        return f"{drafted}, {errors:,} with a video model's error as an option."


def _lettered(
    annotations: Sequence[Annotation], lines: Mapping[str, Line], seed: int
) -> DraftedQuestions:
    """Return the drafted questions of all videos in order, with the options in their places.

    The order of the wrong options is random. Four questions in a row have their right options in
    four places, in random order: each letter is right in n/4 of n questions, rounded down or up.
    With the same seed, questions keep their letters when videos are added after theirs.
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
            made = Question(
                id=f"{one.index}/{number}",
                video=one.video or one.index,
                question=asked,
                options=tuple(options),
                answer=OPTION_LETTERS[place],
                tags=tags,
            )
            questions.append(made)
    return DraftedQuestions(questions)


@command("mcq construct draft", "yes", "dry_run", options=QuestionDraftOptions)
@asynccontextmanager
async def open_question_draft(
    o: QuestionDraftOptions, *, dry_run: bool = False
) -> AsyncIterator[AskedItems[DraftedQuestions]]:
    """Draft questions of TUNA-MCQ's ten task types from annotations.

    With --errors, a video model's errors become wrong options. The replies are kept in
    NAME.drafts.jsonl. Run the same command again to resume.
    """
    out, annotations = Path(o.out), annotations_of(o.annotations)
    check_output(out, [annotations_file(o.annotations), *([o.errors] if o.errors else [])])
    check_unedited(out)
    points: Mapping[str, Points] = {}
    if o.errors is not None:
        replies = captions_by_index(o.errors, annotations, Path(o.runs), o.on_notice)
        points, unusable = _read_points(annotations, replies)
        if unusable:
            what = f"{counted(len(unusable), 'video')} without usable errors, drafted without them"
            reasons = (f"{index} ({reason})" for index, reason in unusable.items())
            o.on_notice(Loss(f"{what}: {listed(reasons, 3)}"))

    def make(lines: Mapping[str, Line]) -> DraftedQuestions:
        questions = _lettered(annotations, lines, o.seed)
        if questions:
            write_jsonl(out, map(question_line, questions))
            seal(out)
        return questions

    check = f"capeval mcq construct check {quote(str(out))} --annotations"
    async with open_chat(o, offline=dry_run) as chat:
        yield AskedItems(
            *(o, chat, _items(annotations, points, chat.model), out.with_suffix(".drafts.jsonl")),
            Labels("drafting questions of", "video", "drafted", "undrafted"),
            make=make,
            files=[str(out), f"Next: {check} {quote(str(o.annotations))}"],
        )


construct_draft_async, construct_draft = functions(
    "construct_draft", open_question_draft, QuestionDraftOptions, DraftedQuestions
)
