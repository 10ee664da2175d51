"""Prices of models: the user's own figures, else the list prices of OpenAI's models."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from capeval.config import read_config
from capeval.errors import InputError
from capeval.llm.judge_models import find_judge, names_of
from capeval.schema.judgment import Usage
from capeval.text import complaint


class Price(BaseModel):
    """US dollars for a million tokens; without `cached_input`, cached tokens cost as others.

    >>> Price(input=2.5, cached_input=1.25, output=10).cost(Usage(input_tokens=400_000))
    1.0
    """

    # TOML has the types: `input = true` is not meant.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    input: float = Field(ge=0, allow_inf_nan=False)
    cached_input: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)

    def cost(self, usage: Usage) -> float:
        """Return what `usage` costs, in US dollars."""
        cached = min(usage.cached_tokens, usage.input_tokens)
        cached_input = self.input if self.cached_input is None else self.cached_input
        fresh = (usage.input_tokens - cached) * self.input
        return (fresh + cached * cached_input + usage.output_tokens * self.output) / 1_000_000


def price_of(model: str, own: Mapping[str, Price] | None = None) -> Price | None:
    """Return the price of a model, or None where it is not known.

    The user's `own` prices come first; one for an undated name is that of its snapshots too.

    >>> price_of("gpt-4.1-2025-04-14") == price_of("gpt-4.1")
    True
    >>> price_of("my-own-model") is None
    True
    """
    given = (own[name] for name in names_of(model) if own and name in own)
    return next(given, None) or list_price(model)


@cache
def list_price(model: str) -> Price | None:
    """Return the list price of a model of OpenAI's, or None where it is not known.

    It is that of short requests, such as capeval's: for long ones, some prices rise.
    """
    entry = find_judge(model)
    if entry is not None and entry.serve:
        return None  # what one's own server costs is in no list
    import genai_prices  # it takes 0.2 s to import

    name = model.removeprefix("openai/")
    try:
        found = genai_prices.calc_price(genai_prices.Usage(), name, provider_id="openai")
    except LookupError:
        return None
    of = found.model_price
    asked, cached, answered = (
        None if price is None else float(getattr(price, "base", price))  # type: ignore[arg-type]
        for price in (of.input_mtok, of.cache_read_mtok, of.output_mtok)
    )
    if asked is None or answered is None:
        return None
    return Price(input=asked, cached_input=cached, output=answered)


def read_prices(path: Path) -> dict[str, Price]:
    """Return the user's own prices, the `[prices."MODEL"]` tables of a file, none without one.

    Raises `InputError`.
    """
    try:
        return _PRICES.validate_python(read_config(path, "prices"))
    except ValidationError as faults:
        field, message = complaint(faults)
        raise InputError(message, file=path, field=f"prices.{field}") from None


_PRICES = TypeAdapter(dict[str, Price])
