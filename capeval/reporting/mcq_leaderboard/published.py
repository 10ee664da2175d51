"""Published accuracies on multiple-choice benchmarks, with footnotes on rows that cannot be right.

`published.toml` has the tables as printed; a test checks its footnotes against the cells and the
numbers of questions.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from capeval.errors import InputError
from capeval.files.reading import read_text

TABLE = Path(__file__).with_name("published.toml")


@dataclass(frozen=True)
class PublishedRow:
    """A model's accuracies, or a baseline's; fractions, or counts in a table of counts.

    Attributes
    ----------
    cells : as the table's columns
    overall : None in tables without an overall accuracy
    frames : as capeval's sampling policies, "video" for a model that takes the file itself, "none"
        for one that sees nothing; empty where the paper does not say
    """

    model: str
    cells: tuple[float, ...]
    overall: float | None
    frames: str = ""
    baseline: bool = False


@dataclass(frozen=True)
class PublishedNote:
    """Why a row disagrees with its own cells.

    `questions` are the numbers of questions of each column that its cells fit instead.
    """

    model: str
    columns: tuple[str, ...]
    text: str
    questions: tuple[int, ...] = ()


@dataclass(frozen=True)
class PublishedTable:
    """One table.

    Attributes
    ----------
    by : the tag whose values are the columns
    questions : of each column; empty where every column has all of them
    overall_questions : all questions of the benchmark
    counts : whether the cells are numbers of replies
    decimals : of the printed percentages
    """

    benchmark: str
    title: str
    citation: str
    about: str
    by: str
    columns: tuple[str, ...]
    questions: tuple[int, ...]
    overall_questions: int
    rows: tuple[PublishedRow, ...]
    footnotes: tuple[PublishedNote, ...]
    counts: bool = False
    decimals: int = 1


@cache
def read_published_accuracies(path: Path = TABLE) -> tuple[PublishedTable, ...]:
    """Read the tables.

    Raises
    ------
    InputError
        The file is not complete, so the installation is broken.
    """
    try:
        return tuple(_table(table) for table in tomllib.loads(read_text(path))["tables"])
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"not valid TOML: {error}", file=path) from None
    except KeyError as error:
        raise InputError("is missing; install capeval again", file=path, field=str(error)) from None
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{error}; install capeval again", file=path) from None


def _table(table: Mapping[str, Any]) -> PublishedTable:
    columns = tuple(table["columns"])
    questions = tuple(table.get("questions", ()))
    if questions and (
        len(questions) != len(columns) or sum(questions) != table["overall_questions"]
    ):
        raise ValueError(f"questions must be {len(columns)} numbers with the sum of all questions")
    frames = table.get("frames", {})
    rows = [
        _row(model, values, table, frames.get(model, table.get("usual_frames", "")), group)
        for group in ("baselines", "rows")
        for model, values in table.get(group, {}).items()
    ]
    models = {row.model for row in rows}
    notes = tuple(
        PublishedNote(
            note["model"], tuple(note["columns"]), note["text"], tuple(note.get("questions", ()))
        )
        for note in table.get("footnotes", ())
    )
    for note in notes:
        if note.model not in models or not {*note.columns} <= {*columns, "overall"}:
            raise ValueError(f"a footnote on {note.model} names no row or column of the table")
    return PublishedTable(
        benchmark=table["benchmark"],
        title=table["title"],
        citation=table["citation"],
        about=table["about"],
        by=table["by"],
        columns=columns,
        questions=questions,
        overall_questions=table["overall_questions"],
        rows=tuple(rows),
        footnotes=notes,
        counts=table.get("counts", False),
        decimals=table.get("decimals", 1),
    )


def _row(
    model: str, values: list[float], table: Mapping[str, Any], frames: str, group: str
) -> PublishedRow:
    has_overall = "questions" in table
    counts = table.get("counts", False)
    width, most = (
        len(table["columns"]) + has_overall,
        table["overall_questions"] if counts else 100,
    )
    if len(values) != width or not all(0 <= value <= most for value in values):
        raise ValueError(f"{model}: {values} must be {width} numbers from 0 to {most}")
    # The decimal that was printed: 58.5 is 0.585, not 0.5850000000000001.
    cells = [float(value) if counts else round(value / 100, 6) for value in values]
    overall = cells.pop() if has_overall else None
    return PublishedRow(model, tuple(cells), overall, frames, group == "baselines")
