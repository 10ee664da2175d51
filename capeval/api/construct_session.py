"""Drafting and checking with a chat model, as long work; see `capeval.construct.chat_work`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from capeval.api.chat_model import OpenChat, open_chat
from capeval.api.long_work import Estimate, Left, LongWork
from capeval.construct.chat_work import ChatWork, Item, Line
from capeval.construct.options import ConstructChatOptions
from capeval.llm.questions import Chat
from capeval.runs.engine import Finished, Labels, Plan, Progress, Stored, execute
from capeval.text import counted

T = TypeVar("T")


@dataclass(frozen=True)
class Constructed(Generic[T]):
    """What was made of a chat model's replies."""

    value: T
    finished: Finished[Plan[Stored[Line]], Stored[Line]]


class ConstructSession(LongWork[Constructed[T]]):
    """One opened chat model and the items that it is asked about.

    Parameters
    ----------
    make : what becomes of the chat model's lines, by index; may write a file
    written : the files, and what to do with them
    """

    caches_replies = True

    def __init__(
        self,
        work: ChatWork,
        opened: OpenChat,
        make: Callable[[Mapping[str, Line], Chat], T],
        written: Sequence[str],
    ) -> None:
        self.work, self.meter, self.model = work, opened.meter, opened.chat.model
        self.title, self.thinks = f"Chat model: {opened.title}", opened.thinks
        self._make, self._written = make, written

    async def estimate(self) -> Estimate:
        """Return what there is to ask; nothing is called or written."""
        todo = self.work.plan().todo
        usage = self.work.expected(todo)
        price = self.meter.price(self.model) if todo else None
        cost = price.cost(usage) if price else None if todo else 0.0
        labels = self.work.labels
        lines = [f"{self.work.file}: {counted(len(todo), labels.item)} to ask about"]
        return Estimate(len(todo), usage, cost, lines, {"todo": len(todo)})

    async def results(self, progress: Progress | None = None) -> AsyncIterator[Constructed[T]]:
        """Ask what is left."""
        finished = await execute(self.work, progress)
        done = finished.done
        lines = {index: one.value for index, one in done.items() if one.reason is None}
        yield Constructed(self._make(lines, self.work.chat), finished)

    def left(self, result: Constructed[T]) -> Sequence[Left]:
        """Return the items without a usable reply."""
        done, wanted = result.finished.done, [one.index for one in self.work.wanted]
        reasons = {i: str(done[i].reason) for i in wanted if i in done and done[i].reason}
        missing = sum(index not in done for index in wanted)
        stopped = result.finished.stopped
        name = self.work.file.stem
        return [Left(name, self.work.labels, reasons, len(wanted), missing, stopped)]

    def written(self, result: Constructed[T]) -> Sequence[str]:
        """Return the files, and what to do with them."""
        done = result.finished.done.values()
        return self._written if any(one.reason is None for one in done) else []


@asynccontextmanager
async def open_construct(
    options: ConstructChatOptions,
    file: Path,
    items: Callable[[Chat], Sequence[Item]],
    labels: Labels,
    make: Callable[[Mapping[str, Line], Chat], T],
    *,
    written: Sequence[str],
    offline: bool,
    on_notice: Callable[[str], None],
) -> AsyncIterator[ConstructSession[T]]:
    """Open the chat model that the options name, and ask it about items."""
    async with open_chat(options, offline=offline, on_notice=on_notice) as opened:
        work = ChatWork(file, items(opened.chat), opened.chat, labels, options.limit)
        yield ConstructSession(work, opened, make, written)
