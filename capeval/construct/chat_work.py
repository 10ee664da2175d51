"""Ask a chat model one question about each item, and keep what its replies say as JSON lines."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capeval.construct.drafts import Line, is_edited, stored_lines
from capeval.errors import UsageError
from capeval.files.jsonl import write_jsonl
from capeval.files.judgments import short_hash
from capeval.llm.questions import (
    CHARACTERS,
    QUESTION_FAILURES,
    Asked,
    Chat,
    Question,
    ask_chat,
)
from capeval.runs.concurrency import work_through
from capeval.runs.engine import Labels, Plan, Spent, Stored, left_of
from capeval.runs.folder import RunFolder
from capeval.schema import Usage
from capeval.text import nearest, shown


@dataclass(frozen=True)
class Item:
    """What is asked about; `read` returns the fields that are kept of a reply, or `ReplyError`."""

    index: str
    question: Question[Any]
    read: Callable[[Any], Mapping[str, Any]]


@dataclass
class ChatWork:
    """One question about each of the first `limit` items and of those in `redo`; a `ResumableTask`.

    A line has the index, the fields of the item's `read`, a hash of the question and its model
    (`inputs`), what the replies took (`call`), and the `hash` of it all; or else the `reason` of
    the failure. A usable reply replaces a line from other inputs, but one that a person edited only
    if `redo` names it.
    """

    file: Path
    items: Sequence[Item]
    chat: Chat
    labels: Labels
    limit: int | None
    redo: Collection[str] = ()

    def __post_init__(self) -> None:
        """Choose the items, and hash all questions."""
        self._inputs = {
            one.index: short_hash([one.question.prompt, self.chat.identity]) for one in self.items
        }
        for index in self.redo:
            if index not in self._inputs:
                what = f"there is no {self.labels.item} {shown(index)} to ask about"
                raise UsageError(f"--redo: {what}{nearest(index, [*self._inputs])}")
        first = {one.index for one in self.items[: self.limit]}
        self.wanted = [one for one in self.items if one.index in first.union(self.redo)]

    def locked(self) -> AbstractContextManager[None]:
        """Lock the file."""
        return RunFolder(self.file.parent).locked(part=self.file.stem)

    def outdated(self, *, edited: bool) -> list[str]:
        """Return the items with a usable line from other inputs that a person edited, or did not.

        A line that a person wrote has no inputs.
        """
        return [
            index
            for index, line in stored_lines(self.file).items()
            if index in self._inputs and "reason" not in line and is_edited(line) == edited
            if line.get("inputs") not in (None, self._inputs[index])
        ]

    def plan(self) -> Plan[Stored[Line]]:
        """Return which items have a line that stays."""
        again = {*self.outdated(edited=False), *self.redo}
        kept = {
            index: Stored(index, line, line.get("reason"))
            for index, line in stored_lines(self.file).items()
            if index in self._inputs and index not in again
        }
        return Plan(self.file.stem, kept, left_of(self.wanted, kept, lambda one: one.index))

    def expected(self, items: Sequence[Item]) -> Usage:
        """Return about how many calls and tokens items take."""
        return Usage(
            calls=len(items),
            input_tokens=sum(len(one.question.prompt) for one in items) // CHARACTERS,
            output_tokens=sum(one.question.max_tokens for one in items) // 4,
        )

    def create(self, plan: Plan[Stored[Line]]) -> None:
        """Do nothing: the folder exists."""

    async def perform(
        self, plan: Plan[Stored[Line]], record: Callable[[Stored[Line]], None]
    ) -> None:
        """Ask what the plan lists; under a cost cap, only as much as can be finished."""
        meter, model = self.chat.asker.meter, self.chat.model
        price, each = meter.price(model), 0.0
        if price and plan.todo:
            each = price.cost(self.expected(plan.todo)) / len(plan.todo)
        await work_through(
            plan.todo,
            self._ask,
            concurrency=self.chat.concurrency,
            record=lambda _, stored: record(stored),
            has_room=lambda begun: meter.has_room(begun + 1, each),
        )

    async def _ask(self, item: Item) -> Stored[Line]:
        asked, reason = Asked(), None
        found: Mapping[str, Any] = {}
        try:
            found = await ask_chat(self.chat, item.question, asked, item.read)
        except QUESTION_FAILURES as failure:
            found = {"reason": (reason := str(failure))}
        call = {"usage": asked.usage.model_dump(), **asked.details}
        line = {"index": item.index, **found, "inputs": self._inputs[item.index], "call": call}
        return Stored(item.index, {**line, "hash": short_hash(line)}, reason)

    def line(self, plan: Plan[Stored[Line]], outcome: Stored[Line]) -> tuple[Path, Line]:
        """Return where an outcome is appended."""
        del plan
        return self.file, outcome.value

    def finish(self, plan: Plan[Stored[Line]], done: Mapping[str, Stored[Line]]) -> None:
        """Write the lines in the order of the items, then those that are about something else."""
        del plan, done
        lines = stored_lines(self.file)
        own = [lines.pop(one.index) for one in self.items if one.index in lines]
        write_jsonl(self.file, (*own, *lines.values()))

    def spent(self) -> Spent:
        """Return what the calls used."""
        meter = self.chat.asker.meter
        return Spent(meter.usage.input_tokens + meter.usage.output_tokens, meter.spent)
