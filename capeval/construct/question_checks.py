"""Check multiple-choice questions without their videos: the options, the key, and shortcuts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, permutations
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np

from capeval.construct.chat_work import Item, Line
from capeval.construct.question_drafting import PROMPTS, annotation_lines, plain
from capeval.errors import InputError
from capeval.files.label_matching import read_relation
from capeval.files.packaged import prompt_of, tag_free_json
from capeval.files.videos import SUFFIXES
from capeval.judging.segments import words
from capeval.llm.questions import Question as ChatQuestion
from capeval.llm.replies import Number, ReplyForm, each_once
from capeval.runs.engine import Labels
from capeval.schema import OPTION_LETTERS, Annotation, Question
from capeval.stats.values import Interval
from capeval.stats.video_ratios import VideoRatios
from capeval.text import shown

LABELS = Labels("checking", "question", "checked", "unchecked")

Code = Literal[
    "duplicate_options", "nested_options", "catch_all", "key_not_entailed", "distractor_entailed"
]
"""What can be wrong with a question."""

ShortcutName = Literal["longest", "overlap", "commonest"]

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

    name: ShortcutName
    value: float
    low: float | None
    high: float | None
    chance: float
    reason: str | None = None

    @property
    def works(self) -> bool:
        """Whether it beats chance: the interval is above it."""
        return self.low is not None and self.low > self.chance


@dataclass(frozen=True)
class QuestionChecks:
    """What was found in a set of questions, of which the chat model has checked some."""

    file: str
    model: str
    questions: int
    videos: int
    checked: int
    findings: tuple[Finding, ...]
    shortcuts: tuple[Shortcut, ...]


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
    named = {_bare(name): one for one in annotations for name in (one.video, one.index) if name}
    lines = {one.index: annotation_lines(one) for one in annotations}
    items = []
    for one in questions:
        if (annotation := named.get(_bare(one.video))) is None:
            message = f"the annotations lack {shown(one.video)}; name those of these videos"
            raise InputError(message, file=file, where=f"id {shown(one.id)}", field="video")
        options = dict(enumerate(one.options, start=1))
        asked = tag_free_json({"question": one.question, "options": options})
        values = {"annotation": lines[annotation.index], "question": asked}
        prompt = prompt_of(PROMPTS, "check", values)
        most = 64 + _TOKENS_PER_OPTION * len(options)
        question = ChatQuestion("check", prompt, _Relations, most)
        items.append(Item(one.id, question, partial(_read, count=len(options))))
    return items


def _bare(name: str) -> str:
    path = PurePosixPath(name)
    return str(path.with_suffix("")) if path.suffix.lower() in SUFFIXES else name


def _read(reply: _Relations, *, count: int) -> Mapping[str, Any]:
    """Return the relation of each option in order; raises `ReplyError`."""
    answers = [(one.id, one.relation) for one in reply.options]
    labels = enumerate(each_once(answers, count, "option"), start=1)
    return {"relations": [read_relation(label, f"option {number}") for number, label in labels]}


def checked(
    questions: Sequence[Question], lines: Mapping[str, Line], *, file: Path, model: str
) -> QuestionChecks:
    """Return the findings of all questions, from the chat model's lines where there are any."""
    findings: list[Finding] = []
    for one in questions:
        findings += _of_options(one)
        if one.id in lines:
            findings += _of_relations(one, lines[one.id]["relations"])
    return QuestionChecks(
        file=str(file),
        model=model,
        questions=len(questions),
        videos=len({one.video for one in questions}),
        checked=sum(one.id in lines for one in questions),
        findings=tuple(findings),
        shortcuts=shortcuts(questions),
    )


def _of_options(question: Question) -> list[Finding]:
    texts = [*zip(OPTION_LETTERS, map(plain, question.options), strict=False)]
    parts = [(letter, words(text)) for letter, text in texts]
    same = [a + b for (a, one), (b, other) in combinations(texts, 2) if one == other]
    nested = [a + b for (a, one), (b, other) in permutations(parts, 2) if _within(one, other)]
    above = [letter for letter, text in texts if _CATCH_ALL.search(text)]
    found: dict[Code, list[str]] = {
        "duplicate_options": same,
        "nested_options": nested,
        "catch_all": above,
    }
    return [
        Finding(code, question.id, letters) for code, every in found.items() for letters in every
    ]


def _within(part: Sequence[str], whole: Sequence[str]) -> bool:
    """Return whether words occur in a row among more words."""
    size = len(part)
    places = range(len(whole) - size + 1)
    return 0 < size < len(whole) and any([*whole[at : at + size]] == [*part] for at in places)


def _of_relations(question: Question, relations: Sequence[str]) -> list[Finding]:
    entailed = {letter for letter, one in zip(OPTION_LETTERS, relations) if one == "entailment"}  # noqa: B905
    found = [
        Finding("distractor_entailed", question.id, letter)
        for letter in sorted(entailed - {question.answer})
    ]
    if question.answer not in entailed:
        found.insert(0, Finding("key_not_entailed", question.id, question.answer))
    return found


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

    scores: dict[ShortcutName, Callable[[Question, str], int]] = {
        "longest": lambda _, option: len(option),
        "overlap": lambda one, option: len({*words(option)} & {*words(one.question)}),
        "commonest": elsewhere,
    }
    videos = {name: at for at, name in enumerate(sorted({one.video for one in questions}))}
    right, asked = np.zeros((2, len(videos), len(scores)))
    for one in questions:
        asked[videos[one.video]] += 1
        for column, score in enumerate(scores.values()):
            found = [score(one, option) for option in one.options]
            if found[one.right] == max(found):
                right[videos[one.video], column] += 1 / found.count(max(found))
    ratios = VideoRatios(right, asked)
    chance = sum(1 / len(one.options) for one in questions) / len(questions)
    result = []
    for column, name in enumerate(scores):
        value, ends = float(right[:, column].sum()) / len(questions), ratios.share(column)
        low, high = (ends.low, ends.high) if isinstance(ends, Interval) else (None, None)
        reason = None if isinstance(ends, Interval) else ends.reason
        result.append(Shortcut(name, value, low, high, chance, reason))
    return tuple(result)


def _type(question: Question) -> str:
    return str(question.tags.get("task_type", ""))
