"""The engine for resumable work: lock, plan, estimate, work, append, finish and progress.

A long command is one `LongWork`: an opened model and the runs that it works on. Each run is one
`ResumableTask`: it says what is already done, does the rest and names its files. It is locked and
planned once, before anything is asked or called, and stays locked until it is finished. A killed
process loses nothing, a rerun does only what is missing, and a start without any result leaves
no files.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar

from capeval.errors import BudgetReached, EndpointDown, InputError
from capeval.files.jsonl import JsonlAppender
from capeval.options import takes
from capeval.runs.concurrency import blocking
from capeval.schema import Usage
from capeval.text import nearest, one_line, shown

if TYPE_CHECKING:
    from capeval.llm.money import Meter
    from capeval.show.result import Result


class Outcome(Protocol):
    """The result for one video (or question): done, or failed with a reason, else None."""

    @property
    def index(self) -> str: ...
    @property
    def reason(self) -> str | None: ...


P = ParamSpec("P")
T = TypeVar("T")
OptionsT = TypeVar("OptionsT")


@dataclass(frozen=True)
class Stored(Generic[T]):
    """An outcome with its stored value; `reason` says why it failed."""

    index: str
    value: T
    reason: str | None = None


OutcomeT = TypeVar("OutcomeT", bound=Outcome)


@dataclass(frozen=True)
class Plan(Generic[OutcomeT]):
    """The plan of a task: `kept` outcomes are already stored, `todo` items are not.

    A kept outcome that failed is listed in `todo` too if it is to be tried again.
    """

    name: str
    kept: Mapping[str, OutcomeT]
    todo: Sequence[Any]


PlanT = TypeVar("PlanT", bound=Plan[Any])


def left_of(
    items: Iterable[T], kept: Mapping[str, Outcome], index_of: Callable[[T], str]
) -> list[T]:
    """Return the items without a stored outcome, then the failed ones.

    These may fail again, and stop the work before it reaches the others.
    """
    left = [one for one in items if (of := kept.get(index_of(one))) is None or of.reason]
    return sorted(left, key=lambda one: index_of(one) in kept)


@dataclass(frozen=True)
class Spent:
    """Tokens and US dollars used so far."""

    usage: Usage = field(default_factory=Usage)
    dollars: float = 0.0

    @property
    def tokens(self) -> int:
        return self.usage.input_tokens + self.usage.output_tokens


@dataclass(frozen=True)
class Labels:
    """How messages name a kind of task: "judging 3 captions", "2 of 3 captions judged"."""

    doing: str
    item: str
    done: str
    failed: str


class ResumableTask(ABC, Generic[PlanT, OutcomeT]):
    """One kind of resumable work on one run."""

    labels: Labels

    def locked(self) -> AbstractContextManager[object]:
        """Lock the run for this process; raise `RunLocked` if another process holds it."""
        return nullcontext()

    @abstractmethod
    def plan(self) -> PlanT:
        """Return the remaining work. Called in the lock; checks everything and writes nothing."""

    def create(self, plan: PlanT) -> None:
        """Write what must exist before the first outcome: by default nothing."""

    @abstractmethod
    async def perform(self, plan: PlanT, record: Callable[[OutcomeT], None]) -> None:
        """Do what the plan lists and call `record` once for each outcome, as soon as it is known.

        BudgetReached or EndpointDown end it early; what was recorded is kept and finished.
        """

    def line(self, outcome: OutcomeT) -> tuple[Path, Mapping[str, Any]] | None:
        """Return the file and the JSON line that keep an outcome; by default it has none."""

    def finish(self, plan: PlanT, done: Mapping[str, OutcomeT]) -> None:
        """Rewrite the files from all outcomes, kept and new, in their final order."""

    def spent(self) -> Spent:
        """Return the usage so far: by default nothing, as no model is called."""
        return Spent()


@dataclass(frozen=True)
class Status:
    """The progress of a task; `done` counts what this process did, out of `total`.

    `last` is the outcome that was just recorded, None before the first.
    """

    name: str
    labels: Labels
    kept: int
    total: int
    done: int = 0
    failed: int = 0
    seconds: float = 0.0
    spent: Spent = field(default_factory=Spent)
    last: Outcome | None = None

    @property
    def rate(self) -> float:
        return self.done / max(self.seconds, 1e-9)

    @property
    def seconds_left(self) -> float:
        return (self.total - self.done) * self.seconds / max(self.done, 1)


class Progress(Protocol):
    """Shows progress."""

    def update(self, status: Status) -> None:
        """Show a status; the first of each task has `done` 0."""


@dataclass(frozen=True)
class Finished(Generic[OutcomeT]):
    """What `execute` did: all outcomes, kept and new, and why it stopped early, if it did.

    `new` are the indexes of the outcomes recorded in this process; `is_written` says whether the
    files were rewritten, which they are not if the work was stopped at once.
    """

    done: Mapping[str, OutcomeT]
    new: frozenset[str]
    stopped: BudgetReached | EndpointDown | None
    is_written: bool


class Locks(ExitStack):
    """The locks of the runs of a command, each held from planning until the run is finished.

    A dry run writes nothing and locks nothing (`held` is False).
    """

    def __init__(self, *, held: bool = True) -> None:
        super().__init__()
        self._held = held

    def hold(self, lock: AbstractContextManager[object]) -> ExitStack:
        if not self._held:
            return ExitStack()
        with ExitStack() as held:
            held.enter_context(lock)
            return self.enter_context(held.pop_all())

    def begin(self, task: ResumableTask[PlanT, OutcomeT]) -> tuple[PlanT, ExitStack]:
        """Lock the run of a task and plan; closing the returned stack releases the lock."""
        lock = self.hold(task.locked())
        try:
            return task.plan(), lock
        except BaseException:
            lock.close()
            raise


async def execute(
    task: ResumableTask[PlanT, OutcomeT], plan: PlanT, progress: Progress | None = None
) -> Finished[OutcomeT]:
    """Perform and finish a task by its plan, under the lock of the plan.

    Each outcome is appended to its file before the next one is taken, so that a killed process
    loses at most the line being written. Files and folders are created with the first outcome: a
    start that fails before it, because of a wrong key or model name, leaves nothing.

    EndpointRefused means that no call can succeed; outcomes recorded before are kept.
    """
    done: dict[str, OutcomeT] = dict(plan.kept)
    new: set[str] = set()
    begun, recorded, failed = time.monotonic(), 0, 0
    kept = sum(outcome.reason is None for outcome in done.values())
    stopped: BudgetReached | EndpointDown | None = None

    def show(last: OutcomeT | None = None) -> None:
        if progress is not None:
            seconds, total = time.monotonic() - begun, len(plan.todo)
            progress.update(
                Status(
                    *(plan.name, task.labels, kept, total, recorded, failed, seconds),
                    spent=task.spent(),
                    last=last,
                )
            )

    show()
    with _Files(lambda: task.create(plan)) as files:

        def record(outcome: OutcomeT) -> None:
            nonlocal recorded, failed
            files.keep(task.line(outcome))
            done[outcome.index] = outcome
            new.add(outcome.index)
            recorded += 1
            failed += outcome.reason is not None
            show(outcome)

        try:
            await task.perform(plan, record)
        except (BudgetReached, EndpointDown) as failure:
            stopped = failure
        # A task that stopped at once has nothing to finish, and must not leave files behind.
        is_written = bool(new) or not stopped or any(one.reason is None for one in done.values())
        if is_written:
            files.create()
            task.finish(plan, done)
    return Finished(done, frozenset(new), stopped, is_written)


class _Files(ExitStack):
    def __init__(self, create: Callable[[], None]) -> None:
        super().__init__()
        self._create: Callable[[], None] | None = create
        self._open: dict[Path, JsonlAppender] = {}

    def create(self) -> None:
        if self._create:
            create, self._create = self._create, None
            create()

    def keep(self, entry: tuple[Path, Mapping[str, Any]] | None) -> None:
        self.create()
        if entry is None:
            return
        path, line = entry
        if path not in self._open:
            self._open[path] = self.enter_context(JsonlAppender(path))
        self._open[path].append(line)


def select(
    items: Sequence[T],
    index_of: Callable[[T], str],
    *,
    only: Collection[str] = (),
    limit: int | None = None,
    missing: str = "no caption has the index",
) -> tuple[T, ...]:
    """Return the items that `--only` and `--limit` select, in their order."""
    known = [index_of(item) for item in items]
    for index in only:
        if index not in known:
            raise InputError(f"{missing} {shown(index)}{nearest(index, known)}", field="--only")
    wanted = set(only)
    return tuple(item for item in items if not wanted or index_of(item) in wanted)[:limit]


# ---- A long command ----------------------------------------------------------------------------

R = TypeVar("R")


@dataclass(frozen=True)
class WorkEstimate:
    """The remaining work and its expected cost.

    `known` is the cost in US dollars of the models with a price. `todo` is the work in words, one
    line each, and `details` the same as JSON values. `expects` are the names of the results, if
    known in advance.
    """

    usage: Usage = field(default_factory=Usage)
    known: float = 0.0
    unpriced: Sequence[str] = ()
    todo: Sequence[str] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    expects: Sequence[str] = ()

    @property
    def cost(self) -> float | None:
        return None if self.unpriced else self.known

    @property
    def calls(self) -> int:
        return self.usage.calls


@dataclass(frozen=True)
class Left:
    """The items of a run that are still without a result; `of` is the number requested.

    `reasons` says by index why items failed; `not_reached` were not tried.
    """

    name: str
    labels: Labels
    reasons: Mapping[str, str]
    of: int
    not_reached: int = 0
    stopped: BudgetReached | EndpointDown | None = None

    @property
    def count(self) -> int:
        return len(self.reasons) + self.not_reached


def failure_lines(name: str, failed: str, reasons: Mapping[str, str]) -> list[str]:
    """Return why items of a run have `failed`, one line for each of at most five."""
    lines = [
        one_line(f"{name}: {index} is {failed}: {reason}", 600)
        for index, reason in [*reasons.items()][:5]
    ]
    if (more := len(reasons) - 5) > 0:
        lines.append(f"{one_line(name)}: {more:,} more {'is' if more == 1 else 'are'} {failed}")
    return lines


@dataclass(frozen=True)
class Done(Generic[R]):
    """The result for one run; `files` are its files, and what to do with them."""

    value: R
    left: Sequence[Left] = ()
    files: Sequence[str] = ()

    @property
    def stopped(self) -> BudgetReached | EndpointDown | None:
        return next((one.stopped for one in self.left if one.stopped), None)


class LongWork(ABC, Generic[R]):
    """An opened model and its work; one command is one such class and its result.

    Attributes
    ----------
    title : what does the work, in words
    model : whose price is looked up; empty for a model in this process
    thinks : whether it reasons, which is billed but not in an estimate
    caches_replies : whether an item takes several replies, which are cached
    notices : what the user should know before anything is called
    """

    title = ""
    model = ""
    meter: Meter
    thinks = False
    caches_replies = False
    notices: Sequence[str] = ()

    @abstractmethod
    async def prepare(self, locks: Locks) -> WorkEstimate:
        """Lock, load and plan every run once, and return what there is to do.

        Nothing is called or written.
        """

    def estimate(
        self,
        usage: Usage,
        todo: Sequence[str],
        details: Mapping[str, Any],
        expects: Sequence[str] = (),
    ) -> WorkEstimate:
        cost = self.meter.cost(self.model, usage)
        unpriced = [self.model] if cost is None else []
        return WorkEstimate(usage, cost or 0.0, unpriced, todo, details, expects)

    @abstractmethod
    def results(self, progress: Progress | None = None) -> AsyncIterator[Done[R]]:
        """Do the planned work and yield each result; the last may be incomplete."""

    def value(self, results: Sequence[R]) -> Any:
        """Return what the public function returns: by default the only result."""
        return results[0]

    def shown(self, results: Sequence[R]) -> Result:
        """Return what the command shows of at least one result: by default the function's value."""
        found: Result = self.value(results)
        return found


_RAISES = """Raises
------
InputError, UsageError
    The inputs or options are not valid.
EndpointRefused, EndpointDown, BudgetReached
    The work had to stop; what was done is kept.

"""


def functions(
    name: str,
    opening: Callable[[OptionsT], AbstractAsyncContextManager[LongWork[Any]]],
    options: Callable[P, OptionsT],
    returns: type[T],
) -> tuple[Callable[P, Coroutine[Any, Any, T]], Callable[P, T]]:
    """Return `NAME_async` and `NAME`, which do all of a long work and return its value.

    They raise the error that stopped it, if any. Their docstring is that of the opening.
    """

    async def work(o: OptionsT) -> T:
        async with opening(o) as opened:
            with Locks() as locks:
                await opened.prepare(locks)
                progress = getattr(o, "progress", None)
                done = [one async for one in opened.results(progress)]
        for one in done:
            if one.stopped:
                raise one.stopped
        found: T = opened.value([one.value for one in done])
        return found

    work.__name__ = work.__qualname__ = f"{name}_async"
    work.__module__ = opening.__module__
    text, example, more = cleandoc(opening.__doc__ or "").partition("Example\n-------")
    work.__doc__ = f"{text.rstrip()}\n\n{_RAISES}{example}{more}".rstrip()
    work.__annotations__["return"] = returns
    found = takes(options)(work)
    return found, blocking(found)
