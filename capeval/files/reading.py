"""Reading text and JSON that people wrote: every mistake becomes one `InputError` line."""

from __future__ import annotations

import codecs
import json
import math
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from capeval.errors import InputError

_WIDE_MARKS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, a byte order mark removed.

    Raises
    ------
    InputError
        The file is missing, a folder, unreadable, empty, or not UTF-8.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
            raise InputError("is no regular file; save its content to one", file=path)
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(_missing(path), file=path) from None
    except IsADirectoryError:
        raise InputError("is a folder; name a file", file=path) from None
    except (OSError, ValueError) as fault:
        # ValueError: a path with a NUL in it.
        reason = fault.strerror if isinstance(fault, OSError) else str(fault)
        raise InputError(f"cannot be read ({reason})", file=path) from None
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


def _missing(path: Path) -> str:
    from difflib import get_close_matches

    if path.is_symlink():
        return f"is a link to {path.readlink()}, which does not exist"
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return f"does not exist (nor does its folder {path.parent})"
    near = get_close_matches(path.name, names, n=1)
    return "does not exist" + (f"; did you mean {near[0]}?" if near else "")


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
    # 1e999 would be read as infinity, which no JSON file can hold.
    number = float(text)
    if math.isinf(number):
        raise _NotANumber(text)
    return number


def parse_json(text: str, *, file: Path, line: int = 1) -> Any:
    """Parse strict JSON: no doubled keys, no NaN; `line` is where `text` starts in the file.

    Raises
    ------
    InputError
        Names the file and the line of the first fault.
    """
    try:
        return json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite
        )
    except json.JSONDecodeError as fault:
        raise InputError(
            f"broken JSON at column {fault.colno} ({fault.msg})",
            file=file,
            where=f"line {line + fault.lineno - 1}",
        ) from None
    except _DuplicateKey:
        key, at = _doubled_key(text)
        raise InputError(
            f"the key {key if len(key) <= 60 else key[:59] + '…'} stands twice",
            file=file,
            where=f"line {line + at}",
        ) from None
    except _NotANumber as fault:
        at = _lines_before(text, str(fault).__eq__)
        raise InputError(
            f"{str(fault)[:60]} is not a number that JSON can hold",
            file=file,
            where=f"line {line + at}",
        ) from None
    except RecursionError:
        raise InputError("is nested too deeply", file=file, where=f"line {line}") from None
    except ValueError:
        # Python reads no integer of more than some thousands of digits.
        most = sys.get_int_max_str_digits()
        at = _lines_before(text, lambda word: len(word) > most and word.lstrip("-").isdigit())
        raise InputError(
            f"has a number of more than {most:,} digits", file=file, where=f"line {line + at}"
        ) from None


# What matters of JSON text that is known to be whole up to a fault: strings, and all that is not.
_STRING = r'"(?:[^"\\]++|\\.)*+"'
_BRACE_OR_KEY = re.compile(rf"([{{}}])|({_STRING})(\s*:)?", re.DOTALL)
_STRING_OR_WORD = re.compile(rf"{_STRING}|[^\s\"\[\]{{}}:,]+", re.DOTALL)


def _doubled_key(text: str) -> tuple[str, int]:
    """Return the first key that stands twice in one object, and the lines before its second."""
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
    raise AssertionError("no key stands twice")


def _lines_before(text: str, meant: Callable[[str], bool]) -> int:
    for found in _STRING_OR_WORD.finditer(text):
        if meant(found.group()):
            return text.count("\n", 0, found.start())
    return 0


def first_line(path: Path) -> str:
    """Return the first line that is not blank of a UTF-8 file, a byte order mark removed.

    The rest is not looked at: the last line may be torn where it is still written.

    Raises
    ------
    InputError
        As `read_text`: the file is missing, a folder, unreadable, empty, or not UTF-8.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return _told(path)
        with path.open("rb") as file:
            for line in file:
                text = _decoded(line.removeprefix(codecs.BOM_UTF8)).strip()
                if text:
                    return _told(path) if "\0" in text[:4] else text
    except (OSError, ValueError):
        pass
    return _told(path)


def _decoded(line: bytes) -> str:
    # Only a line that has no end may have a torn character at its end.
    return codecs.getincrementaldecoder("utf-8")().decode(line, final=line.endswith(b"\n"))


def _told(path: Path) -> str:
    # It knows what is wrong, and says so.
    return read_text(path).strip().split("\n", 1)[0]
