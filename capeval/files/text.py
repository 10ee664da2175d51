"""Reading text and JSON that people wrote: every mistake becomes one `InputError` line."""

from __future__ import annotations

import codecs
import json
from pathlib import Path
from typing import Any

from capeval.errors import InputError

__all__ = ["parse_json", "read_text"]

_WIDE_MARKS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, a byte order mark removed.

    Raises
    ------
    InputError
        The file is missing, a folder, unreadable, empty, or not UTF-8.
    """
    try:
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
    if not text.strip():
        raise InputError("is empty", file=path)
    return text


def _missing(path: Path) -> str:
    from difflib import get_close_matches

    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return f"does not exist (nor does its folder {path.parent})"
    near = get_close_matches(path.name, names, n=1)
    return "does not exist" + (f"; did you mean {near[0]}?" if near else "")


class _DuplicateKey(ValueError):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _DuplicateKey(key)
        result[key] = value
    return result


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def parse_json(text: str, *, file: Path, line: int = 1) -> Any:
    """Parse strict JSON: no doubled keys, no NaN; `line` is where `text` starts in the file.

    Raises
    ------
    InputError
        Names the file and the line of the first fault.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as fault:
        raise InputError(
            f"broken JSON at column {fault.colno} ({fault.msg})",
            file=file,
            where=f"line {line + fault.lineno - 1}",
        ) from None
    except _DuplicateKey as fault:
        at = _line_of_second(text, str(fault.args[0]))
        raise InputError(
            f"the key {json.dumps(fault.args[0], ensure_ascii=False)} stands twice",
            file=file,
            where=f"line {line + at}",
        ) from None
    except RecursionError:
        raise InputError("is nested too deeply", file=file, where=f"line {line}") from None
    except ValueError as fault:
        raise InputError(str(fault), file=file, where=f"line {line}") from None


def _line_of_second(text: str, key: str) -> int:
    for quoted in (json.dumps(key), json.dumps(key, ensure_ascii=False)):
        first = text.find(quoted)
        second = text.find(quoted, first + 1) if first >= 0 else -1
        if second >= 0:
            return text.count("\n", 0, second)
    return 0
