"""Which layer of which model BERTScore compares, as its authors chose it."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("bertscore_layers.toml")

# Models that the hub has moved into the folders of their authors since the table was made.
_MOVED_TO = frozenset(
    {
        "FacebookAI",
        "albert",
        "distilbert",
        "google-bert",
        "google-t5",
        "openai-community",
        "xlnet",
    }
)


@cache
def _table() -> dict[str, int]:
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def table_name(model: str) -> str:
    """Return the name that the authors' tables have for a model of the hub.

    >>> table_name("FacebookAI/roberta-large")
    'roberta-large'
    """
    owner, _, name = model.partition("/")
    return name if owner in _MOVED_TO and name in _table() else model


def known_layer(model: str) -> int | None:
    """Return the authors' layer for a model of the hub, None for any other.

    >>> known_layer("roberta-large"), known_layer("./mine")
    (17, None)
    """
    return _table().get(table_name(model))
