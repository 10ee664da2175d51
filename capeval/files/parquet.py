"""Read parquet files, in which data sets are published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from capeval.errors import InputError, MissingExtra
from capeval.files.reading import read_bytes
from capeval.text import describe

_MARK = b"PAR1"


def is_parquet(file: Path) -> bool:
    """Return whether a regular file begins like parquet, whatever its name."""
    try:
        if not file.is_file():
            return False
        with file.open("rb") as content:
            return content.read(len(_MARK)) == _MARK
    except (OSError, ValueError):
        return False


def read_parquet(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a parquet file; lists in it become lists.

    MissingExtra if pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra("reading parquet needs pyarrow", "data") from None
    content = read_bytes(file)
    try:
        table = parquet.ParquetFile(pyarrow.BufferReader(content)).read(use_threads=False)
        names = table.column_names
        rows: list[dict[str, Any]] = table.to_pylist() if len({*names}) == len(names) else []
    except (pyarrow.ArrowException, OSError, ValueError, NotImplementedError) as fault:
        raise InputError(f"is damaged parquet ({describe(fault)})", file=file) from None
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f'the column "{twice[0]}" is duplicated', file=file)
    return rows
