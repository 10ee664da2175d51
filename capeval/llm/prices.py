"""What tokens cost: a dated table that is packaged, and the user's own figures over it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from capeval.config import read_config
from capeval.errors import InputError
from capeval.schema.usage import Usage

TABLE = Path(__file__).with_name("prices.toml")
SNAPSHOT = re.compile(r"-\d{4}-\d{2}-\d{2}$")


class Price(BaseModel):
    """US dollars for a million tokens; without `cached_input`, cached tokens cost as others.

    >>> Price(input=2.5, cached_input=1.25, output=10).cost(Usage(input_tokens=400_000))
    1.0
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: float = Field(ge=0, allow_inf_nan=False)
    cached_input: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)

    def cost(self, usage: Usage) -> float:
        """Return what `usage` costs, in US dollars."""
        cached = min(usage.cached_tokens, usage.input_tokens)
        cached_input = self.input if self.cached_input is None else self.cached_input
        fresh = (usage.input_tokens - cached) * self.input
        return (fresh + cached * cached_input + usage.output_tokens * self.output) / 1_000_000


def price_of(model: str, overrides: Mapping[str, Price] | None = None) -> Price | None:
    """Return the price of a model, or None where it is not known.

    A dated snapshot that is not listed bears the price of its undated name; `overrides` come
    before the packaged table.

    >>> price_of("gpt-4.1-2025-04-14") == price_of("gpt-4.1")
    True
    >>> price_of("my-own-model") is None
    True
    """
    prices, aliases = _table()
    bare = model.removeprefix("openai/")
    for table in (overrides or {}, prices):
        for name in (model, bare, SNAPSHOT.sub("", bare)):
            for known in (name, aliases.get(name, name)):
                if known in table:
                    return table[known]
    return None


def prices_as_of() -> str:
    """Return the day of the packaged prices, as YYYY-MM-DD."""
    return str(_read_table()["as_of"])


def read_prices(path: Path) -> dict[str, Price]:
    """Return the prices in the `[prices."MODEL"]` tables of a file, none if there is no file.

    Raises `InputError`.
    """
    tables = read_config(path, "prices")
    return {model: _price(path, model, table) for model, table in tables.items()}


def _price(path: Path, model: str, table: object) -> Price:
    try:
        return Price.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(["prices", f'"{model}"', *map(str, first["loc"])])
        raise InputError(first["msg"], file=path, field=where) from None


@cache
def _read_table() -> dict[str, Any]:
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


@cache
def _table() -> tuple[dict[str, Price], dict[str, str]]:
    table = _read_table()
    prices = {model: Price.model_validate(price) for model, price in table["prices"].items()}
    return prices, table["aliases"]
