import datetime
import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import openpyxl
import pandas
import pytest

from capeval.errors import InputError
from capeval.files.tables import FileTable, read_table
from tests.files.making import save_workbook

pytestmark = pytest.mark.usefixtures("alone")

FILE = Path("t.dat")
HEADER = ["video_id", "system", "score"]
ROWS = [["v1", "a, b", "1"], ["v2", "c", "2.5"]]
RECORDS = [dict(zip(HEADER, row, strict=True)) for row in ROWS]


def _csv(delimiter: str, end: str = "\n", encoding: str = "utf-8") -> Callable[[Path], object]:
    text = pandas.DataFrame(RECORDS).to_csv(sep=delimiter, lineterminator=end, index=False)
    return lambda path: path.write_bytes(text.encode(encoding))


KINDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "commas": (_csv(","), "line 2"),
    "semicolons": (_csv(";"), "line 2"),
    "CR": (_csv(",", "\r"), "line 2"),
    "byte order mark": (_csv(";", encoding="utf-8-sig"), "line 2"),
    "Excel's Unicode text": (_csv("\t", "\r\n", "utf-16"), "line 2"),
    "workbook": (lambda path: save_workbook(path, [HEADER, *ROWS]), 'sheet "Ratings", row 2'),
    "JSON lines": (lambda path: path.write_text("\n".join(map(json.dumps, RECORDS))), "line 1"),
    "JSON list": (lambda path: path.write_text(json.dumps(RECORDS)), "entry 1"),
    "parquet": (lambda path: pandas.DataFrame(RECORDS).to_parquet(path), "row 1"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_content_decides_how_a_table_is_read(kind: str) -> None:
    write, place = KINDS[kind]
    write(FILE)
    table = read_table(FILE)
    assert (table.header, table.rows, table.places[0]) == (HEADER, RECORDS, place)
    assert table.numbers("score").tolist() == [1, 2.5]


def table_of(text: str) -> FileTable:
    FILE.write_text(text, encoding="utf-8", newline="")
    return read_table(FILE)


def test_blank_rows_are_left_out_and_short_ones_padded() -> None:
    table = table_of('\n a ;b;;\n;;\n1;"two\nlines";;\n\n3\n')
    assert table.rows == [{"a": "1", "b": "two\nlines"}, {"a": "3", "b": ""}]
    assert [*table.places] == ["line 4", "line 7"]


def test_cells_of_a_workbook_are_read_as_csv_has_them() -> None:
    rows = [
        [],
        [" video_id ", "score", "note", None],
        ["v1", 1, True, "x"],
        [],
        [7, 0.25, datetime.date(2026, 1, 2)],
        [8.0, None, "=A1+1"],
    ]
    path = save_workbook(FILE, rows, Old=[["b"], ["2"]])
    table = read_table(path)
    assert [[*row.values()] for row in table.rows] == [
        ["v1", "1", "TRUE"],
        ["7", "0.25", "2026-01-02 00:00:00"],
        ["8", "", "=A1+1"],
    ]
    assert [place.rpartition(" ")[2] for place in table.places] == ["3", "5", "6"]
    workbook = openpyxl.load_workbook(BytesIO(path.read_bytes()))
    workbook.move_sheet("Old", -1)
    workbook["Old"].sheet_state = "hidden"
    workbook.save(path)
    assert read_table(path).rows == table.rows


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a,b\n1,2\n3,0,5\n", "line 3: has 3 cells where the header has 2"),
        (b"a,b,a\n1,2,3\n", 'has two columns named "a"; rename one'),
        (b"a,b\n", "has no rows below its header"),
        (b'a,b\n1,2\n"3,4\n', "line 3: is not CSV (unexpected end of data)"),
        (b'[{"a": 1},\n 7]', "entry 2: must be a JSON object, not 7"),
        (b'{"a": 1}\n{"a": ', "line 2: broken JSON"),
        (b"PAR1 but not parquet", "is damaged parquet"),
        (b"PK\x03\x04 not a zip", "cannot be read as an XLSX workbook: save it as CSV"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 an .xls file", "cannot be read as an XLSX workbook"),
    ],
)
def test_a_broken_table_is_reported_in_one_line(data: bytes, message: str) -> None:
    FILE.write_bytes(data)
    with pytest.raises(InputError) as raised:
        read_table(FILE)
    assert str(raised.value).startswith(f"t.dat: {message}")


@pytest.mark.parametrize(
    ("cell", "number"), [("+3", 3), (".5", 0.5), (" 7 ", 7), ("-1E+2", -100), ("1e-400", 0)]
)
def test_numbers_are_read(cell: str, number: float) -> None:
    assert table_of(f'a\n"{cell}"\n').numbers("a").tolist() == [number]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("high", "must be a number"),
        ("1e101", "must be at most 1e\\+100"),
        ("=A1", "must be a number"),
        ("1,5", "must be a number, not .*; write decimals with a point"),
    ],
)
def test_an_invalid_number_is_reported_with_its_place(cell: str, message: str) -> None:
    with pytest.raises(InputError, match=f"line 3: a: {message}") as raised:
        table_of(f'a;b\n1;\n"{cell}";\n').numbers("a")
    assert json.dumps(cell) in str(raised.value)


def test_names_are_stripped_and_unescaped_and_never_empty() -> None:
    table = table_of("a;b;c\n x ;;x\n'=1;1;\x1b[2J\n'tis;1;x\n")
    assert table.names("a") == ["x", "=1", "'tis"]
    with pytest.raises(InputError, match="line 2: b: is empty"):
        table.names("b")
    with pytest.raises(InputError, match=r"line 3: c: .*has a control character"):
        table.names("c")
