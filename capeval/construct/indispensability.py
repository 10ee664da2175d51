"""Temporal indispensability: which questions need several frames of the video (TUNA, 3.2.3).

A model answers each question without the video, with each of four single frames, and with 16
frames. Whoever guesses is right once in four tries, so one try keeps 19% of guesses. Here each
condition has eight orders of the options: a guess is hardly ever right in seven of them, and one
letter for all is right in two.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from capeval.captioners.pipeline import READERS
from capeval.captioners.protocol import Captioner
from capeval.errors import BudgetReached, EndpointDown, InputError
from capeval.mcq.answering import AnswerWork, Asking, NoReader
from capeval.mcq.frames import SharedReader, Shown, recent_reads
from capeval.mcq.strategies import Asked
from capeval.runs.engine import Progress, Stored, execute
from capeval.runs.folder import RunFolder
from capeval.schema.question import OPTION_LETTERS, Question, Response
from capeval.video import FrameReader, open_reader
from capeval.video.frames import Timeline
from capeval.video.sampling import Choice

OPTIONS, ORDERS = 4, 8
FEWEST_RIGHT = 7
"""Of eight replies with 16 frames. Answered at 90%, 81% of questions pass; of guesses, 0.04%."""
MOST_RIGHT = 4
"""Of eight replies without the video, or with a single frame; 97% of guesses are not above it."""
SINGLE_FRAMES = 4
FRAMES = "16"

# How many orders are asked at a time: a video is read once for all of them. What fails early, fails
# in the first of these.
_BLOCKS = {"most": (4, 2, 2), "fewest": (2, 2, 3, 1)}

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


@dataclass(frozen=True)
class Condition:
    """What the model sees; with 16 frames it must be right, otherwise it must not be."""

    name: str
    view: Shown
    reader: FrameReader | None

    @property
    def is_whole(self) -> bool:
        """Whether the model sees all frames."""
        return self.name == FRAMES

    def verdict(self, right: int, asked: int) -> bool | None:
        """Return whether a question passes, None where the orders left decide that."""
        wrong = asked - right
        if self.is_whole:
            if right >= FEWEST_RIGHT or wrong > ORDERS - FEWEST_RIGHT:
                return right >= FEWEST_RIGHT
        elif right > MOST_RIGHT or wrong >= ORDERS - MOST_RIGHT:
            return right <= MOST_RIGHT
        return None

    def is_done(self, given: Sequence[int | None], key: int) -> bool:
        """Return whether no further order is needed, given the options that were chosen.

        With 16 frames wrong options are decided too: they are the control.
        """
        options = range(OPTIONS) if self.is_whole else (key,)
        return all(self.verdict(given.count(one), len(given)) is not None for one in options)


def conditions() -> list[Condition]:
    """Return what the model is shown, the cheapest first."""
    recent = recent_reads(READERS)
    policies: dict[str, str | FrameAt] = {
        f"frame-{number + 1}": FrameAt((number + 0.5) / SINGLE_FRAMES)
        for number in range(SINGLE_FRAMES)
    }
    policies[FRAMES] = FRAMES
    return [
        Condition("blind", Shown(blind=True), None),
        *(
            # The orders of a question, and the questions about a video, follow one another.
            Condition(name, Shown(frames=str(one)), SharedReader(open_reader(one), recent))
            for name, one in policies.items()
        ),
    ]


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


def variants(question: Question, seed: int) -> list[Question]:
    """Return a question with its options in each of the eight orders; ids end in `#NUMBER`."""
    return [
        question.model_copy(
            update={
                "id": f"{question.id}#{number}",
                "options": tuple(question.options[n] for n in order),
                "answer": OPTION_LETTERS[order.index(question.right)],
            }
        )
        for number, order in enumerate(orders(question, seed), start=1)
    ]


@dataclass
class Filtering:
    """One question on its way; `given` are the options that were chosen, by condition."""

    question: Question
    status: Status | None = None
    by: str | None = None
    reason: str | None = None
    given: dict[str, list[int | None]] = field(default_factory=dict)

    def json(self) -> dict[str, Any]:
        """Return the decision: how often the key was chosen, of how many replies."""
        key = self.question.right
        right = {name: [one.count(key), len(one)] for name, one in self.given.items()}
        found = {"id": self.question.id, "status": self.status or "undecided", "by": self.by}
        return {**found, "right": right, **({"reason": self.reason} if self.reason else {})}


@dataclass(frozen=True)
class Filtered:
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

        Of the questions that were asked with 16 frames. In the other conditions what the replies
        leave open counts as passed, so the share is rather too large.
        """
        passed = total = 0
        for one in self.items:
            if FRAMES not in one.given:
                continue
            for option in {*range(OPTIONS)} - {one.question.right}:
                total += 1
                passed += all(
                    given.count(option) >= FEWEST_RIGHT
                    if name == FRAMES
                    else given.count(option) <= MOST_RIGHT
                    for name, given in one.given.items()
                )
        return passed, total

    def json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        passed, total = self.control
        return {
            "model": self.model,
            "counts": dict(self.counts),
            "control": {"kept": passed, "of": total},
            "questions": [one.json() for one in self.items],
        }


class _Variants(AnswerWork):
    """Answers variants of questions; drops replies about questions that are no longer there."""

    def read(self, value: Any, expected: str) -> Stored[Response]:
        """Return a response; one to another question is not among those wanted."""
        if isinstance(value, dict) and value.get("id") not in self.questions:
            return Stored(str(value.get("id")), Response.model_validate(value))
        return super().read(value, expected)

    def check(self, stored: Sequence[Stored[Response]]) -> None:
        """Accept any: a reviewed file has another name and fewer questions."""


class IndispensabilityFilter:
    """Asks one model about questions in all conditions; what it replied is kept in `folder`.

    Parameters
    ----------
    path : of the questions, as messages name it
    videos : their folder
    dollars : returns what calls have cost so far

    Raises
    ------
    InputError
        A question has not four options.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        captioner: Captioner,
        folder: Path,
        *,
        path: str,
        videos: Path,
        seed: int = 0,
        dollars: Callable[[], float] = lambda: 0.0,
    ) -> None:
        for question in questions:
            if len(question.options) != OPTIONS:
                what = f"has {len(question.options)} options; the filter is for questions with four"
                raise InputError(what, file=path, where=question.id, field="options")
        self.questions, self.folder, self.conditions = questions, folder, conditions()
        self._captioner, self._path, self._videos = captioner, path, videos
        self._dollars, self._seed = dollars, seed
        self._variants = {one.id: variants(one, seed) for one in questions}
        self._orders = {one.id: orders(one, seed) for one in questions}

    def work(self, condition: Condition, chosen: Sequence[Question]) -> AnswerWork:
        """Return the work of asking variants of questions in a condition."""
        reader = condition.reader
        every = tuple(one for several in self._variants.values() for one in several)
        return _Variants(
            RunFolder(self.folder / condition.name),
            self._captioner,
            NoReader(),
            self._dollars,
            asking=Asking(
                questions=every,
                chosen=tuple(chosen),
                path=self._path,
                videos=self._videos if reader else None,
                view=condition.view,
                reader_for=(lambda _: reader) if reader else None,
                decoder=reader.decoder if reader else "none",
            ),
        )

    def every_work(self) -> Iterator[AnswerWork]:
        """Yield the work of each condition, as if nothing were decided early."""
        for condition in self.conditions:
            yield self.work(condition, [v for all_ in self._variants.values() for v in all_])

    async def run(self, progress: Progress | None = None) -> Filtered:
        """Ask what is needed until every question is decided, or its calls have failed."""
        items = [Filtering(question) for question in self.questions]
        stopped = None
        for condition in self.conditions:
            stopped = await self._ask(
                [one for one in items if one.status is None], condition, progress
            )
            if stopped:
                break
        for one in items:
            if one.status is None and not stopped:
                one.status = "kept"
        return Filtered(self._captioner.name, items, stopped)

    async def _ask(
        self, items: Sequence[Filtering], condition: Condition, progress: Progress | None
    ) -> BudgetReached | EndpointDown | None:
        """Ask about questions in one condition; those that fail it are dropped."""
        blocks = _BLOCKS["fewest" if condition.is_whole else "most"]
        for start, end in pairwise([0, *accumulate(blocks)]):
            asked = [
                one
                for one in items
                if one.status is None
                and not condition.is_done(one.given.get(condition.name, ()), one.question.right)
            ]
            if not asked:
                break
            chosen = [v for one in asked for v in self._variants[one.question.id][start:end]]
            finished = await execute(self.work(condition, chosen), progress)
            if finished.stopped:
                return finished.stopped
            for one in asked:
                self._count(one, condition, range(start, end), finished.done)
        for one in items:
            given = one.given.get(condition.name, [])
            if one.status is None and not condition.verdict(
                given.count(one.question.right), len(given)
            ):
                one.status, one.by = "dropped", condition.name
        return None

    def _count(
        self, one: Filtering, condition: Condition, numbers: range, done: Mapping[str, Any]
    ) -> None:
        """Add the options that were chosen in some orders; a failed call leaves all undecided."""
        given = one.given.setdefault(condition.name, [])
        for number in numbers:
            stored = done[self._variants[one.question.id][number].id]
            if stored.reason is not None:
                one.status, one.by, one.reason = "undecided", condition.name, stored.reason
                return
            given.append(_chosen(stored.value, self._orders[one.question.id][number]))


def _chosen(response: Response, order: Sequence[int]) -> int | None:
    """Return the option of the question itself that a reply chooses; None where it chooses none."""
    option = Asked(response).exact.option
    return None if option is None else order[option]
