from __future__ import annotations

import csv
from pathlib import Path

import pytest

from capeval.errors import InputError
from capeval.files.table_reading import read_spreadsheet


def saved(folder: Path, text: str) -> Path:
    path = folder / "t.csv"
    path.write_bytes(text.encode("utf-8"))
    return path


def test_what_a_spreadsheet_does_to_a_table_is_undone(tmp_path: Path) -> None:
    text = '\ufeff B ;A;more\r\n;;\r\n1;"two\r\nlines, ""q"""\r\n3;4;5\r\n'
    table = read_spreadsheet(saved(tmp_path, text), ["a", "b"])
    assert table.columns == {"b": ["1", "3"], "a": ['two\r\nlines, "q"', "4"], "more": ["", "5"]}
    assert list(table.lines) == [3, 5]


def test_a_header_alone_is_a_table_without_rows(tmp_path: Path) -> None:
    assert len(read_spreadsheet(saved(tmp_path, "a\tb\n"), ["a"])) == 0


def test_the_interpreters_limit_is_put_back(tmp_path: Path) -> None:
    limit = csv.field_size_limit()
    table = read_spreadsheet(saved(tmp_path, f"a\n{'x' * (limit + 1)}\n"), ["a"])
    assert len(table.columns["a"][0]) == limit + 1
    assert csv.field_size_limit() == limit


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("labl,b\n", 'line 1: the column "label" is missing; rename "labl" to "label"'),
        ("\nlabel,Label\n", 'line 2: the column "label" is duplicated'),
        ('label\n\n"x\n', "line 3: is not CSV"),
    ],
)
def test_faults_are_named_with_their_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_spreadsheet(saved(tmp_path, text), ["label"])


def test_columns_that_are_read_stand_once_and_others_as_they_like(tmp_path: Path) -> None:
    table = read_spreadsheet(saved(tmp_path, "a,b,b,\n1,2,3,4\n"), ["a"], ["c"])
    assert table.columns["a"] == ["1"]
    with pytest.raises(InputError, match='line 1: the column "b" is duplicated'):
        read_spreadsheet(saved(tmp_path, "a,b,B\n1,2,3\n"), ["a"], ["b"])
