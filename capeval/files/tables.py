"""Read a table: CSV, TSV, a sheet of an XLSX workbook, parquet, JSON lines or a JSON list.

A table is columns of cells below a header, and the place of each row for messages. Cells of CSV
and of workbooks are text.
"""

from __future__ import annotations

import csv
import io
import math
import re
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, ValidationError

from capeval.errors import InputError, MissingExtra
from capeval.files.reading import json_object, json_records, read_bytes, read_text
from capeval.schema.annotation import id_text
from capeval.text import complaint, cut, describe, listed, nearest, shown

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Control characters, which no name may have: they move a terminal's cursor or end a line."""

# XLSX files are archives; old and encrypted workbooks are OLE compound files.
_WORKBOOK = (b"PK", b"\xd0\xcf\x11\xe0")
_PARQUET = b"PAR1"

# What a spreadsheet would run as a formula (OWASP: CSV injection).
_FORMULA = r"\s*[=+\-@＝＋－＠|%]"
_ESCAPED = re.compile(rf"'+{_FORMULA}")
_LIVE = re.compile(rf"'*{_FORMULA}")

# What tables have in place of an empty cell.
_MISSING = {"", "na", "n/a", "nan", "null", "none", "-"}
# Statistics add up squares and cubes of numbers, which must stay within the range of floats.
_LARGEST = 1e100
# Column names in one message: more do not fit on a line that a user can read.
_MOST_NAMED = 10

_NUMBERS: TypeAdapter[list[float | None]] = TypeAdapter(
    list[Annotated[float, Field(ge=-_LARGEST, le=_LARGEST, allow_inf_nan=False)] | None]
)


def is_missing(value: Any) -> bool:
    """Return whether a cell is empty, or has one of the usual marks for a missing value.

    >>> is_missing(" "), is_missing("N/A"), is_missing(None), is_missing("0")
    (True, True, True, False)
    """
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (isinstance(value, str) and value.strip().lower() in _MISSING)


@dataclass(frozen=True)
class FileTable:
    """A file's columns by name, in the file's order.

    Attributes
    ----------
    places : where each row is, such as "line 3"
    sheet : the sheet of a workbook
    fractions : columns of a workbook in which a number is no whole one, or a date
    is_escaped : whether an apostrophe may keep a cell from being a formula: not in parquet and JSON
    formulas : the first row with a formula of each column of a workbook that has one
    """

    file: Path
    columns: Mapping[str, Sequence[Any]]
    places: Sequence[str]
    sheet: str | None = None
    fractions: frozenset[str] = frozenset()
    is_escaped: bool = False
    formulas: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.places)

    def records(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the place and the cells of each row."""
        rows = zip(*self.columns.values(), strict=True)
        for place, cells in zip(self.places, rows, strict=True):
            yield place, dict(zip(self.columns, cells, strict=True))

    def take(self, rows: Sequence[int]) -> FileTable:
        columns = {name: [cells[row] for row in rows] for name, cells in self.columns.items()}
        return replace(self, columns=columns, places=[self.places[row] for row in rows])

    def error(self, message: str, *, row: int | None = None, column: str = "") -> InputError:
        where = "" if row is None else self.places[row]
        return InputError(message, file=self.file, where=where, field=cut(column))

    def find(self, name: str, mapped: Mapping[str, str] | None = None) -> str | None:
        """Return the column that is mapped to a name, has it, or differs in case or spaces only."""
        column = (mapped or {}).get(name, name)
        if column in self.columns:
            return column
        return next((one for one in self.columns if folded(one) == folded(name)), None)

    def choose(
        self,
        needed: Sequence[str],
        optional: Sequence[str] = (),
        mapped: Mapping[str, str] | None = None,
    ) -> dict[str, str]:
        """Return the file's column for each documented name that it has.

        `mapped` is the file's column by documented name, or None if the user cannot map columns.
        InputError if a needed column is missing.
        """
        found = {name: self.find(name, mapped) for name in (*needed, *optional)}
        missing = [name for name in needed if found[name] is None]
        if missing:
            near = nearest(missing[0], [*self.columns])
            how = "" if mapped is None else f"; name it with --columns {missing[0]}=COLUMN"
            raise self.error(
                f"has no column {listed(missing)}{near}{how}; it has "
                f"{listed(map(shown, self.columns), _MOST_NAMED)}"
            )
        return {name: column for name, column in found.items() if column is not None}

    def names(self, column: str) -> list[str]:
        """Return a column of names, without the blanks around them; none may be empty."""
        cells = map(id_text, self.columns[column])
        found = [self.text(cell.strip() if isinstance(cell, str) else cell) for cell in cells]
        for row, name in enumerate(found):
            if not name:
                raise self.error(self.empty, row=row, column=column)
            if CONTROL.search(name):
                message = f"{shown(name)} has a control character, which names must not have"
                raise self.error(message, row=row, column=column)
        return found

    def text(self, cell: Any) -> str:
        """Return a cell as the text that was written, "" if it is empty."""
        text = "" if cell is None else str(cell)
        return unescape(text) if self.is_escaped else text

    def ids(self, column: str) -> list[str]:
        """Return a column of names that are text or whole numbers."""
        for row, cell in enumerate(map(id_text, self.columns[column])):
            if cell is not None and not isinstance(cell, str):
                message = f"must be text or a whole number, not {shown(cell)}"
                raise self.error(message, row=row, column=column)
        return self.names(column)

    def numbers(self, column: str) -> NDArray[np.float64]:
        """Return a column of finite numbers; a missing one is NaN."""
        cells = self.columns[column]
        try:
            given = [None if is_missing(cell) else cell for cell in cells]
            return np.array(_NUMBERS.validate_python(given), dtype=np.float64)
        except ValidationError as faults:
            row = int(faults.errors()[0]["loc"][0])
            message = complaint(faults)[1]
        if isinstance(cells[row], str) and re.fullmatch(r"\s*[+-]?\d+,\d+\s*", cells[row]):
            message += "; write decimals with a point"
        raise self.error(message, row=row, column=column)

    @property
    def empty(self) -> str:
        """What is wrong with a cell that is empty.

        openpyxl returns nothing for a formula that no program has computed.
        """
        formula = ", or a formula without a stored result: save the sheet as CSV"
        return f"is empty{formula if self.sheet else ''}"

    def check_unique(self, keys: Sequence[tuple[Hashable, ...]], columns: str) -> None:
        first: dict[Hashable, int] = {}
        for row, key in enumerate(keys):
            if first.setdefault(key, row) != row:
                named = ", ".join(cut(str(part)) for part in key if part is not None)
                there = self.places[first[key]]
                raise self.error(f"{named} is duplicated (see {there})", row=row, column=columns)


def escape(text: str) -> str:
    """Return the text with an apostrophe before it if a spreadsheet would read it as a formula.

    >>> escape("=1+1"), escape("a=1"), escape("'=1")
    ("'=1+1", 'a=1', "''=1")
    """
    return f"'{text}" if _LIVE.match(text) else text


def csv_of_rows(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return CSV with a header."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
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
    """Return a notice of the columns of a file that are not used, if any."""
    rest = [shown(name) for name in header if name not in {*read}]
    noun = "column" if len(rest) == 1 else "columns"
    return (f"{file}: ignores the {noun} {listed(rest, _MOST_NAMED)}",) if rest else ()


def folded(name: str) -> str:
    """Return a column's name without case, and with underscores for spaces and hyphens.

    >>> folded("Video ID")
    'video_id'
    """
    return re.sub(r"[\s-]+", "_", name.casefold())


def is_table(path: Path) -> bool:
    """Return whether a file is a workbook, parquet or CSV, by its content, and not JSON."""
    return is_binary_table(path) or read_text(path).lstrip()[0] not in "{["


def is_binary_table(path: Path) -> bool:
    """Return whether a file begins like a workbook or parquet, whatever its name."""
    with suppress(OSError):
        if path.is_file():
            with path.open("rb") as file:
                return file.read(4).startswith((*_WORKBOOK, _PARQUET))
    return False


def read_table(path: Path | str) -> FileTable:
    """Read a table, whose kind its content decides; of a workbook the first visible sheet.

    InputError if it cannot be read, has no rows, or names a column twice; MissingExtra if it is
    parquet, and pyarrow is not installed.
    """
    path = Path(path)
    data = read_bytes(path)
    if data.startswith(_WORKBOOK):
        return _of_workbook(path, data)
    if data.startswith(_PARQUET):
        return _of_parquet(path, data)
    text = read_text(path)
    return _of_json(path) if text.lstrip()[0] in "{[" else _of_csv(path, text)


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
        title, values, formulas = _sheet(data, computed=False)
        if formulas:
            _, values, _ = _sheet(data, computed=True)
        every = [[_text(cell) for cell in row] for row in values]
    except Exception as fault:  # a damaged file makes openpyxl raise almost anything
        raise InputError(
            f"cannot be read as an XLSX workbook: save it as CSV ({describe(fault)})", file=path
        ) from None
    numbered = [(n, cells) for n, cells in enumerate(every, 1) if any(cells) or formulas.get(n)]
    places = [f"sheet {shown(title)}, row {n}" for n, _ in numbered]
    # Cells beside the table have no column name.
    width = max((len(cells) for _, cells in numbered), default=0)
    rows = [[*cells, *[""] * (width - len(cells))] for _, cells in numbered]
    table = _of_rows(path, rows, places, title)
    found = {
        rows[0][at].strip()
        for n, _ in numbered[1:]
        for at, value in enumerate(values[n - 1])
        if isinstance(value, datetime) or (isinstance(value, float) and not value.is_integer())
    }
    first: dict[str, int] = {}
    for row, (n, _) in enumerate(numbered[1:]):
        for at in formulas.get(n, ()):
            first.setdefault(rows[0][at].strip(), row)
    return replace(table, fractions=frozenset(found), formulas=first)


def _sheet(data: bytes, *, computed: bool) -> tuple[str, list[list[Any]], dict[int, list[int]]]:
    """Return a sheet's title, values, and formulas: columns from 0 by the row's number from 1.

    With `computed`, formulas have their stored results as values, and are not found.
    """
    from openpyxl import load_workbook

    with warnings.catch_warnings():
        # About styles and extensions that do not matter here.
        warnings.simplefilter("ignore")
        book = load_workbook(io.BytesIO(data), read_only=True, data_only=computed)
        visible = [one for one in book.worksheets if one.sheet_state == "visible"]
        sheet = [*visible, *book.worksheets][0]
        # The declared size can be a million columns.
        sheet.reset_dimensions()
        rows = list(sheet.rows)
    values = [[cell.value for cell in row] for row in rows]
    found = ([at for at, cell in enumerate(row) if cell.data_type == "f"] for row in rows)
    formulas = {n: columns for n, columns in enumerate(found, start=1) if columns}
    return sheet.title, values, formulas


def _text(value: Any) -> str:
    """Return a cell of a workbook as CSV would have it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    from openpyxl.utils.escape import unescape as unescape_control

    return str(unescape_control(str(value))).strip()


def _of_rows(
    path: Path, rows: Sequence[Sequence[str]], places: Sequence[str], sheet: str | None = None
) -> FileTable:
    """Return a table of rows of text, the first of which is the header; short rows are padded."""
    if len(rows) < 2:
        raise InputError("has no rows below its header", file=path)
    header = [name.strip() for name in rows[0]]
    width = len(header)
    filled: list[list[str]] = []
    for place, cells in zip(places[1:], rows[1:], strict=True):
        if any(map(str.strip, cells[width:])):
            message = f"has {len(cells)} cells where the header has {width}"
            raise InputError(message, file=path, where=place)
        filled.append([*cells[:width], *[""] * (width - len(cells))])
    _check_names(path, [name for name in header if name])
    columns = dict(zip(header, map(list, zip(*filled, strict=True)), strict=True))
    columns.pop("", None)
    return FileTable(path, columns, places[1:], sheet, is_escaped=True)


def _check_names(path: Path, names: Sequence[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError(f"has two columns {shown(twice[0])}; rename one", file=path)


def _of_json(path: Path) -> FileTable:
    records = {p: json_object(one, file=path, where=p) for p, one in json_records(path)}
    names = dict.fromkeys(name for record in records.values() for name in record)
    columns = {name: [record.get(name) for record in records.values()] for name in names}
    return FileTable(path, columns, [*records])


def _of_parquet(path: Path, data: bytes) -> FileTable:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra("reading parquet needs pyarrow", "data") from None
    try:
        found = parquet.ParquetFile(pyarrow.BufferReader(data)).read(use_threads=False)
        columns = [column.to_pylist() for column in found.columns]
    except (pyarrow.ArrowException, OSError, ValueError) as fault:
        raise InputError(f"is damaged parquet ({describe(fault)})", file=path) from None
    _check_names(path, found.column_names)
    if not found.num_rows:
        raise InputError("has no rows", file=path)
    places = [f"row {n}" for n in range(1, found.num_rows + 1)]
    return FileTable(path, dict(zip(found.column_names, columns, strict=True)), places)
