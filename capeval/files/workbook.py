"""Read the sheets of an Excel workbook (.xlsx, .xlsm) as columns of text, streaming row by row."""

from __future__ import annotations

import re
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import chain, compress, pairwise
from pathlib import Path
from stat import S_ISREG
from typing import Any
from zipfile import ZipFile

from capeval.errors import CapevalError, InputError
from capeval.files.reading import read_bytes
from capeval.text import cut, describe, listed, shown

# An archive, and an empty one.
_ZIPS = (b"PK\x03\x04", b"PK\x05\x06")
# Old .xls files, and encrypted .xlsx files: both are OLE compound files.
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"

# What Excel itself can store. Larger numbers come from damaged or hostile files.
_MOST_ROWS, _MOST_COLUMNS = 1_048_576, 16_384
# Unpacked, 120,000 captions with 15 columns are about 60 MiB with 8 million tags. A small archive
# that unpacks to far more would exhaust the memory; a larger table can be saved as CSV.
_MOST_BYTES = 256 << 20
_MOST_TAGS = 20_000_000
# A row is in memory at once: every cell of the widest row with its formula, value and style.
_MOST_TAGS_IN_A_ROW = 8 * _MOST_COLUMNS
# The longest that programs write, with all namespaces of a sheet, has about 2 KiB. One with
# millions of attributes takes minutes to read.
_LONGEST_TAG = 64 << 10
# Excel shows and stores 15 digits; beyond them, whole numbers are not written out.
_EXACT = 1e15

_ROW_OR_END = re.compile(rb"<(?:\w{1,9}:)?row([\s>/])|</(?:\w{1,9}:)?sheetData>")
_FORBIDDEN = re.compile(rb"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)
# An XML parser reads these as UTF-16 or UTF-32, in which the check above finds nothing.
_WIDE = re.compile(rb"\xfe\xff|\xff\xfe|\0\0\xfe\xff|[\s<]\0|\0[\s<]|\0\0\0<")
_DECLARED = re.compile(rb"(?:\xef\xbb\xbf)?<\?xml[^?]*?\sencoding\s*=\s*[\"']([^\"']*)")
_ENCODINGS = (b"utf-8", b"utf8", b"us-ascii", b"ascii")
_XML_NAMES = (".xml", ".rels", ".vml")
_START = 256
# Text between tags may be as long. In a tag, > may be quoted, but < may not.
_LONG_PIECE = re.compile(rb"<[^<]{%d,}" % _LONGEST_TAG)
_TAG = re.compile(rb"<(?:[!?]|[^\"'>]*(?:(?:\"[^\"]*\"|'[^']*')[^\"'>]*)*>)")
_CHUNK = 1 << 20
_AS_CSV = "save the sheet as CSV"
_AGAIN = "open it in a spreadsheet program and save it again"


@dataclass(frozen=True)
class Unreadable:
    """A cell without a usable value; it is an error only in a column that is read."""

    problem: str


@dataclass(frozen=True)
class Sheet:
    """A table in a workbook: the header's names, the columns' cells, and the number of each row.

    `ignored` are the names of the other sheets that are not empty; `unnamed` is whether there are
    cells in columns without a name.
    """

    name: str
    header: list[str]
    header_row: int
    columns: list[list[Any]]
    rows: list[int]
    ignored: tuple[str, ...]
    unnamed: bool


def is_workbook(path: Path) -> bool:
    """Return whether a file begins like a workbook, whatever its name."""
    try:
        if not S_ISREG(path.stat().st_mode):
            return False
        with path.open("rb") as file:
            return file.read(len(_OLE)).startswith((*_ZIPS, _OLE))
    except (OSError, ValueError):
        return False


def read_sheet(path: Path, fits: Callable[[Collection[str]], bool] | None = None) -> Sheet:
    """Read the only sheet that has a table, or of several the only one whose header `fits`.

    Hidden sheets are ignored. Of formulas, the stored results are read.

    Raises
    ------
    InputError
        The file is encrypted, damaged, too large or no workbook, or several sheets fit.
    """
    data = read_bytes(path)
    with _one_line_errors(path):
        _check(path, data)
        return _read(path, data, fits)


@contextmanager
def _one_line_errors(path: Path) -> Iterator[None]:
    with warnings.catch_warnings():
        # About styles and extensions that do not matter here.
        warnings.simplefilter("ignore")
        try:
            yield
        except CapevalError:
            raise
        except Exception as error:  # a damaged file makes openpyxl raise almost anything
            raise InputError(
                f"cannot be read as a workbook ({describe(error)}); {_AGAIN}, or {_AS_CSV}",
                file=path,
            ) from None


def _check(path: Path, data: bytes) -> None:
    """Refuse what is no workbook, and archives that would exhaust the memory, before parsing."""
    if data.startswith(_OLE):
        encrypted = "EncryptedPackage".encode("utf-16-le") in data
        problem = (
            "is encrypted; save it without a password"
            if encrypted
            else "is in the old .xls format; save it as .xlsx or CSV"
        )
        raise InputError(problem, file=path)
    with ZipFile(BytesIO(data)) as archive:
        names = set(archive.namelist())
        if "[Content_Types].xml" not in names or "xl/workbook.bin" in names:
            kinds = {"xl/workbook.bin": "an .xlsb workbook", "content.xml": "an OpenDocument file"}
            kind = next((kinds[name] for name in kinds if name in names), "a ZIP archive")
            raise InputError(f"is {kind}; save the table as .xlsx or CSV", file=path)
        parts = archive.infolist()
        if any(part.flag_bits & 1 for part in parts):
            raise InputError("is encrypted; save it without a password", file=path)
        size = sum(part.file_size for part in parts)
        if size > _MOST_BYTES:
            raise InputError(
                f"unpacks to {size >> 20:,} MiB; the limit is {_MOST_BYTES >> 20}; {_AS_CSV}",
                file=path,
            )
        tags = 0
        for part in parts:
            in_row, is_in_row, end = 0, False, b""
            tag: bytes | None = None
            with archive.open(part) as stream:
                while chunk := stream.read(_CHUNK):
                    if tag is None:
                        _check_encoding(path, part.filename, chunk)
                        # Pictures and the like have long pieces that look like tags.
                        start = chunk.removeprefix(b"\xef\xbb\xbf").lstrip()
                        is_xml, tag = not start or start.startswith(b"<"), b""
                    if is_xml:
                        tag += chunk
                        if any(
                            not _TAG.match(found[0], 0, _LONGEST_TAG)
                            for found in _LONG_PIECE.finditer(tag)
                        ):
                            raise InputError(
                                f"has an XML tag above {_LONGEST_TAG >> 10} KiB; {_AGAIN}",
                                file=path,
                            )
                        # The beginning of a piece decides, which the next chunk may complete.
                        last = max(tag.rfind(b"<"), 0)
                        tag = tag[last : last + _LONGEST_TAG + 1]
                    text = end + chunk
                    tags += chunk.count(b"<")
                    marks = [found[1] is not None for found in _ROW_OR_END.finditer(text)]
                    pieces = _tags_between(text)
                    in_rows = [in_row + pieces[0], *pieces[1:]]
                    inside = compress(in_rows, [is_in_row, *marks])
                    if tags > _MOST_TAGS or max(inside, default=0) > _MOST_TAGS_IN_A_ROW:
                        what = "cells" if tags > _MOST_TAGS else "cells in one row"
                        raise InputError(f"has too many {what}; {_AS_CSV}", file=path)
                    if _FORBIDDEN.search(text):
                        raise InputError(
                            f"defines XML entities, which no workbook needs; {_AGAIN}", file=path
                        )
                    in_row, is_in_row = in_rows[-1], [is_in_row, *marks][-1]
                    # Long enough for a mark that the next chunk completes.
                    end = chunk[-32:]


def _check_encoding(path: Path, name: str, start: bytes) -> None:
    """Refuse a part that an XML parser would not read as UTF-8, from how it begins."""
    declared = _DECLARED.match(start)
    if (
        _WIDE.match(start)
        or (name.lower().endswith(_XML_NAMES) and b"\0" in start[:_START])
        or (declared and declared[1].lower() not in _ENCODINGS)
    ):
        raise InputError(f"has a part that is not in UTF-8 ({shown(name)}); {_AGAIN}", file=path)


def _tags_between(text: bytes) -> list[int]:
    """Return the number of tags before, between and after the marks of rows."""
    starts = [0, *(found.start() for found in _ROW_OR_END.finditer(text)), len(text)]
    return [text.count(b"<", one, other) for one, other in pairwise(starts)]


def _read(path: Path, data: bytes, fits: Callable[[Collection[str]], bool] | None) -> Sheet:
    from openpyxl import load_workbook

    workbook = load_workbook(BytesIO(data), read_only=True, data_only=True, keep_links=False)
    sheets = [sheet for sheet in workbook.worksheets if sheet.sheet_state == "visible"]
    headers = {}
    for sheet in sheets:
        parsed = _Rows(path, workbook, sheet)
        with parsed.source:
            first = next((cells for _, cells in parsed if cells), None)
        if first is not None:
            headers[sheet.title] = [str(cell).strip() for cell in first.values()]
    if not headers:
        raise InputError("has no visible sheet with content", file=path)
    fitting = [*headers]
    if len(headers) > 1 and fits is not None:
        # Where none fits, the error is about the first sheet, which is usually the one meant.
        fitting = [name for name, header in headers.items() if fits(header)] or [*headers][:1]
    if len(fitting) > 1:
        raise InputError(
            f"has {len(fitting)} sheets that could be meant ({listed(map(shown, fitting))}); "
            "keep one, or save it as CSV",
            file=path,
        )
    parsed = _Rows(path, workbook, workbook[fitting[0]])
    with parsed.source:
        return _table(parsed, tuple(name for name in headers if name != fitting[0]))


class _Rows:
    """The rows of a sheet that are not empty: their numbers, and their cells by column from 1.

    openpyxl's own reader fills gaps up to the declared size, and drops rows that are out of order;
    the parser below it does neither.
    """

    def __init__(self, path: Path, workbook: Any, sheet: Any) -> None:
        from openpyxl.worksheet._reader import FORMULA_TAG, WorkSheetParser

        self.path, self.title = path, str(sheet.title)
        self.source = sheet._get_source()  # noqa: SLF001
        self.parser = WorkSheetParser(
            self.source,
            sheet._shared_strings,  # noqa: SLF001
            data_only=True,
            epoch=workbook.epoch,
            date_formats=workbook._date_formats,  # noqa: SLF001
            timedelta_formats=workbook._timedelta_formats,  # noqa: SLF001
        )
        parse_cell = self.parser.parse_cell

        def noting_formulas(element: Any) -> Any:
            cell = parse_cell(element)
            if cell["value"] is None and element.find(FORMULA_TAG) is not None:
                cell["data_type"] = "formula without a result"
            return cell

        self.parser.parse_cell = noting_formulas

    def __iter__(self) -> Iterator[tuple[int, dict[int, Any]]]:
        last = 0
        for number, parsed in self.parser.parse():
            cells = {}
            for cell in parsed:
                if cell["column"] > _MOST_COLUMNS or cell["column"] in cells:
                    raise self.error(f"has a cell out of place; {_AGAIN}", number)
                value = _value(cell["data_type"], cell["value"])
                if value != "":
                    cells[cell["column"]] = value
            if not last < number <= _MOST_ROWS:
                raise self.error(f"is out of place; {_AGAIN}", number)
            last = number
            yield number, cells

    @property
    def merged(self) -> Sequence[Any]:
        """The ranges of merged cells, once all rows were read."""
        found = self.parser.merged_cells
        return [] if found is None else [*found.mergeCell]

    def error(self, message: str, row: int) -> InputError:
        """Return an error about a row."""
        return InputError(message, file=self.path, where=place(self.title, row))


def place(sheet: str | None, row: int) -> str:
    """Return the place of a row in messages; in a file without sheets, it is a line.

    >>> place("Ratings", 3), place(None, 3)
    ('sheet "Ratings", row 3', 'line 3')
    """
    return f"line {row}" if sheet is None else f"sheet {shown(sheet)}, row {row}"


def _value(kind: str, value: Any) -> Any:
    """Return the text of a cell as CSV would have it, or why it has none."""
    if kind == "e":
        return Unreadable(f"is the error {cut(str(value))}; correct the cell")
    if value is None:
        formula = kind.startswith("formula")
        return Unreadable(f"has a formula without a stored result; {_AGAIN}") if formula else ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return str(int(value))
    if isinstance(value, str):
        return value if value.strip() else ""
    if isinstance(value, int | float):
        return repr(value)
    return Unreadable(
        f"is a date or time ({cut(str(value))}); if the program made it of other text, format the "
        "column as text and enter the text again"
    )


def _table(parsed: _Rows, ignored: tuple[str, ...]) -> Sheet:
    header: dict[int, str] = {}
    header_row = 0
    columns: dict[int, list[Any]] = {}
    rows: list[int] = []
    unnamed = False
    for number, cells in parsed:
        if cells and not header:
            # An error in the header names nothing.
            names = {at: cell for at, cell in cells.items() if isinstance(cell, str)}
            header = {at: name.strip() for at, name in sorted(names.items())}
            header_row = number
            columns = {at: [] for at in header}
            unnamed = len(names) < len(cells)
        elif cells:
            for at, column in columns.items():
                column.append(cells.get(at, ""))
            rows.append(number)
            unnamed = unnamed or not cells.keys() <= columns.keys()
            # Few cells can span many rows and columns, each place of which takes memory.
            if len(rows) * len(columns) > _MOST_TAGS:
                raise parsed.error(f"is the last of too many cells; {_AS_CSV}", number)
    _mark_merged(parsed, columns, rows)
    return Sheet(
        parsed.title,
        [*header.values()],
        header_row,
        [*columns.values()],
        rows,
        ignored,
        unnamed=unnamed,
    )


def _mark_merged(parsed: _Rows, columns: dict[int, list[Any]], rows: list[int]) -> None:
    """Replace the cells that merging has emptied: it is unclear whether they have a value."""
    left = len(rows) * len(columns)
    for merged in parsed.merged:
        span = range(bisect_left(rows, merged.min_row), bisect_right(rows, merged.max_row))
        across = [at for at in columns if merged.min_col <= at <= merged.max_col]
        left -= len(span) * len(across)
        if left < 0:
            raise parsed.error(f"has merged cells that overlap; {_AGAIN}", merged.min_row)
        covered = Unreadable(
            f"is one of the merged cells {merged.coord}; unmerge them and fill in each cell"
        )
        for at, row in chain.from_iterable(((at, row) for row in span) for at in across):
            if (at, rows[row]) != (merged.min_col, merged.min_row) and not columns[at][row]:
                columns[at][row] = covered
