"""`capeval mcq construct check`: questions without their videos: options, key and shortcuts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, asdict, dataclass
from functools import partial
from itertools import combinations, permutations
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
from capeval.construct.question_drafting import PROMPTS, annotation_json, plain
from capeval.errors import InputError
from capeval.files.annotations import KnownVideos
from capeval.files.jsonl import write_jsonl
from capeval.files.judgments import read_relation
from capeval.judging.judges import open_chat
from capeval.language import words
from capeval.llm.asker import ChatQuestion
from capeval.llm.replies import Number, ReplyForm, each_once
from capeval.mcq.question_files import load_questions, question_file, question_line
from capeval.options import INPUTS, FilePath, command, declares, python_only, required
from capeval.runs.engine import Labels, functions
from capeval.runs.sources import annotations_of
from capeval.schema import OPTION_LETTERS, Annotation, Question
from capeval.show.numbers import percent
from capeval.show.result import Result
from capeval.show.table import INTERVAL, LINE, PERCENT, Kind, Page, Table, columns
from capeval.stats.values import Coefficient
from capeval.stats.video_ratios import VideoRatios
from capeval.text import counted, listed, shown, tag_free_json

PHRASES = {
    "key_not_entailed": "right option not entailed by the annotation",
    "distractor_entailed": "wrong option entailed by the annotation",
    "duplicate_options": "two options are the same",
    "nested_options": "an option contains another",
    "catch_all": "an option like all of the above",
}
"""The faults of a question."""

_CATCH_ALL = re.compile(r"\b(?:all|none|both|any|neither) of (?:the )?(?:above|these|options)\b")
# An option's relation with its keys has 14 tokens; four times as many are enough.
_TOKENS_PER_OPTION = 56


@declares
class QuestionCheckOptions(ConstructChatOptions):
    """The arguments of `capeval.construct_check`.

    Parameters
    ----------
    questions : A file of questions.
    annotations : The videos' annotations: a file, or 'tuna'.
    limit : Only the first N questions.
    """

    questions: FilePath = required(positional=True, metavar="QUESTIONS")
    _: KW_ONLY
    limit: int | None = python_only(None, min=1)
    annotations: FilePath = required(panel=INPUTS, metavar="FILE")


@dataclass(frozen=True)
class QuestionFinding:
    """A fault of a question: its code, and the letters of the faulty options."""

    code: str
    question: str
    options: str


@dataclass(frozen=True)
class Shortcut:
    """The share of right answers of a guess that needs no video, with its interval over videos.

    `chance` is the share of random guesses. Without an interval there is a `reason`.
    """

    name: str
    value: float
    low: float | None
    high: float | None
    chance: float
    reason: str | None = None

    @property
    def beats_chance(self) -> bool | None:
        """Whether the interval is above chance; None without one."""
        return None if self.low is None else self.low > self.chance


_SHORTCUTS = {
    "longest": "the longest option",
    "overlap": "most words of the question",
    "commonest": "commonest answer of the task type",
}


@dataclass(frozen=True)
class QuestionChecks(Result):
    """Findings about a set of questions, of which the chat model has checked `checked`."""

    file: str
    model: str
    questions: int
    checked: int
    findings: tuple[QuestionFinding, ...]
    shortcuts: tuple[Shortcut, ...]

    def headline(self) -> str:
        faulty = len({one.question for one in self.findings})
        checked = f"{self.checked:,} of {counted(self.questions, 'question')} checked"
        with_findings = f", {faulty:,} with findings" if self.checked or faulty else ""
        beating = [one for one in self.shortcuts if one.beats_chance]
        works = [f"{_SHORTCUTS[one.name]} ({percent(one.value)}%)" for one in beating]
        chance = f"chance ({percent(self.shortcuts[0].chance)}%)"
        guesses = f"Guesses without the video that beat {chance}: {listed(works) or 'none'}."
        if all(one.beats_chance is None for one in self.shortcuts):
            guesses = f"Too few videos to test whether guesses without the video beat {chance}."
        return f"{self.file}: {checked} by {self.model}{with_findings}. {guesses}"

    def pages(self, *, full: bool = False) -> list[Page]:
        findings = Table(
            "Findings",
            columns(("Question", LINE), "Options", "Finding", words=3),
            [[one.question, one.options, PHRASES[one.code]] for one in self.findings],
        )
        beats = ("Beats chance", Kind(lambda is_so: "yes" if is_so else "no"))
        shortcuts = Table(
            "Answers without the video",
            columns(*("Picks", ("Right [95%]", INTERVAL), ("Chance", PERCENT)), beats),
            [[_SHORTCUTS[one.name], one, one.chance, one.beats_chance] for one in self.shortcuts],
            "; ".join(dict.fromkeys(one.reason for one in self.shortcuts if one.reason)),
        )
        return [Page([findings, shortcuts] if findings.rows else [shortcuts])]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class _Relation(ReplyForm):
    id: Number
    relation: str


class _Relations(ReplyForm):
    options: list[_Relation]


def _items(
    questions: Sequence[Question], annotations: Sequence[Annotation], file: Path
) -> list[ItemToAsk]:
    known = KnownVideos(annotations)
    texts = {one.index: annotation_json(one) for one in annotations}
    items = []
    for one in questions:
        index = known.find(one.video, "video")
        if index is None:
            message = f"the annotations lack {shown(one.video)}; name the videos' annotations"
            raise InputError(message, file=file, where=f"id {shown(one.id)}", field="video")
        options = dict(enumerate(one.options, start=1))
        asked = tag_free_json({"question": one.question, "options": options})
        prompt = prompt_of(PROMPTS, "check", {"annotation": texts[index], "question": asked})
        most = 64 + _TOKENS_PER_OPTION * len(options)
        question = ChatQuestion("check", prompt, _Relations, most)
        items.append(ItemToAsk(one.id, question, partial(_read, count=len(options))))
    return items


def _read(reply: _Relations, *, count: int) -> Mapping[str, Any]:
    answers = [(one.id, read_relation(one.relation, f"option {one.id}")) for one in reply.options]
    relations = each_once(answers, count, "option")
    return {"relations": dict(zip(OPTION_LETTERS, relations, strict=False))}


def _checked(
    questions: Sequence[Question], lines: Mapping[str, Line], file: Path, model: str
) -> QuestionChecks:
    done = [one for one in questions if one.id in lines]
    found = [(one, *fault) for one in questions for fault in _of_options(one)]
    found += [(one, *f) for one in done for f in _of_relations(one, lines[one.id]["relations"])]
    findings = tuple(QuestionFinding(code, one.id, at) for one, code, at in found)
    shares = shortcuts(questions)
    return QuestionChecks(str(file), model, len(questions), len(done), findings, shares)


def _with_findings(
    questions: Sequence[Question], lines: Mapping[str, Line], found: QuestionChecks
) -> Iterator[dict[str, Any]]:
    for one in questions:
        of = [f"{it.options}: {PHRASES[it.code]}" for it in found.findings if it.question == one.id]
        of += [] if one.id in lines else ["not compared with the annotation"]
        line = question_line(one)
        line.pop("findings", None)
        yield line | ({"findings": of} if of else {})


def _of_options(question: Question) -> Iterator[tuple[str, str]]:
    texts = [*zip(OPTION_LETTERS, map(plain, question.options), strict=False)]
    for (a, one), (b, other) in combinations(texts, 2):
        if one == other:
            yield "duplicate_options", a + b
    for (a, one), (b, other) in permutations(texts, 2):
        if _within(words(one), words(other)):
            yield "nested_options", a + b
    for letter, text in texts:
        if _CATCH_ALL.search(text):
            yield "catch_all", letter


def _within(part: Sequence[str], whole: Sequence[str]) -> bool:
    """Return whether words occur consecutively among more words."""
    size, places = len(part), range(len(whole) - len(part) + 1)
    return 0 < size < len(whole) and any(whole[at : at + size] == part for at in places)


def _of_relations(question: Question, relations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for letter, relation in relations.items():
        is_key = letter == question.answer
        if is_key != (relation == "entailment"):
            yield "key_not_entailed" if is_key else "distractor_entailed", letter


def shortcuts(questions: Sequence[Question]) -> tuple[Shortcut, ...]:
    """Return how often each shortcut finds the right option; tied options share the credit.

    A task type's most common answer is counted over questions on other videos. Intervals are over
    resampled videos.
    """
    every = Counter((_type(one), plain(one.options[one.right])) for one in questions)
    own = Counter((one.video, _type(one), plain(one.options[one.right])) for one in questions)

    def elsewhere(question: Question, option: str) -> int:
        key = _type(question), plain(option)
        return every[key] - own[question.video, *key]

    scores: dict[str, Callable[[Question, str], int]] = {
        "longest": lambda _, option: len(option),
        "overlap": lambda one, option: len({*words(option)} & {*words(one.question)}),
        "commonest": elsewhere,
    }
    videos = {name: at for at, name in enumerate(sorted({one.video for one in questions}))}
    right, asked = np.zeros((2, len(videos), len(scores)))
    for one in questions:
        asked[videos[one.video]] += 1
        for column, score in enumerate(scores.values()):
            points = [score(one, option) for option in one.options]
            if points[one.right] == max(points):
                right[videos[one.video], column] += 1 / points.count(max(points))
    ratios = VideoRatios(right, asked)
    chance = sum(1 / len(one.options) for one in questions) / len(questions)
    found = []
    for column, name in enumerate(scores):
        of = Coefficient.of(float(right[:, column].sum()) / len(questions), ratios.share(column))
        found.append(Shortcut(name, of.value or 0.0, of.low, of.high, chance, of.reason))
    return tuple(found)


def _type(question: Question) -> str:
    return str(question.tags.get("task_type", ""))


@command("mcq construct check", "yes", "dry_run", "as_json", options=QuestionCheckOptions)
@asynccontextmanager
async def open_check(
    o: QuestionCheckOptions, *, dry_run: bool = False
) -> AsyncIterator[AskedItems[QuestionChecks]]:
    """Check questions without their videos: options, keys, and shortcuts over the whole set.

    A chat model compares each option with the annotation. NAME.checked.jsonl has the questions with
    their findings, NAME.checks.jsonl the replies. Run the same command again to resume.
    """
    file = question_file(o.questions)
    questions = load_questions(o.questions, o.on_notice)
    items = _items(questions, annotations_of(o.annotations), file)
    out = file.with_suffix(".checked.jsonl")
    check_unedited(out)

    async with open_chat(o, offline=dry_run) as chat:

        def make(lines: Mapping[str, Line]) -> QuestionChecks:
            found = _checked(questions, lines, file, chat.model)
            if lines:
                write_jsonl(out, _with_findings(questions, lines, found))
                seal(out)
            return found

        yield AskedItems(
            *(o, chat, items, file.with_suffix(".checks.jsonl")),
            Labels("checking", "question", "checked", "unchecked"),
            make=make,
            files=[str(out), f"Next: capeval mcq construct filter {quote(str(out))} --model NAME"],
        )


construct_check_async, construct_check = functions(
    "construct_check", open_check, QuestionCheckOptions, QuestionChecks
)
