"""Crash-safe JSON lines: appended one line at a time, finished by an atomic rewrite."""

from __future__ import annotations

import codecs
import json
import os
import re
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from capeval.errors import InputError
from capeval.files.reading import parse_json, read_bytes

# `json.dumps` makes an encoder for each call that has options.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def dumps(value: Any, *, indent: int | None = None) -> str:
    """Return JSON as capeval writes it: keys in the order given, Unicode unescaped.

    An unpaired surrogate cannot be written as UTF-8; JSON that has one is escaped.
    """
    if indent is None:
        text = _ENCODER.encode(value)
    else:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, ensure_ascii=True, allow_nan=False, indent=indent)
    return text


def dumps_rows(head: Mapping[str, Any], name: str, rows: Iterable[str]) -> str:
    """Return an indented JSON object whose last member is a list with one line for each entry.

    Parameters
    ----------
    head : the other members
    rows : the entries as JSON

    >>> print(dumps_rows({"n": 2}, "items", ['{"id": 1}', '{"id": 2}']))
    {
     "n": 2,
     "items": [
      {"id": 1},
      {"id": 2}
     ]
    }
    """
    text = dumps({**head, name: []}, indent=1)
    lines = ",\n  ".join(rows)
    return text.removesuffix("]\n}") + f"\n  {lines}\n ]\n}}" if lines else text


def as_stored(value: Any) -> Any:
    """Return a value as it is read back from JSON; raises `TypeError` or `ValueError`.

    What another package made can have keys that become equal, or no end.
    """
    try:
        return json.loads(dumps(value))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def printable_json(text: str) -> str:
    r"""Return JSON for a terminal: what would act on it, or reorder its text, is escaped.

    >>> print(printable_json('"dog \u202e \x9b"'))
    "dog \u202e \u009b"
    """
    return _NOT_ASCII.sub(
        lambda found: found[0] if found[0].isprintable() else _escape(found[0]), text
    )


# JSON has escaped the control characters of ASCII, except DEL.
_NOT_ASCII = re.compile(r"[^\x00-\x7e]")


def _escape(character: str) -> str:
    return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]


def whole_lines(path: Path) -> list[Any]:
    """Return the values of a file, as `numbered_lines` reads them."""
    return [value for _, value in numbered_lines(path)]


def numbered_lines(path: Path) -> list[tuple[int, Any]]:
    """Return the values of a file, each with the number of its line.

    A killed process may have left the last line incomplete: it is ignored then, but one that lacks
    only its line break is used.
    """
    data = read_bytes(path) if path.exists() else b""
    values: list[tuple[int, Any]] = []
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
        values.append((number, parse_json(text, file=path, line=number)))
    return values


class JsonlAppender:
    """Appends JSON lines; first removes an incomplete last line.

    What it created and could not fill, because the disk is full, it removes again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1
        self._created: list[Path] = []

    def __enter__(self) -> Self:
        self._created = [p for p in (self._path, *self._path.parents) if not p.exists()]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        data = self._path.read_bytes()
        end = data.rfind(b"\n") + 1
        if _is_whole(data[end:]):
            os.write(self._fd, b"\n")
        else:
            os.ftruncate(self._fd, end)
        return self

    def __exit__(self, *_: object) -> None:
        status = os.fstat(self._fd)
        os.close(self._fd)
        if not status.st_size and is_still(self._path, status):
            remove_empty(self._created)

    def append(self, value: Any) -> None:
        """Write one line; the kernel has it before this returns, so `kill -9` cannot lose it.

        Raises
        ------
        InputError
            The file was moved, replaced or deleted since it was opened.
        """
        self.check()
        line = memoryview((dumps(value) + "\n").encode("utf-8"))
        end = os.fstat(self._fd).st_size
        try:
            while line:
                line = line[os.write(self._fd, line) :]
        except OSError as error:
            os.ftruncate(self._fd, end)
            error.filename = str(self._path)  # Else "no space left" names no file.
            raise

    def check(self) -> None:
        """Raise `InputError` if the file at this path is no longer the one that is written."""
        if not is_still(self._path, os.fstat(self._fd)):
            raise replaced(self._path)


def is_still(path: Path, status: os.stat_result) -> bool:
    """Return whether a path is the file or folder that had this status."""
    try:
        return os.path.samestat(path.stat(), status)
    except (FileNotFoundError, NotADirectoryError):
        return False


def replaced(path: Path) -> InputError:
    """Return the error for a file or folder that was taken away while results were written."""
    return InputError(
        "was moved, replaced or deleted while results were written to it; put it back, or run the "
        "command again",
        file=path,
    )


def remove_empty(created: Iterable[Path]) -> None:
    """Remove files and empty folders that this process created, innermost first."""
    with suppress(OSError):
        for path in created:
            path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)


def _is_whole(line: bytes) -> bool:
    # No proper prefix of a JSON object is a JSON object: what parses is complete.
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def write_atomic(path: Path, text: str | bytes) -> None:
    """Write a file so that readers see either the old content or the new, never a part.

    A link is followed: its target is written. InputError if that is not a regular file.
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
        # The user does not know the temporary file.
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _file_at(path: Path) -> Path:
    """Return the target of a path; it must be a regular file or not exist."""
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target
    except OSError as fault:
        raise InputError(f"cannot be written ({fault.strerror})", file=path) from None
    if stat.S_ISDIR(mode):
        raise InputError("is a folder; name a file in it", file=path)
    if not stat.S_ISREG(mode):
        # Replacing a device or a pipe by a file would break other programs.
        raise InputError("is not a regular file; choose another to write to", file=path)
    return target


def write_jsonl(path: Path, values: Iterable[Any]) -> None:
    """Write JSON lines atomically."""
    write_atomic(path, "".join(dumps(value) + "\n" for value in values))
