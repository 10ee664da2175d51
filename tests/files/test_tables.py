"""Tables of every kind are read alike, and every mistake is one line with its place."""

from __future__ import annotations

import csv
import datetime
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from capeval.errors import InputError
from capeval.files.tables import FileTable, read_table
from tests.files.workbooks import save_workbook

HEADER = ["video_id", "system", "score"]
ROWS = [["v1", "a, b", "1"], ["v2", "c", "2.5"]]


def _csv(delimiter: str, end: str = "\n", encoding: str = "utf-8") -> Callable[[Path], None]:
    def write(path: Path) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, delimiter=delimiter, lineterminator=end).writerows([HEADER, *ROWS])
        path.write_bytes(text.getvalue().encode(encoding))

    return write


def _json(path: Path, *, lines: bool) -> None:
    records = [dict(zip(HEADER, row, strict=True)) for row in ROWS]
    path.write_text("\n".join(map(json.dumps, records)) if lines else json.dumps(records), "utf-8")


def _parquet(path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = dict(zip(HEADER, zip(*ROWS, strict=True), strict=True))
    parquet.write_table(pyarrow.table({k: list(v) for k, v in columns.items()}), path)


KINDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "commas": (_csv(","), "line 2"),
    "semicolons": (_csv(";"), "line 2"),
    "tabs": (_csv("\t"), "line 2"),
    "CRLF": (_csv(",", "\r\n"), "line 2"),
    "CR": (_csv(",", "\r"), "line 2"),
    "byte order mark": (_csv(";", encoding="utf-8-sig"), "line 2"),
    "Excel's Unicode text": (_csv("\t", "\r\n", "utf-16"), "line 2"),
    "workbook": (lambda path: save_workbook(path, [HEADER, *ROWS]), 'sheet "Ratings", row 2'),
    "JSON lines": (lambda path: _json(path, lines=True), "line 1"),
    "JSON list": (lambda path: _json(path, lines=False), "entry 1"),
    "parquet": (_parquet, "row 1"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_content_decides_how_a_table_is_read(tmp_path: Path, kind: str) -> None:
    write, place = KINDS[kind]
    path = tmp_path / "table.dat"
    write(path)
    table = read_table(path)
    assert [[*row.values()] for row in table.rows] == ROWS
    assert [*table.header] == HEADER
    assert table.places[0] == place
    assert table.numbers("score").tolist() == [1, 2.5]


def table_of(folder: Path, text: str) -> FileTable:
    path = folder / "t.csv"
    path.write_text(text, encoding="utf-8", newline="")
    return read_table(path)


def test_blank_rows_are_left_out_and_short_ones_padded(tmp_path: Path) -> None:
    table = table_of(tmp_path, '\n a ;b;;\n;;\n1;"two\nlines";;\n\n3\n')
    assert table.rows == [{"a": "1", "b": "two\nlines"}, {"a": "3", "b": ""}]
    assert [*table.places] == ["line 4", "line 7"]


def test_cells_of_a_workbook_are_read_as_csv_has_them(tmp_path: Path) -> None:
    rows = [
        [],
        [" video_id ", "score", "note", None],
        ["v1", 1, True, "x"],
        [],
        [7, 0.25, datetime.date(2026, 1, 2)],
        [8.0, None],
    ]
    table = read_table(save_workbook(tmp_path / "t.xlsx", rows))
    assert [[*row.values()] for row in table.rows] == [
        ["v1", "1", "TRUE"],
        ["7", "0.25", "2026-01-02 00:00:00"],
        ["8", "", ""],
    ]
    assert [place.rpartition(" ")[2] for place in table.places] == ["3", "5", "6"]


def test_the_first_sheet_is_read(tmp_path: Path) -> None:
    path = save_workbook(
        tmp_path / "t.xlsx", [["a"], ["1"]], title="First", others={"Old": [["b"], ["2"]]}
    )
    assert read_table(path).rows == [{"a": "1"}]


@pytest.mark.parametrize(
    "content", [b"PK\x03\x04 not a zip", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 an .xls file"]
)
def test_what_openpyxl_cannot_read_is_to_be_saved_as_csv(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.xlsx"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"t.xlsx: cannot be read .*: save it as CSV"):
        read_table(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3,0,5\n", "line 3: has 3 cells where the header has 2"),
        ("a,b,a\n1,2,3\n", 'has two columns "a"; rename one'),
        ("a,b\n", "has no rows below its header"),
        ('a,b\n1,2\n"3,4\n', "line 3: is not CSV (unexpected end of data)"),
        ('[{"a": 1},\n 7]', "entry 2: must be a JSON object, not 7"),
        ('{"a": 1}\n{"a": ', "line 2: broken JSON"),
        ("PAR1 but not parquet", "is damaged parquet"),
    ],
)
def test_a_broken_table_is_reported_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        table_of(tmp_path, text)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("cell", "number"),
    [("1e5", 1e5), ("+3", 3), (".5", 0.5), (" 7 ", 7), ("-1E+2", -100), ("1e-400", 0)],
)
def test_numbers_are_read(tmp_path: Path, cell: str, number: float) -> None:
    assert table_of(tmp_path, f'a\n"{cell}"\n').numbers("a").tolist() == [number]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("high", "must be a number"),
        ("1e101", "must be at most"),
        ("=A1", "must be a number"),
        ("1,5", "write decimals with a point"),
    ],
)
def test_an_invalid_number_is_reported_with_its_place(
    tmp_path: Path, cell: str, message: str
) -> None:
    with pytest.raises(InputError) as raised:
        table_of(tmp_path, f'a;b\n1;\n"{cell}";\n').numbers("a")
    assert message in raised.value.message
    assert (raised.value.where, raised.value.field) == ("line 3", "a")
    assert json.dumps(cell) in raised.value.message


def test_names_are_stripped_and_unescaped_and_never_empty(tmp_path: Path) -> None:
    table = table_of(tmp_path, "a;b;c\n x ;;x\n'=1;1;\x1b[2J\n'tis;1;x\n")
    assert table.names("a") == ["x", "=1", "'tis"]
    with pytest.raises(InputError, match="line 2: b: is empty"):
        table.names("b")
    with pytest.raises(InputError, match=r"line 3: c: .*has a control character"):
        table.names("c")


def test_columns_are_found_by_name_or_as_mapped(tmp_path: Path) -> None:
    table = table_of(tmp_path, "Video ID,System,mos\nv,a,1\n")
    assert table.choose(["video_id", "score"], ["system", "rater"], {"score": "mos"}) == {
        "video_id": "Video ID",
        "score": "mos",
        "system": "System",
    }
    with pytest.raises(InputError) as raised:
        table.choose(["video_id", "rating"], (), {})
    assert raised.value.message == (
        "has no column rating; name it with --columns rating=COLUMN; it has "
        '"Video ID", "System", "mos"'
    )
