"""The replies that no rule decides, read by a chat model: estimated, then read one by one."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from capeval.errors import CacheMiss, CapevalError, ReplyError, RequestRefused, RetriesExhausted
from capeval.files.packaged import filled, prompts_label, template
from capeval.llm.asker import Asker
from capeval.llm.meter import Meter
from capeval.llm.types import ChatReply, ChatRequest, ReplyBroken, ReplyRefused, ReplySchema
from capeval.mcq.asked import Asked
from capeval.mcq.strategies import MODEL_FAILED, AskModel, Decision, Strategy
from capeval.runs.engine import Labels, Plan, Spent
from capeval.schema.question import OPTION_LETTERS
from capeval.schema.usage import Usage
from capeval.text import one_line, storable

PROMPTS = "mcq-select-v1"
NONE = "none"

TRIES = 5
"""How often TOMATO's code asks before it draws."""

_CHARACTERS = 4
"""Of a token: prompts and most replies are English prose."""

_REPLY_TOKENS = 10
"""A reply is a letter, or a JSON object with one."""

_MAX_TOKENS = 64
# The end of a reply has its answer; a runaway reply would be paid for with every question.
_LONGEST = 6_000


def label_of(asks: AskModel) -> str:
    """Return the name of the prompt with the beginning of its hash, for the signature.

    >>> label_of("choice").partition("@")[0]
    'mcq-select-v1'
    """
    return prompts_label(PROMPTS, _TEMPLATES[asks])


_TEMPLATES: dict[AskModel, str] = {"choice": "choose", "tomato": "tomato"}


class ModelReader:
    """Reads replies with a chat model; an asker without a client reads those in its cache."""

    def __init__(self, asker: Asker, model: str) -> None:
        self._asker, self.model = asker, model

    @property
    def meter(self) -> Meter:
        """What the calls took so far."""
        return self._asker.meter

    async def decide(self, asks: AskModel, one: Asked, end: Callable[[], Decision]) -> Decision:
        """Return a decision on a reply; a call that fails leaves it unscored.

        `end` decides where the model found no option.
        """
        try:
            option = await self.ask(asks, one)
        except (ReplyBroken, ReplyRefused, RequestRefused, RetriesExhausted) as error:
            reason = f"the model that reads replies failed: {one_line(str(error))}"
            return Decision(None, MODEL_FAILED, unscored=reason)
        return end() if option is None else Decision(option, "model")

    async def ask(self, asks: AskModel, one: Asked) -> int | None:
        """Return the number of the option that the model found, or None."""
        return await (self._choice(one) if asks == "choice" else self._tomato(one))

    def prompt(self, asks: AskModel, one: Asked) -> str:
        """Return the text of the first call about a reply."""
        request = self._choice_request(one) if asks == "choice" else self._tomato_request(one, 0)
        return str(request.messages[0]["content"])

    async def _choice(self, asked: Asked) -> int | None:
        choices = _choices(asked)

        def check(reply: ChatReply) -> str:
            return _chosen(reply.text, choices)

        answer = await self._asker.ask(self._choice_request(asked), check)
        return None if answer.value == NONE else choices.index(answer.value)

    def _choice_request(self, asked: Asked) -> ChatRequest:
        choices = _choices(asked)
        data = {
            "question": asked.response.question,
            "options": dict(zip(choices[:-1], asked.options, strict=True)),
            "reply": asked.reply[-_LONGEST:],
        }
        listed = ", ".join(json.dumps(one, ensure_ascii=False) for one in choices)
        return self._request("choice", data, listed, _schema(choices))

    async def _tomato(self, asked: Asked) -> int | None:
        letters = OPTION_LETTERS[: len(asked.options)]
        for repeat in range(TRIES):
            request = self._tomato_request(asked, repeat)
            try:
                answer = await self._asker.ask(request, lambda reply: reply.text, attempts=1)
            except ReplyBroken:
                continue  # an empty reply is no letter
            # Published code accepts the bare letter alone.
            if len(answer.value) == 1 and answer.value in letters:
                return letters.index(answer.value)
        return None

    def _tomato_request(self, asked: Asked, repeat: int) -> ChatRequest:
        # The published prompt knows letters only.
        options = dict(zip(OPTION_LETTERS, asked.options, strict=False))
        data = {"reply": asked.reply[-_LONGEST:], "options": options}
        return self._request("tomato", data, "", None, repeat)

    def _request(
        self,
        asks: AskModel,
        data: object,
        choices: str,
        schema: ReplySchema | None,
        repeat: int = 0,
    ) -> ChatRequest:
        parts = {"data": _quoted(data), "choices": choices}
        text = filled(template(PROMPTS, _TEMPLATES[asks]), parts)
        message = {"role": "user", "content": text}
        return ChatRequest(self.model, (message,), _MAX_TOKENS, repeat=repeat, schema=schema)


def _choices(asked: Asked) -> tuple[str, ...]:
    """Return what may be chosen: the symbols that the reply was asked with, and none at the end."""
    return (*asked.symbols, NONE)


def _quoted(data: object) -> str:
    return storable(json.dumps(data, ensure_ascii=False, indent=1))


@lru_cache
def _schema(choices: tuple[str, ...]) -> ReplySchema:
    return ReplySchema(
        "choice",
        {
            "type": "object",
            "properties": {"choice": {"type": "string", "enum": [*choices]}},
            "required": ["choice"],
            "additionalProperties": False,
        },
    )


_JSON = re.compile(r"\{[^{}]*\}")


def _chosen(text: str, choices: Sequence[str]) -> str:
    """Return the choice of a reply; raises `ReplyError`."""
    found = _JSON.findall(text)
    expected = f'the reply must be {{"choice": X}} where X is one of {", ".join(choices)}'
    if len(found) != 1:
        raise ReplyError(expected)
    try:
        pairs = json.loads(found[0], object_pairs_hook=list)
    except (ValueError, RecursionError):
        raise ReplyError(expected) from None
    # A number is a symbol, too; a key that is there twice says two things.
    if [name for name, _ in pairs] != ["choice"] or isinstance(pairs[0][1], bool | float):
        raise ReplyError(expected)
    choice = str(pairs[0][1])
    if choice not in choices:
        raise ReplyError(expected)
    return choice


# ---- Many replies ------------------------------------------------------------------------------


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
    price = offline.meter.price(offline.model)
    cost = 0.0 if not sizes else None if price is None else price.cost(usage)
    return ReadingEstimate(len(todo), usage, cost)


class ReadingWork:
    """Reading as a task of the engine; answers are kept in the cache, not in a file."""

    def __init__(
        self,
        todo: Sequence[Undecided],
        reader: ModelReader,
        *,
        concurrency: int,
    ) -> None:
        self._todo, self._reader, self._concurrency = todo, reader, concurrency

    @property
    def labels(self) -> Labels:
        """How messages name this task."""
        return Labels("reading", "answer", "read", "unread")

    def locked(self) -> AbstractContextManager[None]:
        """Return without a lock: nothing is written."""
        return nullcontext()

    def plan(self) -> Plan[Read]:
        """Return all replies: the cache answers what was asked before."""
        return Plan(self._reader.model, {}, self._todo)

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
        meter = self._reader.meter
        return Spent(meter.usage.input_tokens + meter.usage.output_tokens, meter.spent)
