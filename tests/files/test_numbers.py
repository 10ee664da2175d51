"""What a number is in every file whose numbers lead to statistics."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from capeval.errors import InputError
from capeval.files.metrics import load_metrics
from capeval.files.ratings import RatingTable, load_human
from tests.files.workbooks import save_workbook

NONE = "is not a number"
LARGE = "is too large to compute with (above 1e100); rescale the column"
ASCII = f"{NONE}; use only the digits 0 to 9"

READ = {
    "1e5": 1e5,
    "+3": 3.0,
    ".5": 0.5,
    "5.": 5.0,
    " 7 ": 7.0,
    "-1e100": -1e100,
    "1e-400": 0.0,
    "1E+2": 100.0,
}
REFUSED = {
    "1e101": LARGE,
    "-2e100": LARGE,
    "1e400": LARGE,
    "inf": "is not finite",
    "-Infinity": "is not finite",
    "1+2j": NONE,
    "1_000": NONE,
    "\uff11\uff12": ASCII,
    "\u0663": ASCII,
    "\u22123": f"{NONE}; write a minus as -",
    "\u221e": NONE,
    "0x10": NONE,
    "1d5": NONE,
    "1/2": NONE,
    "3%": NONE,
    "1,5": f"{NONE}; write decimals with a point",
    "TRUE": NONE,
    "high": NONE,
}


def _csv(path: Path, header: str, *rows: str) -> Path:
    path.write_text("\n".join((header, *rows)) + "\n", "utf-8")
    return path


def _long(path: Path, cell: str) -> float:
    return _rating(_csv(path, "video_id,rater,score", "v,x,1", f'w,x,"{cell}"'))


def _wide(path: Path, cell: str) -> float:
    return _rating(_csv(path, "video_id,human,human_2", "v,1,1", f'w,"{cell}",'))


def _assessed(path: Path, cell: str) -> float:
    return _rating(_csv(path, "SYS,SID,RAW.SCR", "a,1,5", f'a,2,"{cell}"'))


def _rating(path: Path) -> float:
    table = load_human(path)
    assert isinstance(table, RatingTable)
    return float(table.ratings[0, 1])


def _column(path: Path, cell: str) -> float:
    table = load_human(_csv(path, "video_id,score,m", "v,1,1", f'w,2,"{cell}"'), ["m"])
    assert isinstance(table, RatingTable)
    return float(table.metrics["m"][1])


def _metric(path: Path, cell: str) -> float:
    (found,) = load_metrics(_csv(path, "video_id,m", "v,1", f'w,"{cell}"'), "m").metrics
    return found.scores["w", None]


def _stored(path: Path, cell: str) -> float:
    lines = [{"index": at, "metric": "m", "value": given} for at, given in (("v", 1), ("w", cell))]
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    (found,) = load_metrics(path, "m").metrics
    return found.scores["w", None]


def _sheet(path: Path, cell: str) -> float:
    return _rating(save_workbook(path, [["video_id", "score"], ["v", "1"], ["w", cell]]))


READERS = {
    "ratings.csv": (_long, "line 3: score"),
    "wide.csv": (_wide, "line 3: human"),
    "assessments.csv": (_assessed, "line 3: RAW.SCR"),
    "columns.csv": (_column, "line 3: m"),
    "metric.csv": (_metric, "line 3: m"),
    "metrics.jsonl": (_stored, "line 2: value"),
    "ratings.xlsx": (_sheet, 'sheet "Ratings", row 3: score'),
}


@pytest.mark.parametrize("name", READERS)
def test_every_reader_reads_the_same_numbers(tmp_path: Path, name: str) -> None:
    read, _ = READERS[name]
    assert {cell: read(tmp_path / name, cell) for cell in READ} == READ


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(("cell", "told"), REFUSED.items())
def test_every_reader_names_the_place_of_what_is_no_number(
    tmp_path: Path, name: str, cell: str, told: str
) -> None:
    read: Callable[[Path, str], float]
    read, place = READERS[name]
    with pytest.raises(InputError) as raised:
        read(tmp_path / name, cell)
    assert str(raised.value) == f'{tmp_path / name}: {place}: "{cell}" {told}'
