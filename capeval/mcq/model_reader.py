"""Ask a chat model which option a reply chooses, where no rule decides."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from capeval.errors import ReplyError, RequestRefused, RetriesExhausted
from capeval.files.prompts import filled, prompts_label, template
from capeval.llm.asker import Asker
from capeval.llm.types import ChatReply, ChatRequest, ReplyBroken, ReplyRefused, ReplySchema
from capeval.mcq.asked import Asked
from capeval.mcq.strategies import AskModel, Decision
from capeval.schema.question import OPTION_LETTERS
from capeval.text import one_line, storable

PROMPTS = "mcq-select-v1"
NONE = "none"

TRIES = 5
"""How often TOMATO's code asks before it draws."""

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
    """Reads replies with a chat model, many at the same time."""

    def __init__(self, asker: Asker, model: str, *, concurrency: int) -> None:
        self._asker, self.model = asker, model
        self._concurrency = concurrency

    async def decide(
        self,
        asks: AskModel,
        asked: Sequence[Asked],
        end: Callable[[Asked], Decision],
        on_done: Callable[[], None] = lambda: None,
    ) -> list[Decision]:
        """Return a decision for each reply; a call that fails leaves it unscored.

        `end` decides where the model found no option.
        """
        found: list[Decision | None] = [None] * len(asked)
        left = iter(range(len(asked)))
        ask = self._choice if asks == "choice" else self._tomato

        async def work() -> None:
            for number in left:
                one = asked[number]
                try:
                    with self._asker.one_caption():
                        position = await ask(one)
                except (ReplyBroken, ReplyRefused, RequestRefused, RetriesExhausted) as error:
                    reason = f"the model that reads replies failed: {one_line(str(error))}"
                    found[number] = Decision(None, "model failed", unscored=reason)
                else:
                    option = one.of_prompt(position)
                    found[number] = end(one) if option is None else Decision(option, "model")
                on_done()

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._concurrency, len(asked))):
                    group.create_task(work())
        except BaseExceptionGroup as errors:
            # Workers fail alike: a refused key is one message for the user.
            raise errors.exceptions[0] from None
        return [one for one in found if one is not None]

    async def _choice(self, asked: Asked) -> int | None:
        letters = OPTION_LETTERS[: len(asked.options)]
        choices = [*letters, NONE]
        data = {
            "question": asked.response.question,
            "options": _options(asked),
            "reply": asked.reply[-_LONGEST:],
        }
        request = self._request(
            "choice", data, ", ".join(json.dumps(one) for one in choices), _schema(len(letters))
        )

        def check(reply: ChatReply) -> str:
            return _chosen(reply.text, choices)

        answer = await self._asker.ask(request, check)
        return None if answer.value == NONE else letters.index(answer.value)

    async def _tomato(self, asked: Asked) -> int | None:
        letters = OPTION_LETTERS[: len(asked.options)]
        data = {"reply": asked.reply[-_LONGEST:], "options": _options(asked)}
        for repeat in range(TRIES):
            request = self._request("tomato", data, "", None, repeat)
            try:
                answer = await self._asker.ask(request, lambda reply: reply.text, attempts=1)
            except ReplyBroken:
                continue  # an empty reply is no letter
            # Published code accepts the bare letter alone.
            if len(answer.value) == 1 and answer.value in letters:
                return letters.index(answer.value)
        return None

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


def _options(asked: Asked) -> dict[str, str]:
    return dict(zip(OPTION_LETTERS, asked.options, strict=False))


def _quoted(data: object) -> str:
    return storable(json.dumps(data, ensure_ascii=False, indent=1))


@lru_cache
def _schema(options: int) -> ReplySchema:
    choices = [*OPTION_LETTERS[:options], NONE]
    return ReplySchema(
        "choice",
        {
            "type": "object",
            "properties": {"choice": {"type": "string", "enum": choices}},
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
        value = json.loads(found[0])
    except ValueError:
        raise ReplyError(expected) from None
    choice = value.get("choice")
    if set(value) != {"choice"} or choice not in choices:
        raise ReplyError(expected)
    return str(choice)
