"""JSON lines that survive a crash: appended a line at a time, finished by an atomic rewrite."""

from __future__ import annotations

import codecs
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from capeval.errors import InputError
from capeval.files.reading import parse_json, read_text


def dumps(value: Any, *, indent: int | None = None) -> str:
    """Return JSON as every file of ours writes it: keys in the order given, Unicode as it is.

    A lone surrogate cannot be written as UTF-8; text that has one is escaped instead.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, ensure_ascii=True, allow_nan=False, indent=indent)
    return text


def iter_jsonl(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield `(line number from 1, value)` for every line that is not blank.

    Raises
    ------
    InputError
        The file cannot be read or a line is not JSON.
    """
    # Not splitlines(): U+2028 and its like are allowed inside a JSON string.
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            yield number, parse_json(line, file=path, line=number)


def whole_lines(path: Path) -> list[Any]:
    """Return the values of a file that a killed process may have left with a torn last line.

    The torn line is passed over; a last line that only lacks its line break is whole. A broken
    line before the last is damage and raises. A byte order mark is no part of the first line.

    Raises
    ------
    InputError
        A line that is not the last is not JSON.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    values: list[Any] = []
    *lines, last = data.removeprefix(codecs.BOM_UTF8).split(b"\n")
    if _is_whole(last):
        lines.append(last)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            raise InputError(
                "is damaged (not UTF-8); remove the line and run again",
                file=path,
                where=f"line {number}",
            ) from None
        values.append(parse_json(text, file=path, line=number))
    return values


class JsonlAppender:
    """Appends JSON lines, each whole or not at all; a torn last line is cut off first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        size = os.fstat(self._fd).st_size
        end = _end_of_last_line(self._fd, size)
        if _is_whole(os.pread(self._fd, size - end, end)):
            os.write(self._fd, b"\n")
        else:
            os.ftruncate(self._fd, end)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def append(self, value: Any) -> None:
        """Write one line; it is the kernel's before this returns, so kill -9 cannot lose it."""
        if self._fd is None:
            raise ValueError("the appender is not open")
        line = memoryview((dumps(value) + "\n").encode("utf-8"))
        try:
            while line:
                line = line[os.write(self._fd, line) :]
        except OSError as error:
            error.filename = str(self._path)  # "no space left" says nothing of where
            raise


def _is_whole(line: bytes) -> bool:
    # No beginning of a JSON object is itself one: what parses has lost nothing.
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _end_of_last_line(fd: int, size: int) -> int:
    end = size
    while end > 0:
        start = max(0, end - 65536)
        newline = os.pread(fd, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def write_atomic(path: Path, text: str | bytes) -> None:
    """Write a file so that a reader sees the old one or the new one, never half of either.

    A link is followed: what it points to is written.

    Raises
    ------
    InputError
        Something stands there that is no file: a folder, a device, a pipe, a link in a circle.
    """
    target = _file_at(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(text.encode("utf-8") if isinstance(text, str) else text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        if error.errno is None:
            raise
        # Nobody knows the temporary file by its name.
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _file_at(path: Path) -> Path:
    """Return where a path leads, if a regular file or nothing is there."""
    try:
        target = Path(os.path.realpath(path))
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target
    except (OSError, ValueError) as fault:
        # ValueError: a path with a NUL in it.
        reason = fault.strerror if isinstance(fault, OSError) else str(fault)
        raise InputError(f"cannot be written ({reason})", file=path) from None
    if stat.S_ISDIR(mode):
        raise InputError("is a folder; name a file in it", file=path)
    if not stat.S_ISREG(mode):
        # Replacing a device or a pipe by a file would take it from the machine's other programs.
        raise InputError("is no regular file; choose another to write to", file=path)
    return target


def write_jsonl(path: Path, values: Iterable[Any]) -> None:
    """Write JSON lines atomically."""
    write_atomic(path, "".join(dumps(value) + "\n" for value in values))
