"""Ask a chat model one question about each item, and make something of its replies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import KW_ONLY
from pathlib import Path
from typing import TypeVar

from capeval.construct.drafts import Item, Line, is_edited, stored_lines
from capeval.errors import UsageError
from capeval.files.jsonl import write_jsonl
from capeval.files.judgments import short_hash
from capeval.judging.selection import open_chat
from capeval.llm.questions import CHARACTERS, QUESTION_FAILURES, Asked, Chat, ask_chat
from capeval.llm.types import ChatOptions
from capeval.options import INPUTS, declares, option, python_only
from capeval.runs.concurrency import work_through
from capeval.runs.engine import Finished, Labels, Plan, Progress, Spent, Stored, execute, left_of
from capeval.runs.folder import RunFolder
from capeval.runs.long_work import Estimate, Left, LongWork
from capeval.schema import Usage
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


class ConstructSession(LongWork[T]):
    """One question about each of the first `limit` items and of those in `redo`.

    It is a `ResumableTask`, too. A line of `file` has the index, the fields of the item's `read`, a
    hash of the question and its model (`inputs`), what the replies took (`call`), and the `hash` of
    it all; or else the `reason` of the failure. A usable reply replaces a line from other inputs,
    but one that a person edited only if `redo` names it.

    `make` returns what becomes of the usable lines, by index, and may write a file; `as_result`
    says how it is shown; `files` are the lines that name the files and the next command.
    """

    caches_replies = True
    _finished: Finished[LinePlan, Stored[Line]]

    def __init__(
        self,
        o: ConstructChatOptions,
        chat: Chat,
        file: Path,
        items: Sequence[Item],
        labels: Labels,
        make: Callable[[Mapping[str, Line], Chat], T],
        as_result: Callable[[T], Result],
        files: Sequence[str],
    ) -> None:
        self.chat, self.meter, self.model = chat, chat.asker.meter, chat.model
        self.title, self.thinks = f"Chat model: {chat.title}", chat.thinks
        self.file, self.items, self.labels = file, items, labels
        self._redo, self._make, self._files = o.redo, make, files
        self._as_result = as_result
        self._inputs = {
            one.index: short_hash([one.question.prompt, self.chat.identity]) for one in items
        }
        for index in o.redo:
            if index not in self._inputs:
                what = f"there is no {labels.item} {shown(index)} to ask about"
                raise UsageError(f"--redo: {what}{nearest(index, [*self._inputs])}")
        first = {one.index for one in items[: o.limit]}
        self.wanted = [one for one in items if one.index in first.union(o.redo)]
        for edited, then in ((False, "to be replaced"), (True, "kept: edited by hand, see --redo")):
            asked = first.difference(o.redo)
            if found := [one for one in self._outdated(edited=edited) if one in asked]:
                what = f"{counted(len(found), labels.item)} from other inputs or another model"
                o.on_notice(Loss(f"{file}: {what} ({listed(found)}) {then}"))

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

    def _expected(self, items: Sequence[Item]) -> Usage:
        return Usage(
            calls=len(items),
            input_tokens=sum(len(one.question.prompt) for one in items) // CHARACTERS,
            output_tokens=sum(one.question.max_tokens for one in items) // 4,
        )

    async def estimate(self) -> Estimate:
        """Return what there is to ask; nothing is called or written."""
        todo = self.plan().todo
        usage = self._expected(todo)
        cost = self.meter.cost(self.model, usage)
        lines = [f"{self.file}: {counted(len(todo), self.labels.item)} to ask about"]
        return Estimate(len(todo), usage, cost, lines, {"todo": len(todo)})

    async def results(self, progress: Progress | None = None) -> AsyncIterator[T]:
        """Ask what is left."""
        self._finished = await execute(self, progress)
        done = self._finished.done
        lines = {index: one.value for index, one in done.items() if one.reason is None}
        yield self._make(lines, self.chat)

    def result(self, results: list[T]) -> Result | None:
        return self._as_result(results[0]) if results else None

    def left(self, result: T) -> Sequence[Left]:
        """Return the items without a usable reply."""
        del result
        done, stopped = self._finished.done, self._finished.stopped
        wanted = [done.get(one.index) for one in self.wanted]
        reasons = {one.index: one.reason for one in wanted if one and one.reason}
        missing = wanted.count(None)
        return [Left(self.file.stem, self.labels, reasons, len(wanted), missing, stopped)]

    def written(self, result: T) -> Sequence[str]:
        """Return the files, and what to do with them."""
        del result
        return self._files if any(not one.reason for one in self._finished.done.values()) else []

    # ---- The resumable task ----------------------------------------------------------------------

    def locked(self) -> AbstractContextManager[None]:
        """Lock the file."""
        return RunFolder(self.file.parent).locked(part=self.file.stem)

    def plan(self) -> LinePlan:
        """Return which items have a line that stays."""
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
        """Ask what the plan lists; under a cost cap, only as much as can be finished."""
        cost = self.meter.cost(self.model, self._expected(plan.todo))
        await work_through(
            plan.todo,
            self._ask,
            concurrency=self.chat.concurrency,
            record=lambda _, stored: record(stored),
            has_room=self.meter.room_for(len(plan.todo), cost),
        )

    async def _ask(self, item: Item) -> Stored[Line]:
        asked, reason = Asked(), None
        found: Line = {}
        try:
            found = await ask_chat(self.chat, item.question, asked, item.read)
        except QUESTION_FAILURES as failure:
            found = {"reason": (reason := str(failure))}
        call = {"usage": asked.total.model_dump(), **asked.details}
        line = {"index": item.index, **found, "inputs": self._inputs[item.index], "call": call}
        return Stored(item.index, {**line, "hash": short_hash(line)}, reason)

    def line(self, plan: LinePlan, outcome: Stored[Line]) -> tuple[Path, Line]:
        """Return where an outcome is appended."""
        del plan
        return self.file, outcome.value

    def finish(self, plan: LinePlan, done: Mapping[str, Stored[Line]]) -> None:
        """Write the lines in the order of the items, then all other lines."""
        del plan, done
        lines = stored_lines(self.file)
        own = [lines.pop(one.index) for one in self.items if one.index in lines]
        write_jsonl(self.file, (*own, *lines.values()))

    def spent(self) -> Spent:
        """Return what the calls used."""
        return Spent(self.meter.usage, self.meter.spent)


@asynccontextmanager
async def open_construct(
    o: ConstructChatOptions,
    file: Path,
    items: Callable[[Chat], Sequence[Item]],
    labels: Labels,
    make: Callable[[Mapping[str, Line], Chat], T],
    as_result: Callable[[T], Result],
    files: Sequence[str],
    *,
    offline: bool,
) -> AsyncIterator[ConstructSession[T]]:
    """Open the chat model that the options name, and ask it about items."""
    async with open_chat(o, offline=offline, on_notice=o.on_notice) as chat:
        yield ConstructSession(o, chat, file, items(chat), labels, make, as_result, files)
