"""Ask a chat model one question about each item, and keep what it replied in a file of lines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from capeval.construct.drafts import Line, is_edited, stored_lines
from capeval.errors import UsageError
from capeval.files.jsonl import write_jsonl
from capeval.files.judgments import short_hash
from capeval.judging.selection import open_chat
from capeval.llm.questions import CHARACTERS, QUESTION_FAILURES, Asked, Chat, ChatQuestion, ask_chat
from capeval.llm.types import ChatOptions
from capeval.options import INPUTS, declares, option, python_only
from capeval.runs.concurrency import work_through
from capeval.runs.engine import (
    Finished,
    Labels,
    Left,
    Locks,
    LongWork,
    Plan,
    Progress,
    Spent,
    Stored,
    WorkEstimate,
    execute,
    left_of,
)
from capeval.runs.folder import RunFolder
from capeval.schema import Usage
from capeval.show.output import Output
from capeval.show.result import Result
from capeval.text import Loss, counted, listed, nearest, shown

T = TypeVar("T")
LinePlan = Plan[Stored[Line]]


@declares
class ConstructChatOptions(ChatOptions):
    """What drafting and checking have in common.

    Parameters
    ----------
    limit : Only the first N.
    redo : Ask about these again, and replace what was edited by hand.
    progress : Receives the status after every item.
    """

    _: KW_ONLY
    limit: int | None = option(None, panel=INPUTS, metavar="N", min=1)
    redo: Collection[str] = option((), panel=INPUTS, metavar="INDEX", commas=True)
    max_concurrency: int = python_only(64, "Calls at a time.", min=1, max=4096)
    timeout: float = python_only(120.0, "Seconds for one call.", min=0.1, max=86_400)
    progress: Progress | None = python_only(None, method="update", shown=False)


@dataclass(frozen=True)
class ItemToAsk:
    """What is asked about; `read` returns the fields that are kept of a reply, or `ReplyError`."""

    index: str
    question: ChatQuestion[Any]
    read: Callable[[Any], Line]


@dataclass(frozen=True)
class Questionnaire(Generic[T]):
    """What is asked, and what becomes of the replies.

    Attributes
    ----------
    file : has a line for each item: its index, the fields of its `read`, a hash of the question and
        its model (`inputs`), what the replies took (`call`), and the `hash` of it all; or else the
        `reason` of the failure
    items : returns the items for the model of a name
    make : returns what becomes of the usable lines, by index, and of the model's name; it may write
        a file
    result : returns how that is shown
    written : the lines that name the files and the next command
    """

    file: Path
    labels: Labels
    items: Callable[[str], Sequence[ItemToAsk]]
    make: Callable[[Mapping[str, Line], str], T]
    result: Callable[[T], Result]
    written: Sequence[str]


class AskedItems(LongWork[T]):
    """One question about each of the first `limit` items and of those in `redo`.

    It is a `ResumableTask`, too. A usable reply replaces a line from other inputs, but one that a
    person edited only if `redo` names it.
    """

    caches_replies = True
    _plan: LinePlan
    _lock: ExitStack
    _finished: Finished[LinePlan, Stored[Line]]

    def __init__(self, o: ConstructChatOptions, chat: Chat, asked: Questionnaire[T]) -> None:
        self.chat, self.meter, self.model = chat, chat.asker.meter, chat.model
        self.title, self.thinks = f"Chat model: {chat.title}", chat.thinks
        self.file, self.labels, self._asked, self._redo = asked.file, asked.labels, asked, o.redo
        items = asked.items(self.model)
        self._inputs = {
            one.index: short_hash([one.question.prompt, self.chat.identity]) for one in items
        }
        for index in o.redo:
            if index not in self._inputs:
                what = f"there is no {self.labels.item} {shown(index)} to ask about"
                raise UsageError(f"--redo: {what}{nearest(index, [*self._inputs])}")
        first = {one.index for one in items[: o.limit]}
        self.wanted = [one for one in items if one.index in first.union(o.redo)]
        for edited, then in ((False, "to be replaced"), (True, "kept: edited by hand, see --redo")):
            again = first.difference(o.redo)
            if found := [one for one in self._outdated(edited=edited) if one in again]:
                what = f"{counted(len(found), self.labels.item)} from other inputs or another model"
                o.on_notice(Loss(f"{self.file}: {what} ({listed(found)}) {then}"))

    def _outdated(self, *, edited: bool) -> list[str]:
        """Return the items with a usable line from other inputs that a person edited, or did not.

        A line that a person wrote has no inputs.
        """
        return [
            index
            for index, line in stored_lines(self.file).items()
            if index in self._inputs and "reason" not in line and is_edited(line) == edited
            if line.get("inputs") not in (None, self._inputs[index])
        ]

    def _expected(self, items: Sequence[ItemToAsk]) -> Usage:
        return Usage(
            calls=len(items),
            input_tokens=sum(len(one.question.prompt) for one in items) // CHARACTERS,
            output_tokens=sum(one.question.max_tokens for one in items) // 4,
        )

    async def prepare(self, locks: Locks) -> WorkEstimate:
        self._plan, self._lock = locks.begin(self)
        todo = self._plan.todo
        usage, count = self._expected(todo), len(todo)
        lines = [f"{self.file}: {counted(count, self.labels.item)} to ask about"]
        return WorkEstimate(
            count, usage, self.meter.cost(self.model, usage), lines, {"todo": count}
        )

    async def results(self, progress: Progress | None = None) -> AsyncIterator[T]:
        with self._lock:
            self._finished = await execute(self, self._plan, progress)
        done = self._finished.done
        lines = {index: one.value for index, one in done.items() if one.reason is None}
        yield self._asked.make(lines, self.model)

    def result(self, results: list[T]) -> Result | None:
        return self._asked.result(results[0]) if results else None

    def left(self, result: T) -> Sequence[Left]:
        del result
        done, stopped = self._finished.done, self._finished.stopped
        wanted = [done.get(one.index) for one in self.wanted]
        reasons = {one.index: one.reason for one in wanted if one and one.reason}
        missing = wanted.count(None)
        return [Left(self.file.stem, self.labels, reasons, len(wanted), missing, stopped)]

    def written(self, result: T) -> Sequence[str]:
        del result
        has_reply = any(not one.reason for one in self._finished.done.values())
        return self._asked.written if has_reply else []

    # ---- The resumable task ----------------------------------------------------------------------

    def locked(self) -> AbstractContextManager[None]:
        return RunFolder(self.file.parent).locked(part=self.file.stem)

    def plan(self) -> LinePlan:
        again = {*self._outdated(edited=False), *self._redo}
        kept = {
            index: Stored(index, line, line.get("reason"))
            for index, line in stored_lines(self.file).items()
            if index in self._inputs and index not in again
        }
        return Plan(self.file.stem, kept, left_of(self.wanted, kept, lambda one: one.index))

    def create(self, plan: LinePlan) -> None:
        """Do nothing: the folder exists."""

    async def perform(self, plan: LinePlan, record: Callable[[Stored[Line]], None]) -> None:
        # Under a cost cap, only as much is asked as can be finished.
        cost = self.meter.cost(self.model, self._expected(plan.todo))
        await work_through(
            plan.todo,
            self._ask,
            concurrency=self.chat.concurrency,
            record=lambda _, stored: record(stored),
            has_room=self.meter.room_for(len(plan.todo), cost),
        )

    async def _ask(self, item: ItemToAsk) -> Stored[Line]:
        asked, reason = Asked(), None
        try:
            found = await ask_chat(self.chat, item.question, asked, item.read)
        except QUESTION_FAILURES as failure:
            found = {"reason": (reason := str(failure))}
        call = {"usage": asked.total.model_dump(), **asked.details}
        line = {"index": item.index, **found, "inputs": self._inputs[item.index], "call": call}
        return Stored(item.index, {**line, "hash": short_hash(line)}, reason)

    def line(self, plan: LinePlan, outcome: Stored[Line]) -> tuple[Path, Line]:
        del plan
        return self.file, outcome.value

    def finish(self, plan: LinePlan, done: Mapping[str, Stored[Line]]) -> None:
        """Write the lines in the order of the items, then all other lines."""
        del plan, done
        lines = stored_lines(self.file)
        own = [lines.pop(index) for index in self._inputs if index in lines]
        write_jsonl(self.file, (*own, *lines.values()))

    def spent(self) -> Spent:
        return Spent(self.meter.usage, self.meter.spent)


@asynccontextmanager
async def open_asking(
    o: ConstructChatOptions, asked: Questionnaire[T], output: Output | None
) -> AsyncIterator[AskedItems[T]]:
    """Open the chat model that the options name, to ask it about items; `output` is a command's."""
    offline = output is not None and output.dry_run
    async with open_chat(o, offline=offline, on_notice=o.on_notice) as chat:
        yield AskedItems(o, chat, asked)
