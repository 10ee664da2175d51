"""Check multiple-choice questions without their videos: the options, the key, and shortcuts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations, permutations
from pathlib import Path
from typing import Any, Literal

import numpy as np

from capeval.construct.drafts import Item, Line
from capeval.construct.question_drafting import PROMPTS, annotation_json, plain
from capeval.errors import InputError
from capeval.files.label_matching import read_relation
from capeval.files.packaged import prompt_of, tag_free_json
from capeval.files.videos import KnownVideos
from capeval.llm.questions import Question as ChatQuestion
from capeval.llm.replies import Number, ReplyForm, each_once
from capeval.mcq.question_files import question_line
from capeval.runs.engine import Labels
from capeval.schema import OPTION_LETTERS, Annotation, Question
from capeval.show.numbers import percent
from capeval.show.result import Result
from capeval.show.table import INTERVAL, LINE, PERCENT, Page, Table, columns
from capeval.stats.values import Interval
from capeval.stats.video_ratios import VideoRatios
from capeval.text import counted, listed, shown, words

LABELS = Labels("checking", "question", "checked", "unchecked")

Code = Literal[
    "duplicate_options", "nested_options", "catch_all", "key_not_entailed", "distractor_entailed"
]
"""What can be wrong with a question."""

PHRASES: Mapping[Code, str] = {
    "key_not_entailed": "right option not entailed by the annotation",
    "distractor_entailed": "wrong option entailed by the annotation",
    "duplicate_options": "two options are the same",
    "nested_options": "an option contains another",
    "catch_all": "an option like all of the above",
}

_CATCH_ALL = re.compile(r"\b(?:all|none|both|any|neither) of (?:the )?(?:above|these|options)\b")
# An option's relation with its keys has 14 tokens, and four times as much is enough.
_TOKENS_PER_OPTION = 56


@dataclass(frozen=True)
class Finding:
    """What is wrong with a question, and with which options, by their letters."""

    code: Code
    question: str
    options: str


@dataclass(frozen=True)
class Shortcut:
    """How often an answer that needs no video is right, with its 95% interval over videos.

    `chance` is the share that guessing gets. Without an interval there is a `reason`.
    """

    name: str
    value: float
    low: float | None
    high: float | None
    chance: float
    reason: str | None = None

    @property
    def works(self) -> bool:
        """Whether it beats chance: the interval is above it."""
        return self.low is not None and self.low > self.chance


_SHORTCUTS = {
    "longest": "the longest option",
    "overlap": "most words of the question",
    "commonest": "commonest answer of the task type",
}


def _beats(one: Shortcut) -> str | None:
    return None if one.low is None else "yes" if one.works else "no"


@dataclass(frozen=True)
class QuestionChecks(Result):
    """What was found in a set of questions, of which the chat model has checked some."""

    file: str
    model: str
    questions: int
    checked: int
    findings: tuple[Finding, ...]
    shortcuts: tuple[Shortcut, ...]

    def headline(self) -> str:
        faulty = len({one.question for one in self.findings})
        checked = f"{self.checked:,} of {counted(self.questions, 'question')} checked"
        with_findings = f", {faulty:,} with findings" if self.checked or faulty else ""
        works = [
            f"{_SHORTCUTS[one.name]} ({percent(one.value)}%)" for one in self.shortcuts if one.works
        ]
        many = ("No guesses", "One guess", "Two guesses", "Three guesses")[len(works)]
        return (
            f"{self.file}: {checked} by {self.model}{with_findings}. "
            f"{many} without the video {'beats' if len(works) == 1 else 'beat'} chance "
            f"({percent(self.shortcuts[0].chance)}%){': ' + listed(works) if works else ''}."
        )

    def pages(self, *, full: bool = False) -> list[Page]:  # noqa: ARG002
        findings = Table(
            "Findings",
            columns(("Question", LINE), "Options", "Finding", words=3),
            [[one.question, one.options, PHRASES[one.code]] for one in self.findings],
        )
        shortcuts = Table(
            "Answers without the video",
            columns("Picks", ("Right [95%]", INTERVAL), ("Chance", PERCENT), "Beats chance"),
            [[_SHORTCUTS[one.name], one, one.chance, _beats(one)] for one in self.shortcuts],
            "; ".join(dict.fromkeys(one.reason for one in self.shortcuts if one.reason)),
        )
        tables = [findings, shortcuts] if findings.rows else [shortcuts]
        return [Page(tables)]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class _Relation(ReplyForm):
    id: Number
    relation: str


class _Relations(ReplyForm):
    options: list[_Relation]


def check_items(
    questions: Sequence[Question], annotations: Sequence[Annotation], file: Path
) -> list[Item]:
    """Return what a chat model is asked: how the annotation relates to each option.

    InputError if the video of a question is not annotated.
    """
    known = KnownVideos(annotations)
    texts = {one.index: annotation_json(one) for one in annotations}
    items = []
    for one in questions:
        index = known.find(one.video, "video")
        if index is None:
            message = f"the annotations lack {shown(one.video)}; name those of these videos"
            raise InputError(message, file=file, where=f"id {shown(one.id)}", field="video")
        options = dict(enumerate(one.options, start=1))
        asked = tag_free_json({"question": one.question, "options": options})
        prompt = prompt_of(PROMPTS, "check", {"annotation": texts[index], "question": asked})
        most = 64 + _TOKENS_PER_OPTION * len(options)
        question = ChatQuestion("check", prompt, _Relations, most)
        items.append(Item(one.id, question, partial(_read, count=len(options))))
    return items


def _read(reply: _Relations, *, count: int) -> Mapping[str, Any]:
    """Return the relation of the annotation to each option, by letter; raises `ReplyError`."""
    answers = [(one.id, read_relation(one.relation, f"option {one.id}")) for one in reply.options]
    relations = each_once(answers, count, "option")
    return {"relations": dict(zip(OPTION_LETTERS, relations, strict=False))}


def checked(
    questions: Sequence[Question], lines: Mapping[str, Line], file: str, model: str
) -> QuestionChecks:
    """Return the findings of all questions, from the chat model's lines where there are any."""
    done = [one for one in questions if one.id in lines]
    findings = [Finding(code, one.id, at) for one in questions for code, at in _of_options(one)]
    findings += [
        Finding(code, one.id, at)
        for one in done
        for code, at in _of_relations(one, lines[one.id]["relations"])
    ]
    found = tuple(findings), shortcuts(questions)
    return QuestionChecks(file, model, len(questions), len(done), *found)


def with_findings(
    questions: Sequence[Question], lines: Mapping[str, Line], found: QuestionChecks
) -> Iterator[dict[str, Any]]:
    """Yield the lines of questions with the tag `findings` where there are any, in words."""
    for one in questions:
        of = [f"{it.options}: {PHRASES[it.code]}" for it in found.findings if it.question == one.id]
        of += [] if one.id in lines else ["not compared with the annotation"]
        line = question_line(one)
        line.pop("findings", None)
        yield line | ({"findings": of} if of else {})


def _of_options(question: Question) -> Iterator[tuple[Code, str]]:
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
    """Return whether words occur in a row among more words."""
    size, places = len(part), range(len(whole) - len(part) + 1)
    return 0 < size < len(whole) and any(whole[at : at + size] == part for at in places)


def _of_relations(question: Question, relations: Mapping[str, str]) -> Iterator[tuple[Code, str]]:
    for letter, relation in relations.items():
        if letter == question.answer and relation != "entailment":
            yield "key_not_entailed", letter
        if letter != question.answer and relation == "entailment":
            yield "distractor_entailed", letter


def shortcuts(questions: Sequence[Question]) -> tuple[Shortcut, ...]:
    """Return how often each shortcut finds the right option; options that tie share the credit.

    - longest: the option with the most characters
    - overlap: the option with the most words of the question
    - commonest: the option that is most often right in questions of its task type about other
      videos

    Whole videos are resampled.
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
        value, ends = float(right[:, column].sum()) / len(questions), ratios.share(column)
        low, high = (ends.low, ends.high) if isinstance(ends, Interval) else (None, None)
        reason = None if isinstance(ends, Interval) else ends.reason
        found.append(Shortcut(name, value, low, high, chance, reason))
    return tuple(found)


def _type(question: Question) -> str:
    return str(question.tags.get("task_type", ""))
