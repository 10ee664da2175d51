"""The engine for resumable work: lock, plan, append, finish and progress.

Judging, generating and every other long stage are one `ResumableTask` each. The task says what is
already done, does the rest and names its files; the engine runs it so that a killed process loses
nothing, a rerun does only what is missing, and a start that achieves nothing leaves no files.

The engine knows no model and no client. A task owns its concurrency (async calls, batches on a
GPU) and reports what it spends as `Spent`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from capeval.errors import BudgetReached, EndpointDown, InputError
from capeval.files.jsonl import JsonlAppender
from capeval.schema.judgment import Usage
from capeval.text import nearest, shown


class Outcome(Protocol):
    """The result for one video (or question): done, or failed with a reason."""

    @property
    def index(self) -> str:
        """Which video it is."""

    @property
    def reason(self) -> str | None:
        """Why it failed; None if it did not."""


T = TypeVar("T")


@dataclass(frozen=True)
class Stored(Generic[T]):
    """An outcome with the value that is stored of it; `reason` says why it failed."""

    index: str
    value: T
    reason: str | None = None


OutcomeT = TypeVar("OutcomeT", bound=Outcome)


@dataclass(frozen=True)
class Plan(Generic[OutcomeT]):
    """What a task will do: `kept` outcomes are already stored, `todo` are the items that are not.

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


class ResumableTask(Protocol[PlanT, OutcomeT]):
    """One kind of resumable work on one run."""

    @property
    def labels(self) -> Labels: ...

    def locked(self) -> AbstractContextManager[object]:
        """Hold the run for this process; raise `RunLocked` if another process holds it."""

    def plan(self) -> PlanT:
        """Return what is left to do. Called inside the lock; checks everything, writes nothing."""

    def create(self, plan: PlanT) -> None:
        """Write what must exist before the first outcome: by default nothing."""
        del plan

    async def perform(self, plan: PlanT, record: Callable[[OutcomeT], None]) -> None:
        """Do what the plan lists and call `record` once for each outcome, as soon as it is known.

        BudgetReached or EndpointDown end it early; what was recorded is kept and finished.
        """

    def line(self, plan: PlanT, outcome: OutcomeT) -> tuple[Path, Mapping[str, Any]] | None:
        """Return the file and the JSON line that keep an outcome; by default it has none."""
        del plan, outcome
        return None

    def finish(self, plan: PlanT, done: Mapping[str, OutcomeT]) -> None:
        """Rewrite the files from all outcomes, kept and new, in their final order."""
        del plan, done

    def spent(self) -> Spent:
        """Return what was used so far: by default nothing, where no model is called."""
        return Spent()


@dataclass(frozen=True)
class Status:
    """How far a task has got; `done` counts what this process did, out of `total`.

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
        """Items a second."""
        return self.done / max(self.seconds, 1e-9)

    @property
    def seconds_left(self) -> float:
        """Seconds until all is done, if the rate stays as it is."""
        return (self.total - self.done) * self.seconds / max(self.done, 1)


class Progress(Protocol):
    """Shows how work proceeds."""

    def update(self, status: Status) -> None:
        """Show a status; the first of each task has `done` 0."""


@dataclass(frozen=True)
class Finished(Generic[PlanT, OutcomeT]):
    """What `execute` did: all outcomes, kept and new, and why it stopped early, if it did.

    `new` are the indexes of the outcomes recorded in this process.
    """

    plan: PlanT
    done: Mapping[str, OutcomeT]
    new: frozenset[str]
    stopped: BudgetReached | EndpointDown | None


async def execute(
    task: ResumableTask[PlanT, OutcomeT], progress: Progress | None = None
) -> Finished[PlanT, OutcomeT]:
    """Lock, plan, perform and finish a task.

    Each outcome is appended to its file before the next one is taken, so that a killed process
    loses at most the line being written. Files and folders are created with the first outcome: a
    start that fails before it, because of a wrong key or model name, leaves nothing.

    Raises
    ------
    RunLocked, InputError, UsageError
        The task cannot begin.
    EndpointRefused
        No call can succeed; outcomes recorded before are kept in their files.
    """
    with task.locked():
        plan = task.plan()
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
                files.keep(task.line(plan, outcome))
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
            if new or not stopped or any(one.reason is None for one in done.values()):
                files.create()
                task.finish(plan, done)
    return Finished(plan, done, frozenset(new), stopped)


class _Files(ExitStack):
    """The files that outcomes are appended to, each opened with its first line."""

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
    """Return the items that `--only` and `--limit` leave, in their order."""
    known = [index_of(item) for item in items]
    for index in only:
        if index not in known:
            raise InputError(f"{missing} {shown(index)}{nearest(index, known)}", field="--only")
    wanted = set(only)
    return tuple(item for item in items if not wanted or index_of(item) in wanted)[:limit]
