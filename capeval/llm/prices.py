"""Prices of models: the user's own figures, else those of the catalogue of judges."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from capeval.config import read_config
from capeval.errors import InputError
from capeval.llm.judge_models import (
    Price,
    find_judge,
    names_of,
    packaged_judges,
    read_judges,
)
from capeval.text import complaint, shown


def price_of(model: str, overrides: Mapping[str, Price] | None = None) -> Price | None:
    """Return the price of a model, or None where it is not known.

    A dated snapshot that is not listed has the price of its undated name; `overrides` come
    before the catalogue.

    >>> price_of("gpt-4.1-2025-04-14") == price_of("gpt-4.1")
    True
    >>> price_of("my-own-model") is None
    True
    """
    entry = find_judge(model)
    if overrides:
        for name in names_of(model):
            listed = find_judge(name)
            for known in (name, listed.name if listed else name):
                if known in overrides:
                    return overrides[known]
    return entry.price if entry else None


def priced_on(model: str) -> str | None:
    """Return the day of the catalogue's price of a model, as YYYY-MM-DD."""
    entry = find_judge(model)
    return str(entry.priced_on) if entry and entry.price and entry.priced_on else None


def read_prices(path: Path) -> dict[str, Price]:
    """Return the user's own prices by model, none if there is no file.

    They are in the `[prices."MODEL"]` tables of a file, which come first, and in its
    `[judges."MODEL"]` tables. Raises `InputError`.
    """
    packaged, entries = packaged_judges(), read_judges(path)
    prices = {
        each: entry.price
        for name, entry in entries.items()
        if entry.price and entry is not packaged.get(name)
        for each in (name, *entry.other_names)
        if each == name or each not in entries
    }
    tables = read_config(path, "prices")
    return prices | {model: _price(path, model, table) for model, table in tables.items()}


def _price(path: Path, model: str, table: object) -> Price:
    where = f'prices."{model}"'
    if not isinstance(table, dict):
        raise InputError(f"must be a table, not {shown(table)}", file=path, field=where)
    try:
        return Price.model_validate(table)
    except ValidationError as faults:
        field, message = complaint(faults)
        raise InputError(message, file=path, field=f"{where}.{field}") from None
