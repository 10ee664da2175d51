"""Read text and JSON files of users: every mistake becomes an `InputError` of one line."""

from __future__ import annotations

import codecs
import json
import math
import re
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from capeval.errors import InputError
from capeval.text import cut, nearest, shown

_WIDE_MARKS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

# gzip, zip, bzip2, xz and Zstandard.
_COMPRESSED = (b"\x1f\x8b", b"PK\x03\x04", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd")


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, a byte order mark removed; it must not be empty."""
    data = read_bytes(path)
    if data.startswith(_COMPRESSED):
        raise InputError("is compressed; unpack it first", file=path)
    if data.startswith(_WIDE_MARKS) or b"\x00" in data[:4]:
        raise InputError("is UTF-16 or UTF-32; save it as UTF-8", file=path)
    try:
        text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as fault:
        line = data.count(b"\n", 0, fault.start) + 1
        raise InputError(
            f"byte 0x{data[fault.start]:02x} is not UTF-8; save the file as UTF-8",
            file=path,
            where=f"line {line}",
        ) from None
    if not text or text.isspace():
        raise InputError("is empty", file=path)
    return text


def read_bytes(path: Path) -> bytes:
    """Return the content of a regular file: reading a pipe or a device may never end."""
    try:
        if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
            raise InputError("is not a regular file; save its content to one", file=path)
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(why_missing(path), file=path) from None
    except IsADirectoryError:
        raise InputError("is a folder; name a file", file=path) from None
    except (OSError, ValueError) as fault:
        # ValueError: how Python puts it depends on its version.
        reason = fault.strerror if isinstance(fault, OSError) else "its name has a NUL character"
        raise InputError(f"cannot be read ({reason})", file=path) from None


@contextmanager
def reading() -> Iterator[None]:
    """Turn an `OSError` of the block, such as a refused permission, into an `InputError`."""
    try:
        yield
    except OSError as fault:
        raise InputError(f"cannot be read ({fault.strerror})", file=fault.filename) from None


def why_missing(path: Path) -> str:
    """Return the message for a path that does not exist, with a similar name if there is one."""
    if path.is_symlink():
        return f"is a link to {path.readlink()}, which does not exist"
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return f"does not exist (nor does its folder {path.parent})"
    return "does not exist" + nearest(path.name, names)


class _DuplicateKey(ValueError):
    pass


class _NotANumber(ValueError):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise _DuplicateKey
    return result


def _no_constant(name: str) -> Any:
    raise _NotANumber(name)


def _finite(text: str) -> float:
    # 1e999 would be read as infinity, which JSON cannot represent.
    number = float(text)
    if math.isinf(number):
        raise _NotANumber(text)
    return number


class WrittenFloat(float):
    """A number of JSON that keeps the text it was written as, such as `2.50`."""

    text: str

    @classmethod
    def read(cls, text: str) -> WrittenFloat:
        """Return the number of a text; `_NotANumber` if it is infinite."""
        number = cls(_finite(text))
        number.text = text
        return number


def parse_json(text: str, *, file: Path, line: int = 1, as_written: bool = False) -> Any:
    """Parse strict JSON (no duplicated keys, no NaN); `line` is where `text` starts in the file.

    With `as_written`, numbers with a point or an exponent are `WrittenFloat`.
    """
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=WrittenFloat.read if as_written else _finite,
        )
    except json.JSONDecodeError as fault:
        if not fault.pos:
            start = shown(text.lstrip().partition("\n")[0].rstrip())
            message = f"is not JSON: {start}; give JSON or JSON lines"
            raise InputError(message, file=file, where=f"line {line}") from None
        problem, at = f"broken JSON at column {fault.colno} ({fault.msg})", fault.lineno - 1
    except _DuplicateKey:
        key, at = _duplicated_key(text)
        problem = f"the key {cut(key)} is duplicated"
    except _NotANumber as fault:
        number = str(fault)
        problem, at = f"{number[:60]} is not a number in JSON", _lines_before(text, number.__eq__)
    except RecursionError:
        problem, at = "is nested too deeply", 0
    except ValueError:
        # Python limits the digits of an integer that it parses.
        most = sys.get_int_max_str_digits()
        at = _lines_before(text, lambda word: len(word) > most and word.lstrip("-").isdigit())
        problem = f"has a number of more than {most:,} digits"
    raise InputError(problem, file=file, where=f"line {line + at}")


# The text is valid JSON up to the mistake: strings must not be confused with the rest.
_STRING = r'"(?:[^"\\]++|\\.)*+"'
_BRACE_OR_KEY = re.compile(rf"([{{}}])|({_STRING})(\s*:)?", re.DOTALL)
_STRING_OR_WORD = re.compile(rf"{_STRING}|[^\s\"\[\]{{}}:,]+", re.DOTALL)


def _duplicated_key(text: str) -> tuple[str, int]:
    """Return the first duplicated key of an object, and the number of lines before it."""
    keys: list[set[str]] = []
    for found in _BRACE_OR_KEY.finditer(text):
        brace, key, colon = found.groups()
        if brace == "{":
            keys.append(set())
        elif brace == "}":
            keys.pop()
        elif colon:
            name = json.loads(key, strict=False)
            if name in keys[-1]:
                return key, text.count("\n", 0, found.start())
            keys[-1].add(name)
    raise AssertionError("no key is duplicated")


def _lines_before(text: str, is_wanted: Callable[[str], bool]) -> int:
    for found in _STRING_OR_WORD.finditer(text):
        if is_wanted(found.group()):
            return text.count("\n", 0, found.start())
    return 0


# A string may be unterminated: it is then read once, not from each of its quotes.
_STRING_OR_TRAILING_COMMA = re.compile(
    r'("(?:[^"\\]++|\\(?:.|\Z))*+(?:"|\Z))|,(?=\s*[\]}])', re.DOTALL
)


def without_trailing_commas(text: str) -> str:
    """Return JSON with a space for each comma before a closing bracket, which JSON forbids.

    >>> without_trailing_commas('{"a": [1, ",]",],}')
    '{"a": [1, ",]" ] }'
    """
    return _STRING_OR_TRAILING_COMMA.sub(lambda found: found[1] or " ", text)


def json_lines(text: str, *, file: Path, as_written: bool = False) -> Iterator[tuple[int, Any]]:
    """Yield `(line number from 1, value)` for every line of JSON lines that is not blank."""
    # Not splitlines(): U+2028 and similar characters are allowed inside a JSON string.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, parse_json(line, file=file, line=number, as_written=as_written)


def json_records(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield `(place, value)` for every record of a JSON list or of JSON lines; one is needed."""
    text = read_text(path)
    if text.lstrip()[0] == "[":
        values = parse_json(text, file=path)
        if not values:
            raise InputError("has no records", file=path)
        for position, value in enumerate(values, start=1):
            yield f"entry {position}", value
    else:
        for number, value in json_lines(text, file=path):
            yield f"line {number}", value


def first_line(path: Path) -> str:
    """Return the first line of a UTF-8 file that is not blank, without a byte order mark.

    The rest is not read: another process may still be writing the last line.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    with suppress(OSError, ValueError):
        if stat.S_ISREG(path.stat().st_mode):
            with path.open("rb") as file:
                for line in file:
                    # Only an unfinished line may end in the middle of a character.
                    whole = line.endswith(b"\n")
                    text = decoder.decode(line.removeprefix(codecs.BOM_UTF8), whole).strip()
                    if text and "\0" not in text[:4]:
                        return text
                    if text:
                        break
    # It raises an error that says what is wrong with the file.
    return read_text(path).strip().split("\n", 1)[0]


Stamp = tuple[int, ...]


def stamp_of(file: Path) -> Stamp:
    """Return what changes with a file's content: its place on the disk, time and size; OSError."""
    status = file.stat()
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
