"""Workbooks for tests: of Python values, or of raw XML that no spreadsheet program would write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import openpyxl

__all__ = ["MAIN", "raw_workbook", "save_workbook"]

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATED = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_SPREADSHEET = "application/vnd.openxmlformats-officedocument.spreadsheetml"


def save_workbook(
    path: Path,
    rows: Sequence[Any],
    *,
    title: str = "Ratings",
    merged: Sequence[str] = (),
    others: Mapping[str, Sequence[Any]] | None = None,
    hidden: Sequence[str] = (),
) -> Path:
    """Write a workbook with openpyxl; `others` are further sheets by name."""
    workbook = openpyxl.Workbook()
    for number, (name, content) in enumerate({title: rows, **(others or {})}.items()):
        sheet = workbook.active if number == 0 else workbook.create_sheet()
        sheet.title = name
        for row in content:
            sheet.append(row)
        sheet.sheet_state = "hidden" if name in hidden else "visible"
    for area in merged:
        workbook[title].merge_cells(area)
    workbook.save(path)
    return path


def raw_workbook(path: Path, sheet: str, *, parts: Mapping[str, bytes] | None = None) -> Path:
    """Write a workbook of one sheet "S" from the XML of its rows; `parts` are added or replaced."""
    related = f"{_RELATED}/worksheet"
    relation = f'<Relationship Id="r1" Type="{related}" Target="worksheets/sheet1.xml"/>'
    content: dict[str, str | bytes] = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
        f'<Override PartName="/xl/workbook.xml" ContentType="{_SPREADSHEET}.sheet.main+xml"/>'
        '<Override PartName="/xl/sharedStrings.xml" '
        f'ContentType="{_SPREADSHEET}.sharedStrings+xml"/>'
        "</Types>",
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{_RELATED}"><sheets>'
        '<sheet name="S" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">{relation}'
        "</Relationships>",
        "xl/sharedStrings.xml": f'<sst xmlns="{MAIN}"/>',
        "xl/worksheets/sheet1.xml": sheet
        if sheet.startswith("<?xml")
        else f'<worksheet xmlns="{MAIN}">{sheet}</worksheet>',
    }
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, text in {**content, **(parts or {})}.items():
            archive.writestr(name, text)
    return path
