"""Ask a chat model one question about each item, and keep the replies in a file of lines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, TypeVar

from capeval.errors import UsageError
from capeval.files.jsonl import short_hash, whole_lines, write_atomic, write_jsonl
from capeval.llm.asker import QUESTION_FAILURES, Asked, Chat, ChatQuestion, ask_chat
from capeval.llm.client import ChatOptions
from capeval.llm.money import CHARACTERS
from capeval.options import INPUTS, declares, in_file, option, python_only
from capeval.runs.concurrency import work_through
from capeval.runs.engine import (
    Done,
    Labels,
    Left,
    Locks,
    LongWork,
    Plan,
    Progress,
    ResumableTask,
    Spent,
    Stored,
    WorkEstimate,
    execute,
    left_of,
)
from capeval.runs.folder import RunFolder
from capeval.schema import Usage, id_text
from capeval.show.result import Result
from capeval.text import Loss, counted, listed

T = TypeVar("T", bound=Result)
Line = Mapping[str, Any]
"""A line of a file of drafts or checks."""
LinePlan = Plan[Stored[Line]]


@declares
class ConstructChatOptions(ChatOptions):
    """The options that drafting and checking share.

    Parameters
    ----------
    limit : Only the first N videos.
    progress : Receives the status after every item.
    """

    _: KW_ONLY
    limit: int | None = option(None, panel=INPUTS, metavar="N", min=1)
    max_concurrency: int = in_file(64, min=1, max=4096)
    progress: Progress | None = python_only(None, method="update", shown=False)


@dataclass(frozen=True)
class ItemToAsk:
    """An item and its question; `read` returns the fields of a reply to keep, or `ReplyError`."""

    index: str
    question: ChatQuestion[Any]
    read: Callable[[Any], Line]


class AskedItems(LongWork[T], ResumableTask[LinePlan, Stored[Line]]):
    """One question about each of the first `limit` items.

    A usable reply replaces a line from other inputs, unless a person edited it.

    Parameters
    ----------
    file : has a line for each item: its index, the fields of a reply or the `reason` of a failure,
        a hash of the question and its model (`inputs`), the tokens of the `call`, and the `hash` of
        the line
    make : returns the command's result, given the usable lines by index; it may write a file
    files : the lines that name the files and the next command
    """

    caches_replies = True
    _plan: LinePlan
    _lock: ExitStack

    def __init__(
        self,
        o: ConstructChatOptions,
        chat: Chat,
        items: Sequence[ItemToAsk],
        file: Path,
        labels: Labels,
        *,
        make: Callable[[Mapping[str, Line]], T],
        files: Sequence[str],
    ) -> None:
        self.chat, self.meter, self.model = chat, chat.asker.meter, chat.model
        self.title, self.thinks = f"Chat model: {chat.title}", chat.thinks
        self.file, self.labels, self._o = file, labels, o
        self._make, self._files = make, files
        self._inputs = {
            one.index: short_hash([one.question.prompt, self.chat.identity]) for one in items
        }
        self.wanted = items[: o.limit]

    def _expected(self, items: Sequence[ItemToAsk]) -> Usage:
        return Usage(
            calls=len(items),
            input_tokens=sum(len(one.question.prompt) for one in items) // CHARACTERS,
            output_tokens=sum(one.question.max_tokens for one in items) // 4,
        )

    async def prepare(self, locks: Locks) -> WorkEstimate:
        self._plan, self._lock = locks.begin(self)
        usage = self._expected(self._plan.todo)
        line = f"{self.file}: {counted(usage.calls, self.labels.item)} to ask about"
        return self.estimate(usage, [line], {"todo": usage.calls})

    async def results(self, progress: Progress | None = None) -> AsyncIterator[Done[T]]:
        with self._lock:
            finished = await execute(self, self._plan, progress)
        done = finished.done
        lines = {index: one.value for index, one in done.items() if one.reason is None}
        wanted = [done.get(one.index) for one in self.wanted]
        reasons = {one.index: one.reason for one in wanted if one and one.reason}
        of, missing = len(wanted), wanted.count(None)
        left = Left(self.file.stem, self.labels, reasons, of, missing, finished.stopped)
        yield Done(self._make(lines), [left], self._files if lines else [])

    def locked(self) -> AbstractContextManager[None]:
        return RunFolder(self.file.parent).locked(part=self.file.stem)

    def plan(self) -> LinePlan:
        kept: dict[str, Stored[Line]] = {}
        replaced, edited = list[str](), list[str]()
        for index, line in stored_lines(self.file).items():
            if index not in self._inputs:
                continue
            # A line that a person wrote has no inputs.
            is_old = line.get("inputs") not in (None, self._inputs[index])
            if is_old and "reason" not in line:
                (edited if is_edited(line) else replaced).append(index)
            if index not in replaced:
                kept[index] = Stored(index, line, line.get("reason"))
        first = {one.index for one in self.wanted}
        how = "kept: edited by hand; delete the lines to replace them"
        for then, found in (("will be replaced", replaced), (how, edited)):
            if among := [index for index in found if index in first]:
                what = f"{counted(len(among), self.labels.item)} from other inputs or another model"
                self._o.on_notice(Loss(f"{self.file}: {what} ({listed(among)}) {then}"))
        return Plan(self.file.stem, kept, left_of(self.wanted, kept, lambda one: one.index))

    async def perform(self, plan: LinePlan, record: Callable[[Stored[Line]], None]) -> None:
        # Under a cost cap, only calls that can be finished are begun.
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

    def line(self, outcome: Stored[Line]) -> tuple[Path, Line]:
        return self.file, outcome.value

    def finish(self, plan: LinePlan, done: Mapping[str, Stored[Line]]) -> None:
        """Write the lines in the order of the items, then the lines of other items."""
        lines = stored_lines(self.file)
        own = [lines.pop(index) for index in self._inputs if index in lines]
        write_jsonl(self.file, (*own, *lines.values()))

    def spent(self) -> Spent:
        return Spent(self.meter.usage, self.meter.spent)


# ---- Which existing work may be replaced ---------------------------------------------------------


def stored_lines(file: Path) -> dict[str, Line]:
    """Return the lines of a file by index; a failure does not replace a success."""
    found: dict[str, Line] = {}
    for line in whole_lines(file):
        index = str(id_text(line.get("index")))
        if "reason" not in line or "reason" in found.get(index, line):
            found[index] = line
    return found


def is_edited(line: Line) -> bool:
    """Return whether a person wrote or edited a line: its `hash` is absent or does not match."""
    return line.get("hash") != short_hash({k: v for k, v in line.items() if k != "hash"})


def check_unedited(file: Path) -> None:
    """Raise `UsageError` if a person edited a file since `seal`, or if the file has no seal."""
    if file.exists():
        sealed, found = _seal_of(file)
        if not sealed.exists() or sealed.read_text("utf-8") != found:
            raise UsageError(f"{file} was edited, or not written by this command; rename it")


def seal(file: Path) -> None:
    """Write the hash of a finished file beside it."""
    write_atomic(*_seal_of(file))


def _seal_of(file: Path) -> tuple[Path, str]:
    return file.with_name(f".{file.name}.hash"), short_hash(file.read_bytes().hex())
