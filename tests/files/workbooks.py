"""Workbooks for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import openpyxl

__all__ = ["save_workbook"]


def save_workbook(
    path: Path,
    rows: Sequence[Any],
    *,
    title: str = "Ratings",
    others: Mapping[str, Sequence[Any]] | None = None,
) -> Path:
    """Write a workbook with openpyxl; `others` are further sheets by name."""
    workbook = openpyxl.Workbook()
    for number, (name, content) in enumerate({title: rows, **(others or {})}.items()):
        sheet = workbook.active if number == 0 else workbook.create_sheet()
        sheet.title = name
        for row in content:
            sheet.append(row)
    workbook.save(path)
    return path
