"""Multiple-choice questions about videos, and a model's responses to them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
)

from capeval.schema.annotation import id_text

OPTION_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Names of options in files and prompts, by their number."""

VISIBLE = r"[^\s\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]"
"""A character that is seen; controls and characters without width would show an empty option."""

Text = Annotated[str, StringConstraints(strict=True, pattern=VISIBLE)]
Name = Annotated[Text, BeforeValidator(id_text)]


def _tag_value(value: Any) -> Any:
    # A table's empty field of numbers is not a number.
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    is_list = isinstance(value, list) and all(isinstance(one, str) for one in value)
    if is_list or (isinstance(value, str | int | float) and value not in (math.inf, -math.inf)):
        return value
    raise ValueError("must be text, a number, true, false, null or a list of texts")


Tag = Annotated[str | int | float | bool | list[str] | None, BeforeValidator(_tag_value)]
"""The value of a benchmark's own field, such as a task type."""


def _fit_a_response(tags: Mapping[str, Tag]) -> Mapping[str, Tag]:
    taken = sorted(tags.keys() & Response.model_fields.keys())
    if taken:
        raise ValueError(f'no tag can be called "{taken[0]}", which responses.jsonl uses itself')
    return tags


class Question(BaseModel):
    """A question with 2 to 26 options, of which one is right; its id is unique in its benchmark.

    `video` may have folders, and a suffix. A line of responses.jsonl has the tags, the benchmark's
    own fields, beside its own, so they cannot be called like a field of `Response`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Name
    benchmark: Text = "own"
    video: Name
    question: Text
    options: tuple[Text, ...] = Field(min_length=2, max_length=len(OPTION_LETTERS))
    answer: Annotated[str, StringConstraints(strict=True)]
    tags: Annotated[Mapping[str, Tag], AfterValidator(_fit_a_response)] = Field(
        default_factory=dict
    )

    @field_validator("answer")
    @classmethod
    def _is_an_option(cls, letter: str, info: ValidationInfo) -> str:
        valid = OPTION_LETTERS[: len(info.data.get("options", OPTION_LETTERS))]
        if len(letter) != 1 or letter not in valid:
            raise ValueError(f"must be a letter from A to {valid[-1]}")
        return letter

    @property
    def right(self) -> int:
        """The number of the right option, from 0."""
        return OPTION_LETTERS.index(self.answer)


Nats = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
# No model reads a text of so many tokens; larger numbers could not be divided by.
TokenCount = Annotated[int, Field(strict=True, ge=0, le=10**9)]


class Likelihoods(BaseModel):
    """Summed negative log-likelihoods of each option in nats, and its number of tokens.

    `symbol` scores the option's symbol, `symbol_text` the symbol with the text, `text` the text
    alone; `tokens` has the same names.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    symbol: tuple[Nats, ...]
    symbol_text: tuple[Nats, ...]
    text: tuple[Nats, ...]
    tokens: Mapping[str, tuple[TokenCount, ...]]


class Response(BaseModel):
    """A model's reply to a question: a line of responses.jsonl, with the question's tags beside it.

    `reply` is None if the call failed, for the `reason`, and empty if it succeeded without a text.
    `frames` were shown (`indices`, `policy`, `order`, ...); `call` is what produced the reply.
    """

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, Tag] = Field(init=False)

    id: Name
    benchmark: Text
    video: Annotated[str, BeforeValidator(id_text)]
    question: str
    options: tuple[str, ...]
    answer: str
    reply: str | None
    reason: str | None = None
    # Not `JsonValue`, whose validation takes a third of the time of grading.
    frames: Mapping[str, Any] = Field(default_factory=dict)
    likelihood: Likelihoods | None = None
    call: Mapping[str, Any] = Field(default_factory=dict, exclude_if=lambda call: not call)

    @property
    def tags(self) -> Mapping[str, Tag]:
        return self.__pydantic_extra__

    @classmethod
    def to(cls, question: Question, reply: str | None, **more: Any) -> Response:
        """Return the response to a question; `more` are further fields."""
        asked = question.model_dump(exclude={"tags"}) | dict(question.tags)
        return cls(**asked, reply=reply, **more)


def option_lines(options: Sequence[str]) -> list[str]:
    """Return the options as prompts list them.

    >>> option_lines(["left", "right"])
    ['A. left', 'B. right']
    """
    return [f"{symbol}. {text}" for symbol, text in zip(OPTION_LETTERS, options, strict=False)]
