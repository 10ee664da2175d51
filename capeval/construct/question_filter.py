"""Temporal indispensability: which questions need several frames of the video (TUNA, 3.2.3).

A model answers each question without the video, with each of four single frames, and with 16
frames. One try with 16 frames and one with a single frame would keep 19% of guesses. Here each
condition has eight orders of the options: independent guesses are hardly ever right in seven of
them, and one letter for all is right in two.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from capeval.captioners.pipeline import CUT_OFF, READERS
from capeval.captioners.protocol import Captioner
from capeval.errors import BudgetReached, EndpointDown, InputError
from capeval.files.judgments import short_hash
from capeval.mcq.answering import AnswerWork, Asking, NoReader
from capeval.mcq.strategies import ReplyToGrade
from capeval.mcq.view import SharedReader, VideoView, recent_reads
from capeval.runs.engine import Progress, Stored, execute
from capeval.runs.folder import RunFolder
from capeval.schema.question import OPTION_LETTERS, Question, Response
from capeval.show.numbers import percent
from capeval.show.result import Result
from capeval.show.table import COUNT, Page, Table, columns
from capeval.text import counted
from capeval.video import FrameReader, open_reader
from capeval.video.frames import Timeline
from capeval.video.sampling import Choice

OPTIONS, ORDERS = 4, 8
FEWEST_RIGHT = 7
"""Of eight replies with 16 frames. Answered at 90%, 81% of questions pass; of guesses, 0.04%."""
MOST_RIGHT = 4
"""Of eight replies without the video, or with a single frame; 97% of guesses are not above it."""
SINGLE_FRAMES = 4
FRAMES = "16-frames"
CONDITIONS = ("blind", *(f"frame-{number + 1}" for number in range(SINGLE_FRAMES)), FRAMES)
"""What the model sees, the cheapest first; with 16 frames it must be right, otherwise not."""

# How many orders are asked at a time: a video is read once for all of them. What fails early, fails
# in the first of these.
_BLOCKS = dict.fromkeys(CONDITIONS, (4, 2, 2)) | {FRAMES: (2, 2, 3, 1)}

Status = Literal["kept", "dropped", "undecided"]


@dataclass(frozen=True)
class FrameAt:
    """One frame, at a share of the video."""

    share: float

    def choose(self, timeline: Timeline) -> Choice:
        """Choose it."""
        return Choice((int(self.share * timeline.total),))

    def __str__(self) -> str:
        return f"frame at {self.share:.1%}"


def views() -> dict[str, tuple[VideoView, FrameReader | None]]:
    """Return what is shown in each condition, and what reads it."""
    policies: list[str | FrameAt] = [
        FrameAt((n + 0.5) / SINGLE_FRAMES) for n in range(SINGLE_FRAMES)
    ]
    policies.append("16")
    # The orders of a question, and the questions about a video, follow one another.
    recent = recent_reads(READERS)
    shown = [(VideoView(frames=str(p)), SharedReader(open_reader(p), recent)) for p in policies]
    return dict(zip(CONDITIONS, [(VideoView(blind=True), None), *shown], strict=True))


def orders(question: Question, seed: int) -> list[tuple[int, ...]]:
    """Return eight orders of a question's four options: the rotations of two.

    Each option is at each place twice. The second order is no rotation of the first.
    """
    digest = hashlib.sha256(f"{seed}\0{question.id}".encode("utf-8", "surrogatepass")).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8]))
    first = tuple(rng.permutation(OPTIONS).tolist())
    # Rotations keep who follows whom: with two options swapped, that differs.
    second = (first[0], first[2], first[1], first[3])
    return [base[k:] + base[:k] for k in range(OPTIONS) for base in (first, second)]


@dataclass
class Filtering:
    """One question on its way.

    Attributes
    ----------
    orders : of its options
    by : the condition that decided, unless it is kept
    given : the options that were chosen, by condition; None where a reply chooses none
    """

    question: Question
    orders: Sequence[tuple[int, ...]]
    status: Status | None = None
    by: str | None = None
    reason: str | None = None
    given: dict[str, list[int | None]] = field(default_factory=dict)

    @cached_property
    def variants(self) -> list[Question]:
        """The question with its options in each order; ids end in a hash of what is asked.

        Replies are therefore used again when the file, the seed or the selection changes.
        """
        question = self.question
        asked = (question.video, question.question)
        return [
            question.model_copy(
                update={
                    "id": f"{question.id}#{short_hash([*asked, options])}",
                    "options": options,
                    "answer": OPTION_LETTERS[order.index(question.right)],
                }
            )
            for order in self.orders
            for options in (tuple(question.options[n] for n in order),)
        ]

    def passes(self, condition: str, option: int) -> bool | None:
        """Return whether it is kept with an option as its key; None if the orders left decide."""
        given = self.given.get(condition, [])
        right = given.count(option)
        wrong = len(given) - right
        if condition == FRAMES:
            passes, fails = right >= FEWEST_RIGHT, wrong > ORDERS - FEWEST_RIGHT
        else:
            passes, fails = wrong >= ORDERS - MOST_RIGHT, right > MOST_RIGHT
        return passes if passes or fails else None

    def is_asked(self, condition: str) -> bool:
        """Return whether more orders are to be asked in a condition.

        With 16 frames wrong options are decided too: they are the control.
        """
        options = range(OPTIONS) if condition == FRAMES else (self.question.right,)
        return self.status is None and None in [self.passes(condition, one) for one in options]

    def json(self) -> dict[str, Any]:
        """Return the decision: how often the key was chosen, of how many replies."""
        key = self.question.right
        right = {name: [one.count(key), len(one)] for name, one in self.given.items()}
        found = {"id": self.question.id, "status": self.status or "undecided", "by": self.by}
        return {**found, "right": right, **({"reason": self.reason} if self.reason else {})}


@dataclass(frozen=True)
class Filtered(Result):
    """All questions with their decisions by a model, and why the work stopped early, if it did."""

    model: str
    items: Sequence[Filtering]
    stopped: BudgetReached | EndpointDown | None

    @property
    def counts(self) -> Counter[str]:
        """How many questions are kept, dropped and undecided."""
        return Counter(one.status or "undecided" for one in self.items)

    @property
    def kept(self) -> list[Question]:
        """The questions that need several frames."""
        return [one.question for one in self.items if one.status == "kept"]

    @property
    def control(self) -> tuple[int, int]:
        """How many wrong options would be kept as the key, of how many.

        Of the questions that were asked with 16 frames; what replies leave open counts as passed. A
        third of these is about how many questions are kept by chance, and too many where one wrong
        option attracts the model.
        """
        passed = [
            all(one.passes(condition, option) is not False for condition in one.given)
            for one in self.items
            if FRAMES in one.given
            for option in range(OPTIONS)
            if option != one.question.right
        ]
        return sum(passed), len(passed)

    def headline(self) -> str:
        kept, total = self.counts["kept"], len(self.items)
        decided = total - self.counts["undecided"]
        headline = f"{decided:,} of {counted(total, 'question')} decided by {self.model}"
        if decided:
            headline += (
                f", {kept:,} kept ({percent(kept / decided)}%): it answers them with "
                f"16 frames, but not with a single frame or without the video"
            )
        return f"{headline}."

    def pages(self, *, full: bool = False) -> list[Page]:  # noqa: ARG002
        counts = ("Questions", "Dropped", "Undecided", "Replies")
        table = Table(
            "By what the model saw",
            columns("Condition", *((name, COUNT) for name in counts)),
            note="Undecided: a call failed; the same command tries again.",
        )
        for condition in CONDITIONS:
            of = [one for one in self.items if condition in one.given]
            ended = Counter(one.status for one in of if one.by == condition)
            replies = sum(len(one.given[condition]) for one in of)
            table.rows.append(
                [
                    condition.replace("-", " "),
                    len(of),
                    ended["dropped"],
                    ended["undecided"],
                    replies,
                ]
            )
        passed, wrong = self.control
        notes = []
        if wrong:
            part = f"{passed:,} of {counted(wrong, 'wrong option')} ({percent(passed / wrong)}%)"
            asked = "in the questions asked with 16 frames"
            notes.append(f"Control: {part} would be kept as the right one, {asked}.")
        return [Page([table], notes=notes)]

    def as_json(self) -> dict[str, Any]:
        passed, total = self.control
        return {
            "model": self.model,
            "counts": dict(self.counts),
            "control": {"kept": passed, "of": total},
            "questions": [one.json() for one in self.items],
        }


class _Variants(AnswerWork):
    """Answers variants of questions; replies about questions of other files stay where they are."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._others: dict[str, None] = {}

    def read(self, value: Any, expected: str) -> Stored[Response]:
        """Return a response; one to another question is not among those wanted."""
        if not isinstance(value, dict) or value.get("id") in self.questions:
            return super().read(value, expected)
        found = Response.model_validate(value)
        self._others[found.id] = None
        return Stored(found.id, found, found.reason if found.reply is None else None)

    def check(self, stored: Sequence[Stored[Response]]) -> None:
        """Accept any: the file has another name once it is reviewed."""

    def remains(self, stored: Stored[Response]) -> bool:
        """Return whether a reply is about a question that is not asked now."""
        return stored.index in self._others

    def mine(self) -> list[str]:
        """Return the variants, and those of other questions that have replies."""
        return [*super().mine(), *self._others]


@dataclass
class QuestionFilter:
    """Asks one model about questions in all conditions; what it replied is kept in `folder`.

    Attributes
    ----------
    path : of the questions, as messages name it
    videos : their folder
    dollars : returns what calls have cost so far
    """

    questions: Sequence[Question]
    captioner: Captioner
    folder: Path
    path: str
    videos: Path
    seed: int
    dollars: Callable[[], float]

    def __post_init__(self) -> None:
        """Check that all questions have four options; raises `InputError`."""
        for question in self.questions:
            if (count := len(question.options)) != OPTIONS:
                what = f"has {count} options; the filter is for questions with four"
                raise InputError(what, file=self.path, where=question.id, field="options")
        self._items = [Filtering(one, orders(one, self.seed)) for one in self.questions]
        self._variants = tuple(variant for one in self._items for variant in one.variants)
        self._views = views()

    def work(self, condition: str, chosen: Sequence[Question] | None = None) -> AnswerWork:
        """Return the work of asking variants in a condition, by default all of them."""
        view, reader = self._views[condition]
        return _Variants(
            RunFolder(self.folder / condition),
            self.captioner,
            NoReader(),
            self.dollars,
            asking=Asking(
                questions=self._variants,
                chosen=self._variants if chosen is None else tuple(chosen),
                path=self.path,
                videos=self.videos if reader else None,
                view=view,
                reader_for=(lambda _: reader) if reader else None,
                decoder=reader.decoder if reader else "none",
            ),
        )

    async def run(self, progress: Progress | None = None) -> Filtered:
        """Ask what is needed until every question is decided, or its calls have failed."""
        stopped = None
        for condition in CONDITIONS:
            if stopped := await self._ask(condition, progress):
                break
        else:
            for one in self._items:
                one.status = one.status or "kept"
        return Filtered(self.captioner.name, self._items, stopped)

    async def _ask(
        self, condition: str, progress: Progress | None
    ) -> BudgetReached | EndpointDown | None:
        """Ask about questions in one condition; those that fail it are dropped."""
        for start, end in pairwise([0, *accumulate(_BLOCKS[condition])]):
            asked = [one for one in self._items if one.is_asked(condition)]
            if not asked:
                break
            chosen = [variant for one in asked for variant in one.variants[start:end]]
            finished = await execute(self.work(condition, chosen), progress)
            if finished.stopped:
                return finished.stopped
            for one in asked:
                replies = [finished.done[variant.id] for variant in one.variants[start:end]]
                _count(one, condition, replies, one.orders[start:end])
        for one in self._items:
            if one.status is None and not one.passes(condition, one.question.right):
                one.status, one.by = "dropped", condition
        return None


def _no_reply(response: Response) -> str | None:
    """Return why a reply that names no option is none; a refusal in words is one."""
    option, rule = ReplyToGrade(response).exact
    is_cut = any(CUT_OFF.partition("{")[0] in str(w) for w in response.call.get("warnings", ()))
    if option is None and (is_cut or rule in ("empty", "unfinished reasoning")):
        return "the reply is empty or cut off: allow more tokens in the model's entry"
    return None


def _count(
    one: Filtering,
    condition: str,
    replies: Sequence[Stored[Response]],
    orders: Sequence[tuple[int, ...]],
) -> None:
    """Add the options that were chosen in some orders; a failed call leaves all undecided."""
    given = one.given.setdefault(condition, [])
    for stored, order in zip(replies, orders, strict=True):
        reason = stored.reason or _no_reply(stored.value)
        if reason is not None:
            one.status, one.by, one.reason = "undecided", condition, reason
            return
        option = ReplyToGrade(stored.value).exact.option
        given.append(None if option is None else order[option])
