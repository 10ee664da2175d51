"""The replies that no rule decides, read by a chat model: estimated, then read one by one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from capeval.errors import ReplyError, RequestRefused, RetriesExhausted
from capeval.files.packaged import filled, prompts_label, template
from capeval.llm.asker import Asker
from capeval.llm.replies import Number, ReplyForm, in_form, object_of, read_reply
from capeval.llm.types import ChatRequest, ReplyBroken, ReplyRefused, ReplySchema
from capeval.mcq.strategies import MODEL_FAILED, AskModel, Decision, ReplyToGrade, Strategy
from capeval.runs.concurrency import work_through
from capeval.runs.engine import Labels, Plan, ResumableTask, Spent, Stored
from capeval.schema.judgment import Usage
from capeval.schema.question import OPTION_LETTERS
from capeval.text import one_line, storable

_PROMPTS = "mcq-select-v1"
_TEMPLATES: dict[AskModel, str] = {"choice": "choose", "tomato": "tomato"}
_NONE = "none"

_TRIES = 5
"""How often TOMATO's code asks before it chooses at random."""

# Of a token: prompts and most replies are English prose. A reply is a letter, or JSON with one.
_CHARACTERS, _REPLY_TOKENS, _MAX_TOKENS = 4, 10, 64
# The end of a reply has its answer; a runaway reply would be paid for with every question.
_LONGEST = 6_000


def label_of(asks: AskModel) -> str:
    """Return the name of the prompt with the beginning of its hash, for the signature.

    >>> label_of("choice").partition("@")[0]
    'mcq-select-v1'
    """
    return prompts_label(_PROMPTS, _TEMPLATES[asks])


@dataclass(frozen=True)
class Undecided:
    """A reply that the rules of a strategy leave to a model; `keep` is given its decision."""

    asked: ReplyToGrade
    strategy: Strategy
    seed: int
    keep: Callable[[Decision], None]

    @property
    def choices(self) -> tuple[str, ...]:
        """What may be chosen: the letters of the options, and none at the end."""
        return (*OPTION_LETTERS[: len(self.asked.options)], _NONE)

    def end(self) -> Decision:
        """Return the decision where the model found no option."""
        if self.strategy.last is None:
            return Decision(None, "model: none")
        return self.strategy.end(self.asked, self.seed)


class _Choice(ReplyForm):
    choice: str | Number


class ModelReader:
    """Reads replies with a chat model; an asker without a client reads those in its cache."""

    def __init__(self, asker: Asker, model: str) -> None:
        self._asker, self.model, self.meter = asker, model, asker.meter

    async def decide(self, one: Undecided) -> Decision:
        """Return a decision on a reply; a call that fails leaves it unscored."""
        try:
            option = await self.ask(one)
        except (ReplyBroken, ReplyRefused, RequestRefused, RetriesExhausted) as error:
            reason = f"the model that reads replies failed: {one_line(str(error))}"
            return Decision(None, MODEL_FAILED, unscored=reason)
        return one.end() if option is None else Decision(option, "model")

    async def ask(self, one: Undecided) -> int | None:
        """Return the number of the option that the model found, or None."""
        choices = one.choices
        if one.strategy.asks == "choice":

            def read(value: Any, _: list[str]) -> str:
                choice = str(in_form(_Choice, value).choice)
                if choice not in choices:
                    raise ReplyError(f"choice must be one of {', '.join(choices)}")
                return choice

            found = await self._asker.ask(
                self.request(one), lambda reply: read_reply(reply.text, read)[0]
            )
            return None if found.value == _NONE else choices.index(found.value)
        for repeat in range(_TRIES):
            try:
                answer = await self._asker.ask(
                    self.request(one, repeat), lambda reply: reply.text, attempts=1
                )
            except ReplyBroken:
                continue  # an empty reply is no letter
            # Published code accepts the bare letter alone.
            if answer.value in choices[:-1]:
                return choices.index(answer.value)
        return None

    def request(self, one: Undecided, repeat: int = 0) -> ChatRequest:
        """Return a call about a reply."""
        asks, choices, schema = one.strategy.asks or "choice", one.choices, None
        reply = one.asked.reply[-_LONGEST:]
        options = dict(zip(choices[:-1], one.asked.options, strict=True))
        # The published prompt knows letters only.
        data: dict[str, Any] = {"reply": reply, "options": options}
        listed = ""
        if asks == "choice":
            question = one.asked.response.question
            data = {"question": question, "options": options, "reply": reply}
            listed = ", ".join(json.dumps(each, ensure_ascii=False) for each in choices)
            schema = ReplySchema("choice", object_of(choice={"type": "string", "enum": [*choices]}))
        quoted = storable(json.dumps(data, ensure_ascii=False, indent=1))
        parts = {"data": quoted, "choices": listed}
        message = {"role": "user", "content": filled(template(_PROMPTS, _TEMPLATES[asks]), parts)}
        return ChatRequest(self.model, (message,), _MAX_TOKENS, repeat=repeat, schema=schema)


# ---- Many replies ------------------------------------------------------------------------------


def estimate_reading(todo: Sequence[Undecided], reader: ModelReader) -> Usage:
    """Return the expected usage, with one call about each distinct prompt."""
    prompts = {str(reader.request(one).messages[0]["content"]) for one in todo}
    return Usage(
        calls=len(prompts),
        input_tokens=sum(len(prompt) // _CHARACTERS for prompt in prompts),
        output_tokens=len(prompts) * _REPLY_TOKENS,
    )


class ReadingReplies(ResumableTask[Plan[Stored[Decision]], Stored[Decision]]):
    """Has a model read replies; each decision is kept in memory as soon as it is known."""

    labels = Labels("reading", "answer", "read", "unread")

    def __init__(self, todo: Sequence[Undecided], reader: ModelReader, concurrency: int) -> None:
        self._todo, self._reader, self._concurrency = todo, reader, concurrency

    def locked(self) -> AbstractContextManager[None]:
        return nullcontext()

    def plan(self) -> Plan[Stored[Decision]]:
        return Plan(self._reader.model, {}, self._todo)

    async def perform(
        self, plan: Plan[Stored[Decision]], record: Callable[[Stored[Decision]], None]
    ) -> None:
        def keep(one: Undecided, decision: Decision) -> None:
            one.keep(decision)
            record(Stored(one.asked.response.id, decision, decision.unscored or None))

        decide, at_once = self._reader.decide, self._concurrency
        await work_through(plan.todo, decide, concurrency=at_once, record=keep)

    def spent(self) -> Spent:
        return Spent(self._reader.meter.usage, self._reader.meter.spent)
