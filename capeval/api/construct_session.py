"""Drafting and checking with a chat model, as long work; see `capeval.construct.chat_work`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from capeval.api.chat_model import OpenChat, open_chat
from capeval.api.long_work import Estimate, Left, LongWork
from capeval.construct.chat_work import ChatWork, Item, Line
from capeval.llm.options import ChatOptions
from capeval.llm.questions import Chat
from capeval.runs.engine import Finished, Labels, Plan, Progress, Stored, execute
from capeval.text import counted


@dataclass(frozen=True)
class Constructed:
    """What a chat model said about each item; `lines` are those of `file`, by index."""

    file: Path
    lines: Mapping[str, Line]
    finished: Finished[Plan[Stored[Line]], Stored[Line]]


class ConstructSession(LongWork[Constructed]):
    """One opened chat model and the items that it is asked about.

    `then` says what to do with the file.
    """

    caches_replies = True

    def __init__(self, work: ChatWork, opened: OpenChat, then: str) -> None:
        self.work, self.meter, self.model = work, opened.meter, opened.chat.model
        self.title, self.thinks, self.then = f"Chat model: {opened.title}", opened.thinks, then

    async def estimate(self) -> Estimate:
        """Return what there is to ask; nothing is called or written."""
        todo = self.work.plan().todo
        usage = self.work.expected(todo)
        price = self.meter.price(self.model) if todo else None
        cost = price.cost(usage) if price else None if todo else 0.0
        labels = self.work.labels
        lines = [f"{self.work.file}: {counted(len(todo), labels.item)} to ask about"]
        return Estimate(len(todo), usage, cost, lines, {"todo": len(todo)})

    async def results(self, progress: Progress | None = None) -> AsyncIterator[Constructed]:
        """Ask what is left."""
        finished = await execute(self.work, progress)
        done = finished.done
        lines = {index: one.value for index, one in done.items() if one.reason is None}
        yield Constructed(self.work.file, lines, finished)

    def left(self, result: Constructed) -> Sequence[Left]:
        """Return the items without a usable reply."""
        finished, items = result.finished, self.work.items
        reasons = {i: one.reason for i, one in finished.done.items() if one.reason is not None}
        missing = len(items) - len(finished.done)
        name = self.work.file.stem
        return [Left(name, self.work.labels, reasons, len(items), missing, finished.stopped)]

    def written(self, result: Constructed) -> Sequence[str]:
        """Return the file, and what to do with it."""
        return [str(result.file), self.then] if result.lines else []


@asynccontextmanager
async def open_construct(
    options: ChatOptions,
    file: Path,
    items: Callable[[Chat], Sequence[Item]],
    labels: Labels,
    *,
    then: str,
    offline: bool,
    on_notice: Callable[[str], None],
) -> AsyncIterator[ConstructSession]:
    """Open the chat model that the options name, and ask it about items."""
    async with open_chat(options, offline=offline, on_notice=on_notice) as opened:
        work = ChatWork(file, items(opened.chat), opened.chat, labels)
        yield ConstructSession(work, opened, then)
