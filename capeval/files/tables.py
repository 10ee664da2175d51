"""Tables that people keep, as columns, with the place of every row."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capeval.errors import InputError
from capeval.files.csv_formulas import plain
from capeval.text import cut, nearest, shown

LARGEST = 1e150
"""Beyond it the squares that statistics are made of leave the range of numbers."""

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Found in what no name may have: it would move a terminal's cursor, or end a line."""

_MOST_TOLD = 10


@dataclass(frozen=True)
class Table:
    """A file's columns by name.

    `lines` are the rows' line numbers from 1, `header` that of the header, None in JSON. In text
    an apostrophe keeps a name from being a formula; it is no part of the name.
    """

    file: Path
    columns: dict[str, list[Any]]
    lines: Sequence[int]
    header: int | None = 1

    def __len__(self) -> int:
        return len(self.lines)

    def fault(self, message: str, *, row: int | None = None, column: str = "") -> InputError:
        """Return the error that names this file, a row's line or the header's, and a column."""
        line = self.header if row is None else self.lines[row]
        where = "" if line is None else f"line {line}"
        return InputError(message, file=self.file, where=where, field=cut(column))

    def only(
        self,
        known: Collection[str],
        needed: Collection[str],
        hint: tuple[str, str] = ("", ""),
        also: Collection[str] = (),
    ) -> None:
        """Refuse columns that are not `known`, and the lack of any `needed`.

        Parameters
        ----------
        hint : what to do about one unknown column, and about several
        also : names that an unknown column may be meant for, beside those that are known

        Raises
        ------
        InputError
            Names the columns and the nearest that there are.
        """
        unknown = [name for name in self.columns if name not in known]
        if unknown:
            meant = [name for name in (*known, *also) if name not in self.columns]
            told = _told([(name, nearest(name, meant)) for name in unknown], "unknown")
            raise self.fault(told + hint[len(unknown) > 1])
        self.need(needed)

    def need(self, needed: Collection[str]) -> None:
        """Refuse the lack of columns.

        Raises
        ------
        InputError
            Names them and the nearest that there are.
        """
        lacking = [name for name in needed if name not in self.columns]
        if lacking:
            there = list(self.columns)
            raise self.fault(_told([(n, nearest(n, there)) for n in lacking], "missing"))

    def names(self, column: str, *, strip: bool = True) -> list[str]:
        """Return a column of names, without the blanks around them unless they are to stay.

        Raises
        ------
        InputError
            A name is empty, no string, or has a control character.
        """
        values = self.columns[column]
        if self._are_clean(values):
            return values
        try:
            found = list(map(str.strip, values))
        except TypeError:
            found = [_name(value) for value in values]
        if not all(found):
            row = found.index("")
            value = values[row]
            message = (
                "is empty" if isinstance(value, str) else f"must be a name, not {shown(value)}"
            )
            raise self.fault(message, row=row, column=column)
        if not strip:
            found = list(values)
        together = "".join(found)
        if self.header is not None and "'" in together:
            found = [plain(name) for name in found]
            found = [name.strip() for name in found] if strip else found
        if CONTROL.search(together):
            row = next(row for row, name in enumerate(found) if CONTROL.search(name))
            raise self.fault(
                f"{shown(found[row])} has a control character, which no name may have",
                row=row,
                column=column,
            )
        return found

    @staticmethod
    def _are_clean(values: list[Any]) -> bool:
        """Say whether names may stay as they are; one that stands often is looked at once."""
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
        """Return a column of finite numbers; with `gaps` an empty cell is NaN.

        Raises
        ------
        InputError
            A cell is no number, infinite, or empty.
        """
        values = self.columns[column]
        try:
            # float() takes 1_000 for a number, and the digits of every script.
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
            odd = np.flatnonzero(~(np.abs(found) <= LARGEST))
            if len(odd):
                self._number(values[odd[0]], int(odd[0]), column, gaps)
        return found

    def _number(self, value: Any, row: int, column: str, gaps: bool) -> float:
        if value is None or (isinstance(value, str) and not value.strip()):
            if gaps:
                return float("nan")
            raise self.fault("is empty", row=row, column=column)
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
            raise self.fault(
                f"{shown(value)} is not a number{_hint_of(value)}", row=row, column=column
            )
        if abs(number) > LARGEST:
            told = (
                "is not finite"
                if isinstance(value, str) and "inf" in value.lower()
                else f"is too large to compute with (beyond {LARGEST:.0e})".replace("+", "")
            )
            raise self.fault(f"{shown(value)} {told}", row=row, column=column)
        return number

    def unique(self, keys: Sequence[Any], columns: str) -> None:
        """Refuse rows of the same key.

        Raises
        ------
        InputError
            Names both lines.
        """
        if len(set(keys)) == len(keys):
            return
        first: dict[Any, int] = {}
        for row, key in enumerate(keys):
            if key in first:
                told = ", ".join(cut(str(part)) for part in key if part is not None)
                raise self.fault(
                    f"{told} stands twice (line {self.lines[first[key]]} and this)",
                    row=row,
                    column=columns,
                )
            first[key] = row


def _name(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _hint_of(value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]+,[0-9]+\s*", value):
        return "; write decimals with a point"
    if isinstance(value, str) and not value.isascii():
        return "; write it with the digits 0 to 9 alone"
    return ""


def _told(named: Sequence[tuple[str, str]], what: str) -> str:
    """Say which columns are unknown or missing; each has its `; did you mean X?`, or nothing."""
    if len(named) == 1:
        name, near = named[0]
        return f"the column {shown(name)} is {what}{near}"
    told = [
        shown(name) + (f" ({near.removeprefix('; ')})" if near else "")
        for name, near in named[:_MOST_TOLD]
    ]
    more = f" and {len(named) - _MOST_TOLD} more" if len(named) > _MOST_TOLD else ""
    return f"the columns {', '.join(told)}{more} are {what}"
