"""The TUNA paper's tables 8, 9 and 10, with footnotes on cells that disagree with one another.

`published.toml` has the tables as printed and the footnotes; a test checks the footnotes against
what must be true of any means over the same videos.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from capeval.errors import InputError
from capeval.files.reading import read_text
from capeval.reporting.leaderboard.stored import Entry
from capeval.reporting.score_tables import (
    CHARACTERISTIC_PLACES,
    ELEMENT_PLACES,
    EVENT_PLACES,
    OVERALL,
    TYPE_PLACES,
    Means,
    Place,
)

TABLE = Path(__file__).with_name("published.toml")


@dataclass(frozen=True)
class Footnote:
    """Cells of a model that cannot all be right, or that are unlikely to be."""

    model: str
    table: int
    places: tuple[Place, ...]
    text: str


@dataclass(frozen=True)
class PublishedTables:
    """What the leaderboard shows of the paper's tables.

    Cells of rows are fractions, with F1 alone by number of events and elements.
    """

    citation: str
    judge: str
    videos: int
    rows: tuple[Entry, ...]
    footnotes: tuple[Footnote, ...]


@cache
def read_published(path: Path = TABLE) -> PublishedTables:
    """Read the tables.

    Raises
    ------
    InputError
        The file is not complete, so the installation is broken.
    """
    try:
        content = tomllib.loads(read_text(path))
        return PublishedTables(
            citation=content["citation"],
            judge=content["judge"],
            videos=content["videos"],
            rows=tuple(_row(name, entry, content) for name, entry in content["models"].items()),
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


def _row(model: str, entry: Mapping[str, str], content: Mapping[str, Any]) -> Entry:
    # Each table ends with Overall, which is the same: that of table 9 is taken.
    columns = (*TYPE_PLACES, None, *CHARACTERISTIC_PLACES, OVERALL)
    numbers = (*_fractions(content["table8"][model], 15), *_fractions(content["table9"][model], 15))
    cells: dict[Place, Means] = {
        place: Means(numbers[3 * at], numbers[3 * at + 1], numbers[3 * at + 2])
        for at, place in enumerate(columns)
        if place is not None
    }
    buckets = _fractions(content["table10"][model], 11)
    for place, value in zip((*EVENT_PLACES, *ELEMENT_PLACES), buckets[:-1], strict=True):
        cells[place] = Means(None, None, value)
    videos = content["videos"]
    return Entry(model, entry["catalogue"], entry["frames"], None, videos, None, None, cells)


def _fractions(values: Sequence[float], count: int) -> list[float]:
    if len(values) != count or not all(0 <= value <= 100 for value in values):
        raise ValueError(f"{values} must be {count} percentages")
    # The decimal that was printed: 58.5 is 0.585, not 0.5850000000000001.
    return [round(value / 100, 6) for value in values]
