"""The replies that no rule decides, read by a chat model: estimated, then read one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capeval.errors import CacheMiss, CapevalError
from capeval.llm.meter import Meter
from capeval.mcq.asked import Asked
from capeval.mcq.model_reader import ModelReader
from capeval.mcq.strategies import AskModel, Decision, Strategy
from capeval.runs.engine import Labels, Plan, Spent
from capeval.schema.usage import Usage

_CHARACTERS = 4
"""Of a token: prompts and most replies are English prose."""

_REPLY_TOKENS = 10
"""A reply is a letter, or a JSON object with one."""


@dataclass(frozen=True)
class Undecided:
    """A reply that the rules of a strategy leave to a model; `asks` is what the model is asked."""

    index: str
    asked: Asked
    strategy: Strategy
    seed: int
    asks: AskModel

    def end(self) -> Decision:
        """Return the decision where the model found no option."""
        if self.strategy.last is None:
            return Decision(None, "model: none")
        return self.strategy.end(self.asked, self.seed)


@dataclass(frozen=True)
class Read:
    """What a model decided about a reply."""

    index: str
    decision: Decision

    @property
    def reason(self) -> str | None:
        """Why the call failed; None if it did not."""
        return self.decision.unscored or None


@dataclass(frozen=True)
class ReadingEstimate:
    """Calls and tokens that are expected; `cost` is None without a price."""

    replies: int
    usage: Usage
    cost: float | None


async def estimate_reading(todo: Sequence[Undecided], offline: ModelReader) -> ReadingEstimate:
    """Return what reading is expected to cost, without making a call.

    A reply about which the cache has an answer costs nothing. TOMATO's reader is called up to five
    times about a reply; the estimate has one call.
    """
    sizes: dict[str, int] = {}
    for one in todo:
        await asyncio.sleep(0)  # Ctrl-C is noticed between replies
        try:
            await offline.ask(one.asks, one.asked)
        except CacheMiss:
            prompt = offline.prompt(one.asks, one.asked)
            sizes[prompt] = len(prompt) // _CHARACTERS
        except CapevalError:
            continue  # a stored failure, whose next call has no known cost
    usage = Usage(
        calls=len(sizes),
        input_tokens=sum(sizes.values()),
        output_tokens=len(sizes) * _REPLY_TOKENS,
    )
    price = offline.price
    cost = 0.0 if not sizes else None if price is None else price.cost(usage)
    return ReadingEstimate(len(todo), usage, cost)


class ReadingWork:
    """Reading as a task of the engine; answers are kept in the cache, not in a file."""

    def __init__(
        self,
        name: str,
        todo: Sequence[Undecided],
        reader: ModelReader,
        meter: Meter,
        *,
        concurrency: int,
    ) -> None:
        self._name, self._todo, self._reader, self._meter = name, todo, reader, meter
        self._concurrency = concurrency

    @property
    def labels(self) -> Labels:
        """How messages name this task."""
        return Labels("reading", "answer", "read", "unread")

    def locked(self) -> AbstractContextManager[None]:
        """Return without a lock: nothing is written."""
        return nullcontext()

    def plan(self) -> Plan[Read]:
        """Return all replies: the cache answers what was asked before."""
        return Plan(self._name, {}, self._todo)

    def create(self, plan: Plan[Read]) -> None:
        """Write nothing."""

    async def perform(self, plan: Plan[Read], record: Callable[[Read], None]) -> None:
        """Read many replies at the same time."""
        left = iter(plan.todo)

        async def work() -> None:
            for one in left:
                record(Read(one.index, await self._reader.decide(one.asks, one.asked, one.end)))

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._concurrency, len(plan.todo))):
                    group.create_task(work())
        except BaseExceptionGroup as errors:
            # Workers fail alike: a refused key is one message for the user.
            raise errors.exceptions[0] from None

    def line(self, plan: Plan[Read], outcome: Read) -> tuple[Path, Mapping[str, Any]] | None:
        """Return nothing: decisions stay in memory."""
        del plan, outcome
        return None

    def finish(self, plan: Plan[Read], done: Mapping[str, Read]) -> None:
        """Write nothing."""

    def spent(self) -> Spent:
        """Return what the calls took so far."""
        usage = self._meter.usage
        return Spent(usage.input_tokens + usage.output_tokens, self._meter.spent)
