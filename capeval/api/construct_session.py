"""Drafting and checking with a chat model, as long work; see `capeval.construct.chat_work`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from capeval.api.chat_model import OpenChat, open_chat
from capeval.api.long_work import Estimate, Left, LongWork
from capeval.construct.chat_work import ChatWork, Item
from capeval.construct.drafts import Line
from capeval.construct.options import ConstructChatOptions
from capeval.llm.questions import Chat
from capeval.runs.engine import Finished, Labels, Plan, Progress, Stored, execute
from capeval.text import Loss, counted, listed

T = TypeVar("T")
Make = Callable[[Mapping[str, Line], Chat], T]


class ConstructSession(LongWork[T]):
    """One opened chat model and the items that it is asked about.

    `make` returns what becomes of its usable lines, by index, and may write a file; `files` are the
    lines that name the files and the next command.
    """

    _finished: Finished[Plan[Stored[Line]], Stored[Line]]

    caches_replies = True

    def __init__(
        self, work: ChatWork, opened: OpenChat, make: Make[T], files: Sequence[str]
    ) -> None:
        self.work, self.meter, self.model = work, opened.meter, opened.chat.model
        self.title, self.thinks = f"Chat model: {opened.title}", opened.thinks
        self._make, self._files = make, files

    async def estimate(self) -> Estimate:
        """Return what there is to ask; nothing is called or written."""
        todo = self.work.plan().todo
        usage = self.work.expected(todo)
        price = self.meter.price(self.model) if todo else None
        cost = price.cost(usage) if price else None if todo else 0.0
        labels = self.work.labels
        lines = [f"{self.work.file}: {counted(len(todo), labels.item)} to ask about"]
        return Estimate(len(todo), usage, cost, lines, {"todo": len(todo)})

    async def results(self, progress: Progress | None = None) -> AsyncIterator[T]:
        """Ask what is left."""
        self._finished = await execute(self.work, progress)
        done = self._finished.done
        lines = {index: one.value for index, one in done.items() if one.reason is None}
        yield self._make(lines, self.work.chat)

    def left(self, result: T) -> Sequence[Left]:
        """Return the items without a usable reply."""
        del result
        done, stopped = self._finished.done, self._finished.stopped
        wanted = [done.get(one.index) for one in self.work.wanted]
        reasons = {one.index: one.reason for one in wanted if one and one.reason}
        name, labels = self.work.file.stem, self.work.labels
        return [Left(name, labels, reasons, len(wanted), wanted.count(None), stopped)]

    def written(self, result: T) -> Sequence[str]:
        """Return the files, and what to do with them."""
        del result
        return self._files if any(not one.reason for one in self._finished.done.values()) else []


@asynccontextmanager
async def open_construct(
    o: ConstructChatOptions,
    file: Path,
    items: Callable[[Chat], Sequence[Item]],
    labels: Labels,
    make: Make[T],
    files: Sequence[str],
    *,
    offline: bool,
) -> AsyncIterator[ConstructSession[T]]:
    """Open the chat model that the options name, and ask it about items."""
    async with open_chat(o, offline=offline, on_notice=o.on_notice) as opened:
        work = ChatWork(file, items(opened.chat), opened.chat, labels, o.limit, o.redo)
        wanted = {one.index for one in work.wanted}.difference(o.redo)
        for edited, then in ((False, "to be replaced"), (True, "kept: edited by hand, see --redo")):
            if found := [one for one in work.outdated(edited=edited) if one in wanted]:
                what = f"{counted(len(found), labels.item)} from other inputs or another model"
                o.on_notice(Loss(f"{file}: {what} ({listed(found)}) {then}"))
        yield ConstructSession(work, opened, make, files)
