"""Ask a chat model which option a reply chooses, where no rule decides."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from capeval.errors import ReplyError, RequestRefused, RetriesExhausted
from capeval.files.packaged import filled, prompts_label, template
from capeval.llm.asker import Asker
from capeval.llm.prices import Price
from capeval.llm.types import ChatReply, ChatRequest, ReplyBroken, ReplyRefused, ReplySchema
from capeval.mcq.asked import Asked
from capeval.mcq.strategies import MODEL_FAILED, AskModel, Decision
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
    """Reads replies with a chat model; an asker without a client reads those in its cache."""

    def __init__(self, asker: Asker, model: str) -> None:
        self._asker, self.model = asker, model

    @property
    def price(self) -> Price | None:
        """The price of the model, or None where it is not known."""
        return self._asker.meter.price(self.model)

    async def decide(self, asks: AskModel, one: Asked, end: Callable[[], Decision]) -> Decision:
        """Return a decision on a reply; a call that fails leaves it unscored.

        `end` decides where the model found no option.
        """
        try:
            position = await self.ask(asks, one)
        except (ReplyBroken, ReplyRefused, RequestRefused, RetriesExhausted) as error:
            reason = f"the model that reads replies failed: {one_line(str(error))}"
            return Decision(None, MODEL_FAILED, unscored=reason)
        option = one.of_prompt(position)
        return end() if option is None else Decision(option, "model")

    async def ask(self, asks: AskModel, one: Asked) -> int | None:
        """Return the prompt's number of the option that the model found, or None."""
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
