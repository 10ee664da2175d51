"""A table as columns, with the line of every row; mistakes name file, line and column."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capeval.errors import InputError
from capeval.files.csv_formulas import unescape
from capeval.text import cut, listed, misnamed, nearest, shown

LARGEST = 1e150
"""Statistics square numbers and add the squares up; beyond this limit, floats would overflow."""

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Control characters, which no name may have: they move a terminal's cursor or end a line."""

# Column names in one message: more do not fit on a line that a user can read.
_MOST_NAMED = 10


@dataclass(frozen=True)
class InputTable:
    """A file's columns by name.

    `lines` are the rows' line numbers from 1, `header` that of the header, None in JSON. In CSV
    an apostrophe can escape a name that looks like a formula; it is not part of the name.
    """

    file: Path
    columns: dict[str, list[Any]]
    lines: Sequence[int]
    header: int | None = 1

    def __len__(self) -> int:
        return len(self.lines)

    def error(self, message: str, *, row: int | None = None, column: str = "") -> InputError:
        """Return an error that names this file, the line of a row or the header, and a column."""
        line = self.header if row is None else self.lines[row]
        where = "" if line is None else f"line {line}"
        return InputError(message, file=self.file, where=where, field=cut(column))

    def check_columns(
        self,
        known: Collection[str],
        needed: Collection[str],
        hint: tuple[str, str] = ("", ""),
        also: Collection[str] = (),
    ) -> None:
        """Refuse a table that has columns other than `known`, or lacks any `needed` column.

        `hint` is what to do about one unknown column, and about several; `also` are further names
        to suggest for a misspelt column.
        """
        unknown = [name for name in self.columns if name not in known]
        if unknown:
            meant = [name for name in (*known, *also) if name not in self.columns]
            problem = _columns_are("unknown", unknown, partial(nearest, valid=meant))
            raise self.error(problem + hint[len(unknown) > 1])
        self.require(needed)

    def require(self, needed: Collection[str], *, typed: bool = False) -> None:
        """Refuse a table that lacks a column; `typed` if the user may have misspelt its name."""
        lacking = [name for name in needed if name not in self.columns]
        if lacking:
            given = [*self.columns]
            hint = partial(nearest, valid=given) if typed else partial(misnamed, given=given)
            raise self.error(_columns_are("missing", lacking, hint))

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

    def _number(self, value: Any, row: int, column: str, gaps: bool) -> float:
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
                else f"is too large to compute with (beyond {LARGEST:.0e})".replace("+", "")
            )
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
                raise self.error(
                    f"{named} is duplicated (line {self.lines[first[key]]} and this line)",
                    row=row,
                    column=columns,
                )
            first[key] = row


def _hint_of(value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]+,[0-9]+\s*", value):
        return "; write decimals with a point"
    if isinstance(value, str) and not value.isascii():
        return "; use only the digits 0 to 9"
    return ""


def _columns_are(problem: str, names: Sequence[str], hint: Callable[[str], str]) -> str:
    """Return a message about unknown or missing columns, with what to do about each."""
    if len(names) == 1:
        return f"the column {shown(names[0])} is {problem}{hint(names[0])}"
    suggestions = [hint(name).removeprefix("; ") for name in names]
    texts = [
        shown(name) + (f" ({near})" if near else "")
        for name, near in zip(names, suggestions, strict=True)
    ]
    return f"the columns {listed(texts, _MOST_NAMED)} are {problem}"
