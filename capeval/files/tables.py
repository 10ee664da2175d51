"""A table as columns, with the line of every row; mistakes name file, line and column."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capeval.errors import InputError
from capeval.files.csv_formulas import unescape
from capeval.files.workbook import Unreadable, place
from capeval.text import cut, listed, misnamed, nearest, shown

LARGEST = 1e100
"""Statistics add up squares and cubes of numbers, which must stay within the range of floats."""

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Control characters, which no name may have: they move a terminal's cursor or end a line."""

# Column names in one message: more do not fit on a line that a user can read.
_MOST_NAMED = 10


@dataclass(frozen=True)
class InputTable:
    """A file's columns by name.

    `lines` are the rows' line numbers from 1, `header` that of the header, None in JSON. In CSV
    an apostrophe can escape a name that looks like a formula; it is not part of the name.

    Attributes
    ----------
    sheet : the sheet of a workbook, whose rows are numbered instead of lines
    duplicated : the names that several columns have; an error only if such a column is read
    unnamed : whether there are cells in columns without a name
    ignored : the other sheets of the workbook
    named : the file's own names of columns that are known here by another name
    hint : what an error about duplicate rows adds
    """

    file: Path
    columns: dict[str, list[Any]]
    lines: Sequence[int]
    header: int | None = 1
    sheet: str | None = None
    duplicated: frozenset[str] = frozenset()
    unnamed: bool = False
    ignored: tuple[str, ...] = ()
    named: Mapping[str, str] = field(default_factory=dict)
    hint: str = ""

    def __len__(self) -> int:
        return len(self.lines)

    def error(self, message: str, *, row: int | None = None, column: str = "") -> InputError:
        """Return an error that names this file, the line of a row or the header, and a column."""
        several = [column] if column in self.named else column.split(", ")
        names = [self.named.get(name, name) for name in several]
        return InputError(
            message, file=self.file, where=self.place(row), field=cut(", ".join(names))
        )

    def place(self, row: int | None) -> str:
        """Return the place of a row, or of the header, in messages."""
        line = self.header if row is None else self.lines[row]
        return "" if line is None else place(self.sheet, line)

    def take(self, rows: Sequence[int]) -> InputTable:
        """Return some of the rows."""
        if len(rows) == len(self):
            return self
        columns = {name: [cells[row] for row in rows] for name, cells in self.columns.items()}
        return replace(self, columns=columns, lines=[self.lines[row] for row in rows])

    def check_header(self, read: Collection[str]) -> None:
        """Refuse names of columns that are to be read if it is unclear which column is meant."""
        for name in self.columns:
            if name in read and name in self.duplicated:
                raise self.error(f"the column {shown(name)} is duplicated")
            if name in read and CONTROL.search(name):
                raise self.error(f"the column {shown(name)} has a control character in its name")

    def require(self, needed: Collection[str], *, typed: bool = False) -> None:
        """Refuse a table that lacks a column; `typed` if the user may have misspelt its name."""
        lacking = [name for name in needed if name not in self.columns]
        if lacking:
            given = [*self.columns]
            hint = partial(nearest, valid=given) if typed else partial(misnamed, given=given)
            message = _columns_are("missing", lacking, hint)
            if typed and not any(map(hint, lacking)):
                found = listed(map(shown, given), _MOST_NAMED) or "none"
                message += f"; found {found}"
                message += "" if self.header is None else " (this is read as the header)"
            raise self.error(message)

    def names(self, column: str, *, strip: bool = True) -> list[str]:
        """Return a column of names, none empty; `strip` removes the blanks around them."""
        values = self.columns[column]
        if self._are_clean(values):
            return values
        try:
            found = list(map(str.strip, values))
        except TypeError:
            found = [value.strip() if isinstance(value, str) else "" for value in values]
        if not all(found):
            row = found.index("")
            value = values[row]
            self.check_readable(value, row, column)
            message = (
                "is empty" if isinstance(value, str) else f"must be a name, not {shown(value)}"
            )
            raise self.error(message, row=row, column=column)
        if not strip:
            found = list(values)
        together = "".join(found)
        if self.header is not None and "'" in together:
            found = [unescape(name) for name in found]
            found = [name.strip() for name in found] if strip else found
        if CONTROL.search(together):
            row = next(row for row, name in enumerate(found) if CONTROL.search(name))
            raise self.error(
                f"{shown(found[row])} has a control character, which names must not have",
                row=row,
                column=column,
            )
        return found

    @staticmethod
    def _are_clean(values: list[Any]) -> bool:
        """Return whether names can be used as they are; a repeated name is checked once."""
        try:
            names = list(dict.fromkeys(values))
            together = "".join(names)
        except TypeError:
            return False
        return (
            together.isprintable()
            and "'" not in together
            and all(names)
            and list(map(str.strip, names)) == names
        )

    def numbers(self, column: str, *, gaps: bool = False) -> NDArray[np.float64]:
        """Return a column of finite numbers; with `gaps` an empty cell is NaN."""
        values = self.columns[column]
        try:
            # float() also accepts 1_000 and the digits of every script.
            together = "".join(values)
            if "_" in together or not together.isascii():
                raise ValueError
            found = np.fromiter(map(float, values), np.float64, len(values))
        except (TypeError, ValueError):
            found = np.array(
                [self._number(value, row, column, gaps) for row, value in enumerate(values)],
                dtype=np.float64,
            )
        else:
            invalid = np.flatnonzero(~(np.abs(found) <= LARGEST))
            if len(invalid):
                self._number(values[invalid[0]], int(invalid[0]), column, gaps)
        return found

    def check_readable(self, value: Any, row: int, column: str) -> None:
        """Refuse a cell of a workbook that has no usable value."""
        if isinstance(value, Unreadable):
            raise self.error(value.problem, row=row, column=column)

    def _number(self, value: Any, row: int, column: str, gaps: bool) -> float:
        self.check_readable(value, row, column)
        if value is None or (isinstance(value, str) and not value.strip()):
            if gaps:
                return float("nan")
            raise self.error("is empty", row=row, column=column)
        digits = isinstance(value, str) and "_" not in value and value.isascii()
        number = None
        if digits or (isinstance(value, int | float) and not isinstance(value, bool)):
            try:
                number = float(value)
            except ValueError:
                pass
            except OverflowError:
                number = float("inf")
        if number is None or np.isnan(number):
            raise self.error(
                f"{shown(value)} is not a number{_hint_of(value)}", row=row, column=column
            )
        if abs(number) > LARGEST:
            problem = (
                "is not finite"
                if isinstance(value, str) and "inf" in value.lower()
                else f"is too large to compute with (above {LARGEST:.0e}); rescale the column"
            ).replace("+", "")
            raise self.error(f"{shown(value)} {problem}", row=row, column=column)
        return number

    def check_unique(self, keys: Sequence[Any], columns: str) -> None:
        """Refuse rows with the same key."""
        if len(set(keys)) == len(keys):
            return
        first: dict[Any, int] = {}
        for row, key in enumerate(keys):
            if key in first:
                named = ", ".join(cut(str(part)) for part in key if part is not None)
                unit = "line" if self.sheet is None else "row"
                raise self.error(
                    f"{named} is duplicated ({unit} {self.lines[first[key]]} and this {unit})"
                    f"{self.hint}",
                    row=row,
                    column=columns,
                )
            first[key] = row


def _hint_of(value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]+,[0-9]+\s*", value):
        return "; write decimals with a point"
    if isinstance(value, str) and "\N{MINUS SIGN}" in value:
        return "; write a minus as -"
    if isinstance(value, str) and any(map(str.isdecimal, value)) and not value.isascii():
        return "; use only the digits 0 to 9"
    return ""


def _columns_are(problem: str, names: Sequence[str], hint: Callable[[str], str]) -> str:
    """Return a message about columns with a problem, with what to do about each."""
    if len(names) == 1:
        return f"the column {shown(names[0])} is {problem}{hint(names[0])}"
    suggestions = [hint(name).removeprefix("; ") for name in names]
    texts = [
        shown(name) + (f" ({near})" if near else "")
        for name, near in zip(names, suggestions, strict=True)
    ]
    return f"the columns {listed(texts, _MOST_NAMED)} are {problem}"
