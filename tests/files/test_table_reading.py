"""Tables: short and long, quoted and plain ones are read alike."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capeval.errors import InputError
from capeval.files.ratings import load_human
from capeval.files.table_reading import read_table

CELL = st.text("ab é'_\u00a0.1", min_size=1, max_size=4).filter(str.strip)
MARK = st.sampled_from(",;\t")
LONG = 20_000


@given(rows=st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=5), mark=MARK)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_quotes_change_nothing(tmp_path: Path, rows: list[tuple[str, str, str]], mark: str) -> None:
    found = []
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL):
        text = io.StringIO(newline="")
        writer = csv.writer(text, delimiter=mark, quoting=quoting, lineterminator="\n")
        writer.writerows([("x", "y", "z"), *rows])
        path = tmp_path / "table.csv"
        path.write_text(text.getvalue(), encoding="utf-8")
        table = read_table(path)
        found.append((table.columns, list(table.lines), table.header))
    assert found[0] == found[1]
    assert found[0][0] == dict(zip("xyz", map(list, zip(*rows, strict=True)), strict=True))


def long_table(path: Path, **changed: str) -> Path:
    """Write a table of 20,000 rows, of which the last but one may be changed."""
    lines = [f"video_{row},model,{row}.5" for row in range(LONG)]
    lines[-2] = changed.get("line", lines[-2])
    path.write_text("\n".join(["video_id,system,score", *lines, ""]), encoding="utf-8")
    return path


def test_a_long_table_has_every_row_on_its_line(tmp_path: Path) -> None:
    table = read_table(long_table(tmp_path / "long.csv"))
    assert table.names("video_id") == [f"video_{row}" for row in range(LONG)]
    assert table.names("system") == ["model"] * LONG
    assert table.numbers("score").tolist() == [row + 0.5 for row in range(LONG)]
    assert list(table.lines) == list(range(2, LONG + 2))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("v,model", "has 2 fields where the header has 3"),
        ("v,model,1,2", "has 4 fields where the header has 3"),
        ("v,,1", "system: is empty"),
        ("v,mo\x01del,1", "has a control character"),
        ("v,model,1_0", '"1_0" is not a number'),
        ("v,model,1e999", "too large"),
    ],
)
def test_a_mistake_far_down_is_named_with_its_line(tmp_path: Path, line: str, told: str) -> None:
    path = long_table(tmp_path / "long.csv", line=line)
    with pytest.raises(InputError) as raised:
        load_human(path)
    assert f"line {LONG}" in str(raised.value)
    assert told in str(raised.value)


ROWS = ["video_id;system;score", "v,0,x,y;a;1", "w;b;2"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("blank", [None, "", ";;", " ; ;\t"])
def test_how_lines_end_and_blank_rows_change_nothing(
    tmp_path: Path, end: str, blank: str | None
) -> None:
    lines = [*ROWS[:2], *([] if blank is None else [blank]), *ROWS[2:]]
    path = tmp_path / "table.csv"
    path.write_bytes(end.join([*lines, ""]).encode())
    table = read_table(path)
    assert table.names("video_id") == ["v,0,x,y", "w"]
    assert table.numbers("score").tolist() == [1, 2]
    assert list(table.lines) == ([2, 3] if blank is None else [2, 4])


def test_the_first_of_several_mistakes_is_told(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text('video_id,score\nv,1\nw\nx,"2\n', encoding="utf-8")
    with pytest.raises(InputError, match="line 3: has 1 fields where the header has 2"):
        read_table(path)
