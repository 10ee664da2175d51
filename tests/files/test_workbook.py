"""Workbooks are read like CSV, and hostile or damaged ones are one-line errors."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from capeval.errors import InputError
from capeval.files.columns import Choice
from capeval.files.metrics import load_metrics
from capeval.files.ratings import LabelTable, RatingTable, load_human
from capeval.files.table_reading import read_spreadsheet, read_table
from tests.files.workbooks import MAIN, raw_workbook, save_workbook

HEADER = ["video_id", "system", "score"]


def cell(at: str, text: str = "", inner: str = "") -> str:
    """The XML of a cell."""
    inner = inner or f"<is><t>{text}</t></is>"
    return f'<c r="{at}" t="inlineStr">{inner}</c>'


def row(number: int, *cells: str) -> str:
    """The XML of a row."""
    return f'<row r="{number}">{"".join(cells)}</row>'


ROW_1 = row(1, cell("A1", "video_id"), cell("B1", "score"))
DATA = "<sheetData>{}</sheetData>"


def test_values_are_read_as_csv_has_them(tmp_path: Path) -> None:
    rows = [
        [],
        [" Video_ID ", "system", "score", "note"],
        ["v1", "a", 1, True],
        [],
        [7, " b ", 0.25, None],
        ["7.0", "b", " 2.5 ", datetime.date(2026, 1, 2)],
    ]
    path = save_workbook(tmp_path / "human.xlsx", rows)
    table = read_table(path)
    assert table.columns["Video_ID"] == ["v1", "7", "7.0"]
    assert table.columns["note"][:2] == ["TRUE", ""]
    found = load_human(path)
    assert isinstance(found, RatingTable)
    assert list(found.keys) == [("v1", "a"), ("7", "b"), ("7.0", "b")]
    assert found.ratings.tolist() == [[1, 0.25, 2.5]]
    (notice,) = found.notices
    assert notice == (
        f'{path}: reads "Video_ID" as video_id; ignores the column "note" (to read one as a '
        "metric: --metric-columns COLUMN)"
    )


def test_numbers_can_be_labels_and_ids_of_elements(tmp_path: Path) -> None:
    rows = [["video_id", "element_id", "label"], ["v", 1.1, 1], ["v", 2.1, 0.0]]
    found = load_human(save_workbook(tmp_path / "labels.xlsx", rows))
    assert isinstance(found, LabelTable)
    assert (found.elements, found.labels) == (["1.1", "2.1"], ["covered", "not covered"])


def test_metrics_and_the_sheets_of_raters_can_be_workbooks(tmp_path: Path) -> None:
    rows = [["video_id", "bleu", "meteor"], ["v", 0.5, 1], ["w", None, 2]]
    (metric,) = load_metrics(save_workbook(tmp_path / "m.xlsx", rows), "bleu").metrics
    assert (metric.scores, [*metric.missing]) == ({("v", None): 0.5}, [("w", None)])
    rated = [["Item_ID", "Element_ID", "LABEL", "text"], ["x-1", "e1.1", "e", "=1+1"]]
    table = read_spreadsheet(save_workbook(tmp_path / "r.xlsx", rated), ["item_id", "label"])
    assert table.columns["label"] == ["e"]


def test_the_name_of_the_file_does_not_decide(tmp_path: Path) -> None:
    path = save_workbook(tmp_path / "human.csv", [HEADER, ["v", "a", 1]])
    assert len(read_table(path)) == 1
    path = tmp_path / "human.xlsx"
    path.write_text("video_id,score\nv,1\n", encoding="utf-8")
    assert len(read_table(path)) == 1


RATED = [HEADER, ["v", "a", 1]]


def test_the_sheet_with_the_table_is_found(tmp_path: Path) -> None:
    others: dict[str, Any] = {"Notes": [["read me"]], "Old": RATED, "Empty": []}
    notes_first = save_workbook(
        tmp_path / "h.xlsx", [["a note"]], title="First", others={**others}, hidden=["Notes"]
    )
    found = load_human(notes_first)
    assert found.notices == (f'{notes_first}: reads the sheet "Old" and ignores "First"',)


def test_the_sheet_with_the_mapped_columns_is_found(tmp_path: Path) -> None:
    notes = [["Segment", "remark"], ["v", "dark"]]
    rated = [["Segment", "system", "Points"], ["v", "a", 1]]
    path = save_workbook(tmp_path / "h.xlsx", notes, others={"Ratings": rated})
    mapped = {"video_id": "Segment", "score": "Points"}
    found = load_human(path, choice=Choice(mapped))
    assert list(found.keys) == [("v", "a")]
    metric = load_metrics(path, "m", Choice(mapped))
    assert metric.metrics[0].scores == {("v", "a"): 1.0}


@pytest.mark.parametrize(
    ("others", "hidden", "told"),
    [
        ({"Again": RATED}, [], 'has 2 sheets that could be meant ("Ratings", "Again"); keep one'),
        ({"Again": RATED}, ["Again", "Ratings"], "has no visible sheet with content"),
    ],
)
def test_which_sheet_is_meant_is_never_guessed(
    tmp_path: Path, others: dict[str, Any], hidden: list[str], told: str
) -> None:
    path = save_workbook(tmp_path / "h.xlsx", RATED, others=others)
    if hidden:
        # openpyxl refuses to save a workbook without a visible sheet.
        with ZipFile(path) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        text = parts["xl/workbook.xml"].replace(b'state="visible"', b'state="hidden"')
        with ZipFile(path, "w") as archive:
            for name, part in {**parts, "xl/workbook.xml": text}.items():
                archive.writestr(name, part)
    with pytest.raises(InputError) as raised:
        load_human(path)
    assert told in str(raised.value)


@pytest.mark.parametrize(
    ("rows", "merged", "told"),
    [
        ([HEADER, ["v", "a", "x"]], [], 'row 2: score: "x" is not a number'),
        ([HEADER, ["v", "a", True]], [], 'row 2: score: "TRUE" is not a number'),
        ([HEADER, ["v", "a", "#N/A"]], [], "row 2: score: is the error #N/A; correct the cell"),
        (
            [HEADER, ["v", "a", "=1+1"]],
            [],
            (
                "row 2: score: has a formula without a stored result; open it in a spreadsheet "
                "program and save it again"
            ),
        ),
        (
            [HEADER, ["v", datetime.date(2026, 2, 1), 1]],
            [],
            (
                "row 2: system: is a date or time (2026-02-01 00:00:00); if the program made it of "
                "other text, format the column as text and enter the text again"
            ),
        ),
        (
            [HEADER, ["v", "a", 1], [None, "b", 2]],
            ["A2:A3"],
            (
                "row 3: video_id: is one of the merged cells A2:A3; unmerge them and fill in each "
                "cell"
            ),
        ),
        ([HEADER, ["v", "a", 1], [None, "b", 2]], [], "row 3: video_id: is empty"),
        (
            [HEADER, ["v", "a", 1], [], ["v", "a", 2]],
            [],
            "row 4: video_id, system: v, a is duplicated (row 2 and this row)",
        ),
        ([["clip", "mos"], ["v", "high"]], [], 'row 1: the column "score" is missing ('),
        ([[*HEADER, "score"], ["v", "a", 1, 2]], [], 'row 1: the column "score" is duplicated'),
        ([HEADER], [], "row 1: has no rows below its header"),
        ([[None, "video_id"], ["v"]], [], 'row 1: the column "score" is missing; '),
    ],
)
def test_mistakes_are_named_with_sheet_row_and_column(
    tmp_path: Path, rows: list[Any], merged: list[str], told: str
) -> None:
    path = save_workbook(tmp_path / "human.xlsx", rows, merged=merged)
    with pytest.raises(InputError) as raised:
        load_human(path)
    assert str(raised.value).startswith(f'{path}: sheet "Ratings", {told}')
    assert "\n" not in str(raised.value)


def test_a_cell_that_is_not_read_may_be_anything(tmp_path: Path) -> None:
    rows = [[*HEADER, "x", "y", "y"], ["v", "a", 1, "=1/0", datetime.time(1), "#REF!"]]
    found = load_human(save_workbook(tmp_path / "h.xlsx", rows, merged=["D2:F4"]))
    assert isinstance(found, RatingTable)
    assert found.ratings.tolist() == [[1]]


def test_a_formula_is_read_by_its_stored_result(tmp_path: Path) -> None:
    formula = '<c r="B2"><f>1+1</f><v>2</v></c>'
    path = raw_workbook(tmp_path / "h.xlsx", DATA.format(ROW_1 + row(2, cell("A2", "v"), formula)))
    found = load_human(path)
    assert isinstance(found, RatingTable)
    assert found.ratings.tolist() == [[2]]


RATING = '<c r="B{}"><v>1</v></c>'


def two_rows(second: str) -> str:
    return DATA.format(ROW_1 + row(2, cell("A2", "v"), RATING.format(2)) + second)


@pytest.mark.parametrize(
    ("sheet", "told"),
    [
        (two_rows(row(2, cell("A2", "w"), RATING.format(2))), 'sheet "S", row 2: is out of place'),
        (two_rows(row(1, cell("A1", "w"))), 'sheet "S", row 1: is out of place'),
        (two_rows(row(99_999_999_999, cell("A3", "w"))), "row 99999999999: is out of place"),
        (two_rows(row(0, cell("A3", "w"))), "row 0: is out of place"),
        (two_rows(row(3, cell("A3", "w"), cell("A3", "x"))), "row 3: has a cell out of place"),
        (two_rows(row(3, cell("XFE3", "w"))), "row 3: has a cell out of place"),
        (two_rows(row(3, cell("AAAA3", "w"))), "cannot be read as a workbook (ValueError"),
        (two_rows('<row r="3"><c r="A3" t="s"><v>7</v></c></row>'), "(IndexError"),
        (two_rows('<row r="3"><c r="A3"><v>seven</v></c></row>'), "(ValueError"),
        (two_rows('<row r="3"><c r="A3"><v>' + "1" * 5000 + "</v></c></row>"), "(ValueError"),
        (DATA.format(ROW_1)[:-9], "cannot be read as a workbook (ParseError"),
        (DATA.format(""), "has no visible sheet with content"),
        (
            '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaa">]><worksheet>&a;</worksheet>',
            "defines XML entities, which no workbook needs",
        ),
        (
            '<?xml version="1.0"?><!DOCTYPE x SYSTEM "file:///etc/passwd"><worksheet/>',
            "defines XML entities, which no workbook needs",
        ),
        (DATA.format(ROW_1 + '<row r="2">' + "<c/>" * 140_000 + "</row>"), "cells in one row"),
        (
            two_rows('<row r="3"><c r="B3"><v>1e999</v></c>' + cell("A3", "w") + "</row>"),
            'sheet "S", row 3: score: "inf" is not finite',
        ),
    ],
)
def test_what_no_program_writes_is_refused_in_one_line(
    tmp_path: Path, sheet: str, told: str
) -> None:
    path = raw_workbook(tmp_path / "h.xlsx", sheet)
    with pytest.raises(InputError) as raised:
        load_human(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


BOMB = '<!DOCTYPE x [<!ENTITY a "aaa">]><worksheet>&a;</worksheet>'


@pytest.mark.parametrize(
    "part",
    [
        BOMB.encode("utf-16"),
        BOMB.encode("utf-16-le"),
        b"\n\0" + BOMB.encode("utf-16-le"),
        BOMB.encode("utf-16-be"),
        b"\0 " + BOMB.encode("utf-16-be"),
        BOMB.encode("utf-32"),
        BOMB.encode("utf-32-be"),
        b"<worksheet/>\0",
        b'<?xml version="1.0" encoding="utf-7"?><worksheet/>',
        b"\xef\xbb\xbf<?xml version='1.0' encoding = 'EBCDIC-CP-US'?><worksheet/>",
    ],
)
def test_a_part_that_is_not_in_utf_8_is_refused(tmp_path: Path, part: bytes) -> None:
    name = "xl/worksheets/sheet1.xml"
    path = raw_workbook(tmp_path / "h.xlsx", "", parts={name: part})
    with pytest.raises(InputError, match=r'a part that is not in UTF-8 \("xl/works'):
        load_human(path)


def test_a_wide_encoding_is_refused_whatever_the_name_of_the_part(tmp_path: Path) -> None:
    parts = {"xl/media/image1.png": BOMB.encode("utf-16")}
    with pytest.raises(InputError, match="is not in UTF-8"):
        load_human(raw_workbook(tmp_path / "h.xlsx", two_rows(""), parts=parts))


@pytest.mark.parametrize(
    "start", ['<?xml version="1.0" encoding="UTF-8" standalone="yes"?>', "<?xml version='1.0'?>\n"]
)
def test_pictures_and_declarations_that_programs_write_are_accepted(
    tmp_path: Path, start: str
) -> None:
    # Zeros between what looks like two tags, and the name of a printer in UTF-16.
    parts = {
        "xl/media/image1.emf": b"\1\0\0\0<" + b"\0" * 200_000 + b"<",
        "xl/printerSettings/printerSettings1.bin": "HP LaserJet".encode("utf-16-le"),
    }
    sheet = f'{start}<worksheet xmlns="{MAIN}">{two_rows("")}</worksheet>'
    assert len(read_table(raw_workbook(tmp_path / "h.xlsx", sheet, parts=parts))) == 1


def attributes(number: int, value: str) -> str:
    return " ".join(f'a{n}="{value}"' for n in range(number))


@pytest.mark.parametrize("value", ["", ">", "'>"])
@pytest.mark.parametrize("before", [0, 1_000_000, 1_048_000])
def test_a_tag_with_very_many_attributes_is_refused(
    tmp_path: Path, value: str, before: int
) -> None:
    sheet = " " * before + two_rows(f'<row r="3" {attributes(12_000, value)}/>')
    with pytest.raises(InputError, match="has an XML tag above 64 KiB; open it"):
        load_human(raw_workbook(tmp_path / "h.xlsx", sheet))


@pytest.mark.parametrize("before", [0, 1_000_000, 1_048_400])
def test_long_texts_are_no_long_tags(tmp_path: Path, before: int) -> None:
    text = " " * before + two_rows(row(3, cell("A3", 'a > " b' * 20_000), RATING.format(3)))
    table = read_table(raw_workbook(tmp_path / "h.xlsx", text))
    assert len(table.columns["video_id"][1]) == 139_999 + 1


def test_a_declared_size_with_few_cells_costs_nothing(tmp_path: Path) -> None:
    sheet = '<dimension ref="A1:XFD1048576"/>' + two_rows(
        row(1_048_576, cell("A1048576", "w"), RATING.format(1_048_576))
    )
    merges = '<mergeCells count="1"><mergeCell ref="C1:XFD1048576"/></mergeCells>'
    table = read_table(raw_workbook(tmp_path / "h.xlsx", sheet + merges))
    assert list(table.lines) == [2, 1_048_576]
    assert [*table.columns] == ["video_id", "score"]


def test_few_cells_that_span_a_large_table_are_refused(tmp_path: Path) -> None:
    columns = [
        "".join(f'<c r="{a}{b}1"><v>1</v></c>' for b in "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
        for a in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    ]
    rows = "".join(f'<row r="{n}"><c r="AA{n}"><v>1</v></c></row>' for n in range(2, 32_000))
    path = raw_workbook(tmp_path / "h.xlsx", DATA.format(row(1, *columns) + rows))
    with pytest.raises(InputError, match="is the last of too many cells; save the sheet as CSV"):
        read_table(path)


def test_merged_cells_that_overlap_are_refused(tmp_path: Path) -> None:
    merges = "".join('<mergeCell ref="A1:B9"/>' for _ in range(9))
    sheet = two_rows(row(3, cell("A3", "w"))) + f"<mergeCells>{merges}</mergeCells>"
    with pytest.raises(InputError, match="has merged cells that overlap"):
        load_human(raw_workbook(tmp_path / "h.xlsx", sheet))


def test_an_archive_that_unpacks_to_gigabytes_is_refused_before_it_is_unpacked(
    tmp_path: Path,
) -> None:
    bomb = b"\0" * (90 << 20)
    parts = {f"xl/media/{n}": bomb for n in range(3)}
    path = raw_workbook(tmp_path / "h.xlsx", DATA.format(ROW_1), parts=parts)
    with pytest.raises(InputError, match="unpacks to 270 MiB; the limit is 256; save the sheet"):
        load_human(path)


def test_a_size_that_the_archive_lies_about_is_no_way_around_the_limit(tmp_path: Path) -> None:
    path = raw_workbook(tmp_path / "h.xlsx", DATA.format(ROW_1 + " " * 300_000))
    with ZipFile(path) as archive:
        size = archive.getinfo("xl/worksheets/sheet1.xml").file_size.to_bytes(4, "little")
    data = path.read_bytes()
    assert data.count(size) == 2
    path.write_bytes(data.replace(size, (99).to_bytes(4, "little")))
    with pytest.raises(InputError, match="cannot be read as a workbook"):
        load_human(path)


def test_many_strings_and_links_are_not_mistaken_for_a_row(tmp_path: Path) -> None:
    many = 70_000
    strings = "".join(f"<si><t>v{n}</t></si>" for n in range(many))
    shared = f'<sst xmlns="{MAIN}">{strings}</sst>'.encode()
    cells = (f'<c r="A{n + 2}" t="s"><v>{n}</v></c><c r="B{n + 2}"><v>1</v></c>' for n in range(9))
    rows = "".join(row(n + 2, one) for n, one in enumerate(cells))
    links = "<hyperlinks>" + '<hyperlink ref="A1" display="x"/>' * (2 * many) + "</hyperlinks>"
    path = raw_workbook(
        tmp_path / "h.xlsx",
        DATA.format(ROW_1 + rows) + links,
        parts={"xl/sharedStrings.xml": shared},
    )
    assert read_table(path).columns["video_id"][-1] == "v8"


def ole(*names: str) -> bytes:
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"".join(n.encode("utf-16-le") for n in names)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (ole("Root Entry", "Workbook"), "is in the old .xls format; save it as .xlsx or CSV"),
        (ole("EncryptionInfo", "EncryptedPackage"), "is encrypted; save it without a password"),
        (b"PK\x03\x04 not a zip", "cannot be read as a workbook (BadZipFile"),
        (b"PK\x05\x06" + b"\0" * 18, "is a ZIP archive; save the table as .xlsx or CSV"),
    ],
)
def test_other_binary_files_are_named_for_what_they_are(
    tmp_path: Path, content: bytes, told: str
) -> None:
    path = tmp_path / "human.xlsx"
    path.write_bytes(content)
    for read in (
        load_human,
        lambda file: load_metrics(file, "m"),
        lambda file: read_spreadsheet(file, ["label"]),
    ):
        with pytest.raises(InputError) as raised:
            read(path)
        assert str(raised.value).startswith(f"{path}: {told}")


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        (["word/document.xml"], "is a ZIP archive; save the table as .xlsx or CSV"),
        (["mimetype", "content.xml"], "is an OpenDocument file; save the table as"),
        (["[Content_Types].xml", "xl/workbook.bin"], "is an .xlsb workbook; save the table as"),
        (["[Content_Types].xml"], "cannot be read as a workbook (ParseError"),
    ],
)
def test_other_archives_are_named_for_what_they_are(
    tmp_path: Path, parts: list[str], told: str
) -> None:
    path = tmp_path / "human.xlsx"
    with ZipFile(path, "w") as archive:
        for name in parts:
            archive.writestr(name, "")
    with pytest.raises(InputError) as raised:
        read_table(path)
    assert str(raised.value).startswith(f"{path}: {told}")


def test_a_truncated_workbook_is_refused_wherever_it_ends(tmp_path: Path) -> None:
    whole = save_workbook(tmp_path / "whole.xlsx", RATED).read_bytes()
    path = tmp_path / "part.xlsx"
    for end in range(4, len(whole), 97):
        path.write_bytes(whole[:end])
        with pytest.raises(InputError):
            load_human(path)
