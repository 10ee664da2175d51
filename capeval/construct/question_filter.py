"""`capeval mcq construct filter`: which questions need several frames of the video (TUNA, 3.2.3).

A model answers each question without the video, with each of four single frames, and with 16
frames. One answer with 16 frames and one with a single frame would keep 19% of random guesses. Here
each condition has eight orders of the options: random guesses are hardly ever right in seven of
them, and a fixed letter is right in two.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from capeval.captioners.catalogue import OpenCaptioner
from capeval.captioners.generate import default_run
from capeval.captioners.opening import choose_model, open_captioner
from capeval.captioners.options import CaptionerOptions
from capeval.captioners.pipeline import CUT_OFF, estimate_generation
from capeval.construct.asked_items import check_unedited, seal
from capeval.errors import BudgetReached, EndpointDown, InputError
from capeval.files.annotations import VideoFolder
from capeval.files.jsonl import check_output, short_hash, write_jsonl
from capeval.mcq.answer import default_question_videos
from capeval.mcq.answering import AnswerWork, Asking
from capeval.mcq.question_files import load_questions, question_file, question_line
from capeval.mcq.strategies import ReplyToGrade
from capeval.mcq.view import SharedReader, VideoView, recent_reads
from capeval.options import (
    INPUTS,
    MODEL,
    OUTPUT,
    FilePath,
    command,
    declares,
    in_file,
    option,
    python_only,
    required,
)
from capeval.runs.engine import (
    Done,
    Labels,
    Left,
    Locks,
    LongWork,
    Progress,
    Stored,
    WorkEstimate,
    execute,
    functions,
)
from capeval.runs.folder import RunFolder
from capeval.schema import OPTION_LETTERS, Question, Response, Usage
from capeval.show.numbers import percent
from capeval.show.result import Result
from capeval.show.table import COUNT, Page, Table, columns
from capeval.text import counted
from capeval.video import FrameReader, open_reader
from capeval.video.sampling import Choice, Timeline

if TYPE_CHECKING:
    from capeval.captioners.protocol import Captioner, SimpleCaptioner

OPTIONS, ORDERS = 4, 8
FEWEST_RIGHT = 7
"""Of eight replies with 16 frames. With an accuracy of 90%, 81% pass; of guesses, 0.04%."""
MOST_RIGHT = 4
"""Of eight replies without the video or with a single frame; 97% of guesses are not above it."""
SINGLE_FRAMES = 4
FRAMES = "16-frames"
CONDITIONS = ("blind", *(f"frame-{number + 1}" for number in range(SINGLE_FRAMES)), FRAMES)
"""Cheapest first. The model must be right with 16 frames only."""

# The number of orders in each block of calls, which reads a video once. Most questions that fail do
# so in the first block.
_BLOCKS = dict.fromkeys(CONDITIONS, (4, 2, 2)) | {FRAMES: (2, 2, 3, 1)}

Status = Literal["kept", "dropped", "undecided"]


@declares
class QuestionFilterOptions(CaptionerOptions):
    """The arguments of `capeval.construct_filter`.

    Parameters
    ----------
    model : As in `capeval generate`.
    questions : A file of questions.
    videos : The folder of the videos. By default videos/ next to the questions, else the questions'
        own folder.
    out : The questions that are kept. By default QUESTIONS.kept.jsonl.
    batch_size : Questions at a time on a GPU.
    seed : The seed of the orders of the options.
    """

    questions: FilePath = required(positional=True, metavar="QUESTIONS")
    _: KW_ONLY
    model: str | Captioner | SimpleCaptioner | None = option(
        None, note="Or a `Captioner` of your own.", method="caption", panel=MODEL, metavar="NAME"
    )
    videos: FilePath | None = option(None, panel=INPUTS, metavar="DIR")
    out: FilePath | None = option(None, panel=OUTPUT, metavar="FILE")
    batch_size: int | Literal["auto"] = in_file("auto", min=1, max=4096)
    device: str | None = in_file(None)
    seed: int = python_only(0, min=0)
    max_concurrency: int = in_file(32, min=1, max=4096)
    only: Collection[str] = field(default=(), init=False)
    limit: int | None = field(default=None, init=False)
    serve: bool = field(default=False, init=False)
    gpus: int | None = field(default=None, init=False)
    max_new_tokens: int | None = field(default=None, init=False)
    temperature: float | None = field(default=None, init=False)


@dataclass(frozen=True)
class FrameAt:
    """One frame, at a share of the video."""

    share: float

    def choose(self, timeline: Timeline) -> Choice:
        return Choice((int(self.share * timeline.total),))

    def __str__(self) -> str:
        return f"frame at {self.share:.1%}"


def views() -> dict[str, tuple[VideoView, FrameReader | None]]:
    """Return the view of each condition, and its reader."""
    single = [FrameAt((n + 0.5) / SINGLE_FRAMES) for n in range(SINGLE_FRAMES)]
    policies: list[str | FrameAt] = [*single, "16"]
    # Questions about one video follow one another, as do the orders of a question.
    recent = recent_reads()
    shown = [(VideoView(frames=str(p)), SharedReader(open_reader(p), recent)) for p in policies]
    return dict(zip(CONDITIONS, [(VideoView(blind=True), None), *shown], strict=True))


def orders(question: Question, seed: int) -> list[tuple[int, ...]]:
    """Return eight orders of a question's four options: all rotations of two orders.

    Each option has each place twice. The second order is not a rotation of the first.
    """
    digest = hashlib.sha256(f"{seed}\0{question.id}".encode("utf-8", "surrogatepass")).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8]))
    first = tuple(rng.permutation(OPTIONS).tolist())
    # With two options swapped, it is no rotation.
    second = (first[0], first[2], first[1], first[3])
    return [base[k:] + base[:k] for k in range(OPTIONS) for base in (first, second)]


@dataclass
class Filtering:
    """One question, the orders of its options, and its replies so far.

    `by` is the condition that decided, unless the question is kept; `given` are the chosen options
    by condition, None for a reply that chooses none.
    """

    question: Question
    orders: Sequence[tuple[int, ...]]
    status: Status | None = None
    by: str | None = None
    reason: str | None = None
    given: dict[str, list[int | None]] = field(default_factory=dict)

    @cached_property
    def variants(self) -> list[Question]:
        """The question with its options in each order; ids end in a hash of the question.

        Another file, seed or selection with the same question therefore reuses its replies.
        """
        question, found = self.question, []
        for order in self.orders:
            options = tuple(question.options[n] for n in order)
            changed = short_hash([question.video, question.question, options])
            answer = OPTION_LETTERS[order.index(question.right)]
            update = {"id": f"{question.id}#{changed}", "options": options, "answer": answer}
            found.append(question.model_copy(update=update))
        return found

    def passes(self, condition: str, option: int) -> bool | None:
        """Return whether it passes with an option as its key; None while undecided."""
        given = self.given.get(condition, [])
        right = given.count(option)
        wrong = len(given) - right
        if condition == FRAMES:
            passes, fails = right >= FEWEST_RIGHT, wrong > ORDERS - FEWEST_RIGHT
        else:
            passes, fails = wrong >= ORDERS - MOST_RIGHT, right > MOST_RIGHT
        return passes if passes or fails else None

    def is_asked(self, condition: str) -> bool:
        """Return whether a condition needs more replies.

        With 16 frames, wrong options are decided too: they are the control.
        """
        options = range(OPTIONS) if condition == FRAMES else (self.question.right,)
        return self.status is None and None in [self.passes(condition, one) for one in options]

    def count(self, condition: str, replies: Sequence[Stored[Response]]) -> None:
        """Add the replies of the next orders; a failed call leaves the question undecided."""
        given = self.given.setdefault(condition, [])
        for stored in replies:
            reason = stored.reason or _no_reply(stored.value)
            if reason is not None:
                self.status, self.by, self.reason = "undecided", condition, reason
                return
            option = ReplyToGrade(stored.value).exact.option
            given.append(None if option is None else self.orders[len(given)][option])

    def json(self) -> dict[str, Any]:
        """Return the decision, with the numbers of right and of all replies by condition."""
        key = self.question.right
        right = {name: [one.count(key), len(one)] for name, one in self.given.items()}
        found = {"id": self.question.id, "status": self.status or "undecided", "by": self.by}
        return {**found, "right": right, **({"reason": self.reason} if self.reason else {})}


def _no_reply(response: Response) -> str | None:
    """Return why a reply without an option is unusable; a refusal in words is usable."""
    option, rule = ReplyToGrade(response).exact
    is_cut = any(CUT_OFF.partition("{")[0] in str(w) for w in response.call.get("warnings", ()))
    if option is None and (is_cut or rule in ("empty", "unfinished reasoning")):
        return "the reply is empty or cut off: allow more tokens in the model's entry"
    return None


@dataclass(frozen=True)
class Filtered(Result):
    """The decisions about all questions by a model."""

    model: str
    items: Sequence[Filtering]

    @property
    def counts(self) -> Counter[str]:
        return Counter(one.status or "undecided" for one in self.items)

    @property
    def kept(self) -> list[Question]:
        return [one.question for one in self.items if one.status == "kept"]

    @property
    def control(self) -> tuple[int, int]:
        """The number of wrong options that would be kept as the key, and of all wrong options.

        Only questions asked with 16 frames count; undecided options count as kept. A third of the
        first number estimates how many questions are kept by chance, or more if a wrong option
        attracts the model.
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
        if not decided:
            return f"{headline}."
        needs = "it answers them with 16 frames, but not with a single frame or without the video"
        return f"{headline}, {kept:,} kept ({percent(kept / decided)}%): {needs}."

    def pages(self, *, full: bool = False) -> list[Page]:
        counts = ("Questions", "Dropped", "Undecided", "Replies")
        table = Table(
            "By what the model saw",
            columns("Condition", *((name, COUNT) for name in counts)),
            note="Undecided: a call failed; the same command tries again.",
        )
        for condition in CONDITIONS:
            of = [one for one in self.items if condition in one.given]
            ended = Counter(one.status for one in of if one.by == condition)
            cells = (ended["dropped"], ended["undecided"], sum(len(o.given[condition]) for o in of))
            table.rows.append([condition.replace("-", " "), len(of), *cells])
        passed, wrong = self.control
        if not wrong:
            return [Page([table])]
        part = f"{passed:,} of {counted(wrong, 'wrong option')} ({percent(passed / wrong)}%)"
        asked = "would be kept as right, in the questions asked with 16 frames"
        return [Page([table], notes=[f"Control: {part} {asked}."])]

    def as_json(self) -> dict[str, Any]:
        passed, total = self.control
        return {
            "model": self.model,
            "counts": dict(self.counts),
            "control": {"kept": passed, "of": total},
            "questions": [one.json() for one in self.items],
        }


class _Variants(AnswerWork):
    """Answers variants of questions; replies about questions of other files stay in the file."""

    labels = replace(AnswerWork.labels, item="variant")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._others: dict[str, None] = {}

    def read(self, value: Any, expected: str) -> Stored[Response]:
        if not isinstance(value, dict) or value.get("id") in self.questions:
            return super().read(value, expected)
        found = Response.model_validate(value)
        self._others[found.id] = None
        return Stored(found.id, found, found.reason if found.reply is None else None)

    def check(self, stored: Sequence[Stored[Response]]) -> None:
        """Accept all: the file is renamed after its review."""

    def remains(self, stored: Stored[Response]) -> bool:
        return stored.index in self._others

    def mine(self) -> list[str]:
        return [*super().mine(), *self._others]


class QuestionFilter(LongWork[Filtered]):
    """Asks one model about questions in all conditions; its replies are kept in `folder`."""

    labels = Labels(doing="filtering", item="question", done="decided", failed="undecided")

    def __init__(
        self,
        o: QuestionFilterOptions,
        opened: OpenCaptioner,
        questions: Sequence[Question],
        folder: Path,
        videos: Path,
        out: Path,
    ) -> None:
        for one in questions:
            if (count := len(one.options)) != OPTIONS:
                what = f"has {count} options; the filter is for questions with four"
                raise InputError(what, file=str(o.questions), where=one.id, field="options")
        self.opened, self.meter, self.out = opened, opened.meter, out
        self.title = opened.title
        self.model = opened.priced if opened.base_url else ""
        self.folder = folder / default_run(opened.captioner.name)
        self.decisions = self.folder / "decisions.jsonl"
        self._path, self._videos = str(o.questions), videos
        self._items = [Filtering(one, orders(one, o.seed)) for one in questions]
        self._variants = tuple(variant for one in self._items for variant in one.variants)
        self._views, self._locks = views(), dict[str, ExitStack]()

    def _work(self, condition: str, chosen: tuple[Question, ...]) -> AnswerWork:
        view, reader = self._views[condition]
        return _Variants(
            RunFolder(self.folder / condition),
            self.opened,
            Asking(
                questions=self._variants,
                chosen=chosen,
                path=self._path,
                videos=self._videos if reader else None,
                view=view,
                reader_for=(lambda _: reader) if reader else None,
                decoder=reader.decoder if reader else "none",
            ),
        )

    async def prepare(self, locks: Locks) -> WorkEstimate:
        """Return an upper bound: most questions are decided earlier."""
        usage, calls = Usage(), 0
        for condition in CONDITIONS:
            work = self._work(condition, self._variants)
            plan, self._locks[condition] = locks.begin(work)
            _, expected = await estimate_generation(plan.todo, work.reader, self.opened, 16)
            usage, calls = usage + expected, calls + len(plan.todo)
        questions = counted(len(self._items), "question")
        line = f"{questions}: at most {counted(calls, 'call')}; most are decided with fewer"
        return self.estimate(usage, [line], {"calls": calls})

    async def results(self, progress: Progress | None = None) -> AsyncIterator[Done[Filtered]]:
        """Ask until all are decided; write the kept questions and every decision."""
        model, stopped = self.opened.captioner.name, None
        for condition in CONDITIONS:
            with self._locks[condition]:
                stopped = await self._ask(condition, progress)
            if stopped:
                break
        else:
            for one in self._items:
                one.status = one.status or "kept"
        found = Filtered(model, self._items)
        write_jsonl(self.decisions, (one.json() for one in found.items))
        if not stopped:
            write_jsonl(self.out, (_filtered_by(one, model) for one in found.kept))
            seal(self.out)
        files = [str(self.decisions)]
        if not stopped:
            review = f"capeval mcq construct review {quote(str(self.out))} --reviewers NAMES"
            files += [str(self.out), f"Review them: {review}"]
        failed = {one.question.id: one.reason for one in self._items if one.reason}
        reached = sum(one.status is None for one in self._items)
        total = len(self._items)
        left = Left(self.folder.name, self.labels, failed, total, reached, stopped)
        yield Done(found, [left], files)

    async def _ask(
        self, condition: str, progress: Progress | None
    ) -> BudgetReached | EndpointDown | None:
        for start, end in pairwise([0, *accumulate(_BLOCKS[condition])]):
            asked = [one for one in self._items if one.is_asked(condition)]
            if not asked:
                break
            chosen = tuple(variant for one in asked for variant in one.variants[start:end])
            work = self._work(condition, chosen)
            # What is asked depends on the replies so far.
            finished = await execute(work, work.plan(), progress)
            if finished.stopped:
                return finished.stopped
            for one in asked:
                one.count(condition, [finished.done[it.id] for it in one.variants[start:end]])
        for one in self._items:
            if one.status is None and not one.passes(condition, one.question.right):
                one.status, one.by = "dropped", condition
        return None


def _filtered_by(question: Question, model: str) -> dict[str, object]:
    before = question.tags.get("filtered_by")
    models = [*(before if isinstance(before, list) else []), model]
    return question_line(question) | {"filtered_by": [*dict.fromkeys(models)]}


@command("mcq construct filter", "yes", "dry_run", "as_json", options=QuestionFilterOptions)
@asynccontextmanager
async def open_filtering(
    o: QuestionFilterOptions, *, dry_run: bool = False
) -> AsyncIterator[QuestionFilter]:
    """Keep the questions that a model gets right with 16 frames, but not with one frame or none.

    Each question is asked with its options in eight orders, first without the video; one that
    fails a step is not asked further. Run the same command again to resume.
    """
    entry = choose_model(o)
    file = question_file(o.questions)
    questions = load_questions(o.questions, o.on_notice)
    videos = Path(o.videos) if o.videos else default_question_videos(str(o.questions))
    VideoFolder(videos)
    out = Path(o.out) if o.out else file.with_name(f"{file.stem}.kept.jsonl")
    check_output(out, [file])
    check_unedited(out)
    # All files here share the folder: of a reviewed file, only edited questions are asked again.
    folder = file.with_name("filter")
    run = RunFolder(folder / default_run(entry.name)) if entry and dry_run else None
    async with open_captioner(o, entry, dry_run=run) as opened:
        yield QuestionFilter(o, opened, questions, folder, videos, out)


construct_filter_async, construct_filter = functions(
    "construct_filter", open_filtering, QuestionFilterOptions, Filtered
)
