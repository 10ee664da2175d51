"""The TUNA paper's tables 8, 9 and 10, with footnotes on cells that disagree with one another.

`published.toml` has the tables as printed and the footnotes; a test checks the footnotes against
what must be true of any means over the same videos.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from capeval.errors import InputError
from capeval.files.reading import read_text
from capeval.reporting.leaderboard.table_cells import (
    CHARACTERISTIC_PLACES,
    ELEMENT_PLACES,
    EVENT_PLACES,
    OVERALL,
    TYPE_PLACES,
    Measured,
    Place,
)

TABLE = Path(__file__).with_name("published.toml")

Triple = tuple[float, float, float]


@dataclass(frozen=True)
class PublishedRow:
    """A model of the paper, numbers in percent as printed.

    `table8` and `table9` have (P, R, F1) of four columns and of Overall; `table10` has F1 of five
    buckets of events, five of elements, and Overall.
    """

    model: str
    catalogue: str
    frames: str
    table8: tuple[Triple, ...]
    table9: tuple[Triple, ...]
    table10: tuple[float, ...]

    @property
    def cells(self) -> dict[Place, Measured]:
        """All numbers as fractions; table 10 has F1 alone."""
        found = {
            place: Measured(_fraction(precision), _fraction(recall), _fraction(f1))
            for place, (precision, recall, f1) in zip(
                (*TYPE_PLACES, *CHARACTERISTIC_PLACES, OVERALL),
                (*self.table8[:4], *self.table9),
                strict=True,
            )
        }
        return found | {
            place: Measured(None, None, _fraction(value))
            for place, value in zip(
                (*EVENT_PLACES, *ELEMENT_PLACES), self.table10[:-1], strict=True
            )
        }


@dataclass(frozen=True)
class Footnote:
    """Cells of a model that cannot all be right, or that are unlikely to be."""

    model: str
    table: int
    places: tuple[Place, ...]
    text: str


@dataclass(frozen=True)
class Published:
    """The paper's tables.

    `characteristics` are numbers of videos. `averages` are the means that table 10 prints: the
    models, and the values, NaN where one is not known.
    """

    citation: str
    judge: str
    videos: int
    characteristics: Mapping[str, int]
    rows: tuple[PublishedRow, ...]
    averages: Mapping[str, tuple[tuple[str, ...], tuple[float, ...]]]
    footnotes: tuple[Footnote, ...]


@cache
def read_published(path: Path = TABLE) -> Published:
    """Read the tables.

    Raises
    ------
    InputError
        The file is not complete, so the installation is broken.
    """
    try:
        content = tomllib.loads(read_text(path))
        return Published(
            citation=content["citation"],
            judge=content["judge"],
            videos=content["videos"],
            characteristics=content["characteristics"],
            rows=tuple(_row(name, entry, content) for name, entry in content["models"].items()),
            averages={
                name: (tuple(table["models"]), _numbers(table["values"], 11))
                for name, table in content["averages"].items()
            },
            footnotes=tuple(
                Footnote(
                    model=note["model"],
                    table=note["table"],
                    places=tuple((way, name) for way, name in note["cells"]),
                    text=note["text"],
                )
                for note in content["footnotes"]
            ),
        )
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"not valid TOML: {error}", file=path) from None
    except KeyError as error:
        raise InputError("is missing; install capeval again", file=path, field=str(error)) from None
    except (TypeError, ValueError) as error:
        raise InputError(f"{error}; install capeval again", file=path) from None


def _row(model: str, entry: Mapping[str, str], content: Mapping[str, Any]) -> PublishedRow:
    return PublishedRow(
        model=model,
        catalogue=entry["catalogue"],
        frames=entry["frames"],
        table8=_triples(content["table8"][model]),
        table9=_triples(content["table9"][model]),
        table10=_numbers(content["table10"][model], 11),
    )


def _numbers(values: Sequence[float], count: int) -> tuple[float, ...]:
    if len(values) != count or not all(math.isnan(v) or 0 <= v <= 100 for v in values):
        raise ValueError(f"{values} must be {count} percentages")
    return tuple(values)


def _triples(values: Sequence[float]) -> tuple[Triple, ...]:
    flat = _numbers(values, 15)
    return tuple((flat[at], flat[at + 1], flat[at + 2]) for at in range(0, 15, 3))


def _fraction(percent: float) -> float:
    # The decimal that was printed: 58.5 is 0.585, not 0.5850000000000001.
    return round(percent / 100, 6)
