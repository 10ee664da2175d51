"""Long work that may cost money: its plan, its expected cost, its results, and what is left."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from capeval.errors import BudgetReached, EndpointDown
from capeval.llm.money import Meter
from capeval.runs.engine import Labels, Progress
from capeval.schema import Usage
from capeval.show.result import Result

R = TypeVar("R")


@dataclass(frozen=True)
class WorkEstimate:
    """What there is to do, and what it is expected to cost.

    Attributes
    ----------
    calls : of the model
    cost : in US dollars; None without a price
    unpriced : the models without a price, where they are not the work's model
    least : what the models with a price cost, where another has none
    todo : what there is to do, in words, one line each
    details : the same as JSON values
    expects : the names of the results, where they are known before
    """

    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: float | None = 0.0
    todo: Sequence[str] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    expects: Sequence[str] = ()
    unpriced: Sequence[str] = ()
    least: float = 0.0


@dataclass(frozen=True)
class Left:
    """What a run lacks after the work.

    Attributes
    ----------
    reasons : why items failed, by index
    not_reached : how many were not tried, because the work was stopped
    of : how many were wanted
    """

    name: str
    labels: Labels
    reasons: Mapping[str, str]
    of: int
    not_reached: int = 0
    stopped: BudgetReached | EndpointDown | None = None

    @property
    def count(self) -> int:
        """How many items have no result."""
        return len(self.reasons) + self.not_reached


class LongWork(ABC, Generic[R]):
    """An opened model and what it is to do; one command is one such class and its result page.

    Attributes
    ----------
    title : what does the work, in words
    model : whose price is looked up; empty for a model in this process
    thinks : whether it reasons, which is paid for and no part of an estimate
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
    async def estimate(self) -> WorkEstimate:
        """Check everything and return what there is to do; nothing is called or written."""

    @abstractmethod
    def results(self, progress: Progress | None = None) -> AsyncIterator[R]:
        """Do what is left and yield each result; the last may have been stopped."""

    @abstractmethod
    def result(self, results: list[R]) -> Result | None:
        """Return what the command shows of the results; None for nothing."""

    @abstractmethod
    def left(self, result: R) -> Sequence[Left]:
        """Return what a result lacks."""

    @abstractmethod
    def written(self, result: R) -> Sequence[str]:
        """Return the files of a result, and what to do with them."""


async def finished(
    opening: AbstractAsyncContextManager[LongWork[R]], progress: Progress | None
) -> list[R]:
    """Do all work and return its results; raises why it was stopped, if it was."""
    async with opening as work:
        found = [one async for one in work.results(progress)]
    for left in (left for one in found for left in work.left(one)):
        if left.stopped:
            raise left.stopped
    return found
