"""Read a table: CSV, TSV, a sheet of an XLSX workbook, parquet, JSON lines or a JSON list.

A table has rows of cells by column, and the place of each row for messages. All cells of CSV are
text.
"""

from __future__ import annotations

import csv
import io
import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter, ValidationError

from capeval.errors import InputError, UsageError, needing
from capeval.files.jsonl import (
    json_object,
    json_records,
    read_bytes,
    text_in,
    validated,
)
from capeval.schema import id_text
from capeval.text import complaints, cut, describe, listed, nearest, shown

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Control characters, which no name may have: they move a terminal's cursor or end a line."""

# XLSX files are archives; old and encrypted workbooks are OLE compound files.
_WORKBOOK = (b"PK", b"\xd0\xcf\x11\xe0")
_PARQUET = b"PAR1"

# A spreadsheet would run such a cell as a formula (OWASP: CSV injection).
_FORMULA = r"\s*[=+\-@＝＋－＠|%]"
_ESCAPED = re.compile(rf"'+{_FORMULA}")
_LIVE = re.compile(rf"'*{_FORMULA}")

_MISSING = {"", "na", "n/a", "nan", "null", "none", "-"}
# Statistics add up squares and cubes of numbers, which must stay within the range of floats.
_LARGEST = 1e100
# Column names in one message: more do not fit on a line that a user can read.
_MOST_NAMED = 10


def is_missing(value: Any) -> bool:
    """Return whether a cell is empty, or has one of the usual marks for a missing value.

    >>> is_missing(" "), is_missing("N/A"), is_missing(None), is_missing("0")
    (True, True, True, False)
    """
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (isinstance(value, str) and value.strip().lower() in _MISSING)


def _name(cell: Any) -> str:
    cell = "" if cell is None else id_text(cell)
    if not isinstance(cell, str):
        raise ValueError("must be text or a whole number")  # noqa: TRY004 - pydantic's
    if not (text := cell.strip()):
        raise ValueError("is empty")
    if CONTROL.search(text):
        raise ValueError(f"{shown(text)} has a control character, which names must not have")
    return text


Name = Annotated[str, BeforeValidator(_name)]
"""A cell with a name, which is text or a whole number, without the blanks around it."""

_NAMES = TypeAdapter(list[Name])
_NUMBERS: TypeAdapter[list[float | None]] = TypeAdapter(
    list[Annotated[float, Field(ge=-_LARGEST, le=_LARGEST, allow_inf_nan=False)] | None]
)

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


@dataclass(frozen=True)
class FileTable:
    """The rows of a file below its header, as cells by column, with their places, such as "line 3".

    With `is_escaped`, an apostrophe may keep a cell from being a formula. `fractions` are the
    columns of a workbook with a date or a number that is not whole.
    """

    file: Path
    header: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    places: Sequence[str]
    is_escaped: bool = False
    fractions: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.rows)

    def records(self) -> Iterator[tuple[str, dict[str, Any]]]:
        return zip(self.places, map(dict, self.rows), strict=True)

    def take(self, rows: Sequence[int]) -> FileTable:
        places = [self.places[row] for row in rows]
        return replace(self, rows=[self.rows[row] for row in rows], places=places)

    def error(self, message: str, *, row: int | None = None, column: str = "") -> InputError:
        where = "" if row is None else self.places[row]
        return InputError(message, file=self.file, where=where, field=cut(column))

    def find(self, name: str, mapped: Mapping[str, str] | None = None) -> str | None:
        """Return the column that is mapped to a name, has it, or differs in case or spaces only."""
        column = (mapped or {}).get(name, name)
        if column in self.header:
            return column
        return next((one for one in self.header if folded(one) == folded(name)), None)

    def choose(
        self,
        needed: Iterable[str],
        optional: Iterable[str] = (),
        mapped: Mapping[str, str] | None = None,
    ) -> dict[str, str]:
        """Return the file's column for each documented name that it has; needed ones must exist.

        `mapped` has the user's columns by documented name; None if the user cannot map columns.
        """
        needed = [*needed]
        found = {name: self.find(name, mapped) for name in (*needed, *optional)}
        missing = [name for name in needed if found[name] is None]
        if missing:
            how = "" if mapped is None else f"; name it with --columns {missing[0]}=COLUMN"
            raise self.error(
                f"has no column {listed(missing)}{how}; it has "
                f"{listed(map(shown, self.header), _MOST_NAMED)}"
                f"{nearest(missing[0], [*self.header])}"
            )
        return {name: column for name, column in found.items() if column is not None}

    def typed(self, model: type[M]) -> list[M]:
        chosen = self.choose(model.model_fields)
        return [
            validated(
                model,
                {name: self._unescaped(row[own]) for name, own in chosen.items()},
                file=self.file,
                where=place,
            )
            for place, row in self.records()
        ]

    def cells(self, column: str) -> list[Any]:
        return [row.get(column) for row in self.rows]

    def names(self, column: str) -> list[str]:
        """Return a column of names, without the blanks around them; none may be empty."""
        return self._column(column, _NAMES, self._unescaped)

    def check_whole(self, column: str) -> None:
        """Refuse a column of ids that a spreadsheet program has turned into other numbers."""
        if column in self.fractions:
            what = "has numbers or dates (1.10 becomes 1.1); format the column as text"
            raise self.error(what, column=column)

    def numbers(self, column: str) -> NDArray[np.float64]:
        """Return a column of finite numbers; a missing one is NaN."""
        found = self._column(column, _NUMBERS, lambda cell: None if is_missing(cell) else cell)
        return np.array(found, dtype=np.float64)

    def _column(self, column: str, of: TypeAdapter[T], prepared: Callable[[Any], Any]) -> T:
        cells = [*map(prepared, self.cells(column))]
        try:
            return of.validate_python(cells)
        except ValidationError as faults:
            (row, *_), message = complaints(faults)[0]
        cell = cells[int(row)]
        if isinstance(cell, str) and re.fullmatch(r"\s*[+-]?\d+,\d+\s*", cell):
            message += "; write decimals with a point"
        raise self.error(message, row=int(row), column=column)

    def _unescaped(self, cell: Any) -> Any:
        return unescape(cell) if self.is_escaped and isinstance(cell, str) else cell

    def check_unique(self, keys: Sequence[tuple[Hashable, ...]], columns: str) -> None:
        first: dict[Hashable, int] = {}
        for row, key in enumerate(keys):
            if first.setdefault(key, row) != row:
                named = ", ".join(cut(str(part)) for part in key if part is not None)
                there = self.places[first[key]]
                raise self.error(f"{named} is duplicated (see {there})", row=row, column=columns)


def check_all_found(mapped: Mapping[str, str], headers: Mapping[Any, Collection[str]]) -> None:
    """Refuse a mapped column that no file has; `headers` are by file."""
    names = list(dict.fromkeys(name for header in headers.values() for name in header))
    for role, name in mapped.items():
        if name not in names:
            raise UsageError(
                f"--columns {role}={cut(name)}: no such column in "
                f"{' or '.join(map(str, headers))}; found {listed(map(shown, names), _MOST_NAMED)}"
                f"{nearest(name, names)}"
            )


def escape(text: str) -> str:
    """Return the text with an apostrophe before it if a spreadsheet would read it as a formula.

    >>> escape("=1+1"), escape("a=1"), escape("'=1")
    ("'=1+1", 'a=1', "''=1")
    """
    return f"'{text}" if _LIVE.match(text) else text


def csv_of_rows(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, quoted: bool = False
) -> str:
    """Return rows as CSV; with `quoted`, every text has quotes."""
    out = io.StringIO()
    writer = csv.writer(
        out,
        lineterminator="\n",
        quoting=csv.QUOTE_NONNUMERIC if quoted else csv.QUOTE_MINIMAL,
    )
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue()


def unescape(text: str) -> str:
    """Return the text that `escape` was given.

    >>> unescape("'=1+1"), unescape("'tis"), unescape("''=1")
    ('=1+1', "'tis", "'=1")
    """
    return text[1:] if _ESCAPED.match(text) else text


def ignored_columns(file: Path, header: Sequence[str], read: Iterable[str]) -> tuple[str, ...]:
    """Return a notice of the unused columns of a file, if any."""
    rest = [shown(name) for name in header if name not in {*read}]
    noun = "column" if len(rest) == 1 else "columns"
    return (f"{file}: ignored {noun}: {listed(rest, _MOST_NAMED)}",) if rest else ()


def folded(name: str) -> str:
    """Return a column's name without case, and with underscores for spaces and hyphens.

    >>> folded("Video ID")
    'video_id'
    """
    return re.sub(r"[\s-]+", "_", name.casefold())


def table_or_json(path: Path) -> FileTable | str:
    """Read a workbook (its first visible sheet), parquet or CSV; of JSON, return the text.

    The content decides. InputError if it cannot be read, has no rows, or names a column twice;
    MissingExtra if it is parquet, and pyarrow is not installed.
    """
    data = read_bytes(path)
    if data.startswith(_WORKBOOK):
        return _of_workbook(path, data)
    if data.startswith(_PARQUET):
        return _of_parquet(path, data)
    text = text_in(data, path)
    return text if text.lstrip()[0] in "{[" else _of_csv(path, text)


def read_table(path: Path | str) -> FileTable:
    """Read a table as `table_or_json` does, or records of JSON as the rows of one."""
    path = Path(path)
    found = table_or_json(path)
    if isinstance(found, FileTable):
        return found
    places, values = zip(*json_records(path, found), strict=True)
    rows = [json_object(v, file=path, where=p) for p, v in zip(places, values, strict=True)]
    return FileTable(path, [*dict.fromkeys(name for row in rows for name in row)], rows, places)


def _of_csv(path: Path, text: str) -> FileTable:
    header = re.sub('"[^"]*"', "", text.lstrip("\r\n").partition("\n")[0])
    # Kept as it is: a line break inside quotes belongs to its cell.
    lines = io.StringIO(text, newline="")
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    reader = csv.reader(lines, delimiter=max(",;\t", key=header.count), strict=True)
    rows: list[list[str]] = []
    places: list[str] = []
    place = "line 1"
    try:
        for cells in reader:
            if any(map(str.strip, cells)):
                rows.append(cells)
                places.append(place)
            place = f"line {reader.line_num + 1}"
    except csv.Error as fault:
        raise InputError(f"is not CSV ({fault})", file=path, where=place) from None
    return _of_rows(path, rows, places)


def _of_workbook(path: Path, data: bytes) -> FileTable:
    try:
        title, computed = _sheet(data, computed=True)
        # A formula without a stored result, such as a caption "=== Scene 1" of pandas, is text.
        _, given = _sheet(data, computed=False)
        values = [
            [formula if value is None else value for value, formula in zip(*rows, strict=True)]
            for rows in zip(computed, given, strict=True)
        ]
        every = [[_text(value) for value in row] for row in values]
    except Exception as fault:  # a damaged file makes openpyxl raise almost anything
        raise InputError(
            f"cannot be read as an XLSX workbook: save it as CSV ({describe(fault)})", file=path
        ) from None
    numbers = [n for n, cells in enumerate(every) if any(cells)]
    places = [f"sheet {shown(title)}, row {n + 1}" for n in numbers]
    # Cells beside the table have no column name.
    width = max((len(every[n]) for n in numbers), default=0)
    rows = [every[n] + [""] * (width - len(every[n])) for n in numbers]
    fractions = {
        rows[0][at].strip()
        for n in numbers[1:]
        for at, value in enumerate(values[n])
        if isinstance(value, datetime) or (isinstance(value, float) and not value.is_integer())
    }
    return replace(_of_rows(path, rows, places), fractions=frozenset(fractions))


def _sheet(data: bytes, *, computed: bool) -> tuple[str, list[tuple[Any, ...]]]:
    """Return the title and the values of a sheet: formulas, or if `computed` their results."""
    from openpyxl import load_workbook

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        book = load_workbook(io.BytesIO(data), read_only=True, data_only=computed)
        visible = [one for one in book.worksheets if one.sheet_state == "visible"]
        sheet = [*visible, *book.worksheets][0]
        # The declared size can be a million columns.
        sheet.reset_dimensions()
        return sheet.title, [*sheet.iter_rows(values_only=True)]


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    from openpyxl.utils.escape import unescape as unescape_control

    return str(unescape_control(str(value))).strip()


def _of_rows(path: Path, rows: Sequence[Sequence[str]], places: Sequence[str]) -> FileTable:
    """Return a table of rows of text, the first being the header; short rows are padded."""
    if len(rows) < 2:
        raise InputError("has no rows below its header", file=path)
    header = [name.strip() for name in rows[0]]
    width = len(header)
    filled = []
    for place, cells in zip(places[1:], rows[1:], strict=True):
        if any(map(str.strip, cells[width:])):
            message = f"has {len(cells)} cells where the header has {width}"
            raise InputError(message, file=path, where=place)
        padded = [*cells, *[""] * (width - len(cells))]
        filled.append({name: cell for name, cell in zip(header, padded, strict=False) if name})
    names = [name for name in header if name]
    _check_names(path, names)
    return FileTable(path, names, filled, places[1:], is_escaped=True)


def _check_names(path: Path, names: Sequence[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError(f"has two columns named {shown(twice[0])}; rename one", file=path)


def _of_parquet(path: Path, data: bytes) -> FileTable:
    with needing("reading parquet needs pyarrow", "data"):
        import pyarrow
        from pyarrow import parquet
    try:
        found = parquet.ParquetFile(pyarrow.BufferReader(data)).read(use_threads=False)
        rows = found.to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError) as fault:
        raise InputError(f"is damaged parquet ({describe(fault)})", file=path) from None
    _check_names(path, found.column_names)
    if not rows:
        raise InputError("has no rows", file=path)
    return FileTable(path, found.column_names, rows, [f"row {n}" for n, _ in enumerate(rows, 1)])
