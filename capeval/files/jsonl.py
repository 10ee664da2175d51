"""Crash-safe JSON lines: appended one line at a time, finished by an atomic rewrite."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from capeval.errors import InputError
from capeval.files.reading import check_regular, streamed_lines


def dumps(value: Any, *, indent: int | None = None) -> str:
    """Return JSON as capeval writes it: keys in the order given, Unicode unescaped.

    An unpaired surrogate cannot be written as UTF-8; JSON that has one is escaped.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, indent=indent)
    return text


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
    return re.sub(
        r"[^\x00-\x7f]",
        lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1],
        text,
    )


def whole_lines(path: Path) -> list[Any]:
    """Return the values of a file, as `numbered_lines` reads them."""
    return [value for _, value in numbered_lines(path)]


def numbered_lines(
    path: Path, quick: Callable[[bytes], Any] | None = None
) -> Iterator[tuple[int, Any]]:
    """Yield the values of a file, each with the number of its line; none if there is no file.

    A killed process may have left the last line incomplete: it is ignored then, but one that lacks
    only its line break is used. `quick` is that of `streamed_lines`.
    """
    if path.exists():
        check_regular(path)
        yield from streamed_lines(path, is_whole=_is_whole, quick=quick)


class JsonlAppender:
    """Appends JSON lines; first removes an incomplete last line."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("ab", buffering=0)
        data = self._path.read_bytes()
        end = data.rfind(b"\n") + 1
        if _is_whole(data[end:]):
            self._file.write(b"\n")
        else:
            self._file.truncate(end)
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, value: Any) -> None:
        """Write one line; the kernel has it before this returns, so `kill -9` cannot lose it."""
        line = (dumps(value) + "\n").encode("utf-8")
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError as error:
            error.filename = str(self._path)  # Else "no space left" names no file.
            raise


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


def write_atomic(path: Path, content: str | bytes | Iterable[str]) -> None:
    """Write a file so that readers see either the old content or the new, never a part.

    A link is followed: its target is written. InputError if that is a folder, or a device or pipe,
    which must not be replaced by a file.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise InputError("is not a regular file; choose another to write to", file=path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            for part in [content] if isinstance(content, str | bytes) else content:
                file.write(part.encode("utf-8") if isinstance(part, str) else part)
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


def write_jsonl(path: Path, values: Iterable[Any]) -> None:
    """Write JSON lines atomically."""
    write_atomic(path, (dumps(value) + "\n" for value in values))
