"""The replies that no rule decides, read by a chat model: estimated, then read one by one."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from capeval.errors import CacheMiss, CapevalError, ReplyError, RequestRefused, RetriesExhausted
from capeval.files.packaged import filled, prompts_label, template
from capeval.llm.asker import Asker
from capeval.llm.meter import Meter
from capeval.llm.replies import Number, ReplyForm, in_form, object_of, read_reply
from capeval.llm.types import ChatRequest, ReplyBroken, ReplyRefused, ReplySchema
from capeval.mcq.strategies import MODEL_FAILED, Asked, AskModel, Decision, Strategy
from capeval.runs.concurrency import work_through
from capeval.runs.engine import Labels, Progress, Spent, Status, Stored
from capeval.schema.question import OPTION_LETTERS
from capeval.schema.usage import Usage
from capeval.text import one_line, storable

PROMPTS = "mcq-select-v1"
NONE = "none"

TRIES = 5
"""How often TOMATO's code asks before it chooses at random."""

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


class _Choice(ReplyForm):
    choice: str | Number


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

        def read(value: Any, _: list[str]) -> str:
            choice = str(in_form(_Choice, value).choice)
            if choice not in choices:
                raise ReplyError(f"choice must be one of {', '.join(choices)}")
            return choice

        answer = await self._asker.ask(
            self._choice_request(asked), lambda reply: read_reply(reply.text, read)[0]
        )
        return None if answer.value == NONE else choices.index(answer.value)

    def _choice_request(self, asked: Asked) -> ChatRequest:
        choices = _choices(asked)
        data = {
            "question": asked.response.question,
            "options": dict(zip(choices[:-1], asked.options, strict=True)),
            "reply": asked.reply[-_LONGEST:],
        }
        listed = ", ".join(json.dumps(one, ensure_ascii=False) for one in choices)
        schema = ReplySchema("choice", object_of(choice={"type": "string", "enum": [*choices]}))
        return self._request("choice", data, listed, schema)

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
        quoted = storable(json.dumps(data, ensure_ascii=False, indent=1))
        parts = {"data": quoted, "choices": choices}
        text = filled(template(PROMPTS, _TEMPLATES[asks]), parts)
        message = {"role": "user", "content": text}
        return ChatRequest(self.model, (message,), _MAX_TOKENS, repeat=repeat, schema=schema)


def _choices(asked: Asked) -> tuple[str, ...]:
    """Return what may be chosen: the letters of the options, and none at the end."""
    return (*OPTION_LETTERS[: len(asked.options)], NONE)


# ---- Many replies ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Undecided:
    """A reply that the rules of a strategy leave to a model; `asks` is what the model is asked.

    `place` is that of its decision.
    """

    place: tuple[int, int]
    asked: Asked
    strategy: Strategy
    seed: int
    asks: AskModel

    def end(self) -> Decision:
        """Return the decision where the model found no option."""
        if self.strategy.last is None:
            return Decision(None, "model: none")
        return self.strategy.end(self.asked, self.seed)


async def estimate_reading(
    todo: Sequence[Undecided], offline: ModelReader
) -> tuple[Usage, float | None]:
    """Return the expected usage and its cost, None without a price; makes no call.

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
    return usage, 0.0 if not sizes else None if price is None else price.cost(usage)


async def read_replies(
    todo: Sequence[Undecided],
    reader: ModelReader,
    record: Callable[[Undecided, Decision], None],
    *,
    concurrency: int,
    progress: Progress | None = None,
) -> None:
    """Have a model read replies, and pass each decision to `record` as soon as it is known.

    Where the model cannot be called any more, its replies so far are in the cache.
    """
    begun = time.monotonic()
    done = failed = 0

    def show(last: Stored[Decision] | None = None) -> None:
        if progress is not None:
            usage, dollars = reader.meter.usage, reader.meter.spent
            progress.update(
                Status(
                    name=reader.model,
                    labels=Labels("reading", "answer", "read", "unread"),
                    kept=0,
                    total=len(todo),
                    done=done,
                    failed=failed,
                    seconds=time.monotonic() - begun,
                    spent=Spent(usage.input_tokens + usage.output_tokens, dollars),
                    last=last,
                )
            )

    async def read(one: Undecided) -> Decision:
        return await reader.decide(one.asks, one.asked, one.end)

    def keep(one: Undecided, decision: Decision) -> None:
        nonlocal done, failed
        record(one, decision)
        done += 1
        failed += bool(decision.unscored)
        show(Stored(one.asked.response.id, decision, decision.unscored or None))

    show()
    await work_through(todo, read, concurrency=concurrency, record=keep)
