"""Read text and JSON files of users: every mistake becomes an `InputError` of one line."""

from __future__ import annotations

import codecs
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from capeval.errors import InputError
from capeval.schema import Annotation, Caption, Reference, Video
from capeval.text import complaint, cut, nearest, shown


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, a byte order mark removed; it must not be empty.

    Excel's "Unicode text" is UTF-16 with such a mark, and is read too.
    """
    text = decoded(read_bytes(path), path)
    if not text.strip():
        raise InputError("is empty", file=path)
    return text


def decoded(data: bytes, path: Path, line: int = 1) -> str:
    """Return the text of bytes that begin in a line of a file, as `read_text` does."""
    is_wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return data.decode("utf-16" if is_wide else "utf-8-sig")
    except UnicodeDecodeError as fault:
        line += data.count(b"\n", 0, fault.start)
        message = "is not UTF-8; save the file as UTF-8"
        raise InputError(message, file=path, where=f"line {line}") from None


def read_bytes(path: Path) -> bytes:
    """Return the content of a regular file."""
    check_regular(path)
    with reading():
        return path.read_bytes()


def check_regular(path: Path) -> None:
    """Raise `InputError` unless a path is a regular file: reading another may never end."""
    with reading():
        if path.is_file():
            return
        kind = "is a folder" if path.is_dir() else "is not a regular file"
        problem = f"{kind}; name a file" if path.exists() else why_missing(path)
    raise InputError(problem, file=path)


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


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        key = next(key for key, n in Counter(key for key, _ in pairs).items() if n > 1)
        raise ValueError(f"the key {shown(cut(key))} is duplicated")
    return result


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")


def parse_json(text: str, *, file: Path, line: int = 1, nan: bool = False) -> Any:
    """Parse strict JSON, without duplicated keys; `line` is where `text` starts in the file.

    NaN, which is no JSON, is refused, or None if `nan`.
    """
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=(lambda _: None) if nan else _no_constant,
        )
    except json.JSONDecodeError as fault:
        line += fault.lineno - 1
        if fault.pos:
            problem = f"broken JSON at column {fault.colno} ({fault.msg})"
        else:
            start = shown(text.lstrip().partition("\n")[0].rstrip())
            problem = f"is not JSON: {start}; give JSON or JSON lines"
    except RecursionError:
        problem = "is nested too deeply"
    except ValueError as fault:
        # A duplicated key, NaN, or an integer with more digits than Python parses.
        problem = str(fault)
    raise InputError(problem, file=file, where=f"line {line}")


def json_lines(text: str, *, file: Path, nan: bool = False) -> Iterator[tuple[int, Any]]:
    """Yield `(line number from 1, value)` for every line that is not blank; see `parse_json`."""
    # Not splitlines(): U+2028 and similar characters are allowed inside a JSON string.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, parse_json(line, file=file, line=number, nan=nan)


@dataclass(frozen=True)
class JsonValues:
    """The values of a list, of JSON lines, or one value, each with its place.

    `whole` is JSON that is not JSON lines; `mended` the place of what had to be mended to read it.
    """

    records: Sequence[tuple[str, Any]]
    whole: Any = None
    mended: str = ""


def json_values(
    path: Path, *, nan: bool = False, mend: Callable[[str], str] | None = None
) -> JsonValues:
    """Read JSON or JSON lines, by the first line; `mend` is tried on text that is not JSON."""
    text = read_text(path)
    first, _, rest = text.strip().partition("\n")
    if rest and first[0] == "{" and _is_json(first):
        lines = json_lines(text, file=path, nan=nan)
        return JsonValues([(f"line {n}", value) for n, value in lines])
    mended = ""
    try:
        whole = parse_json(text, file=path, nan=nan)
    except InputError as fault:
        if mend is None:
            raise
        whole, mended = parse_json(mend(text), file=path, nan=nan), fault.where
    entries = whole if isinstance(whole, list) else ()
    records = [(f"entry {n}", value) for n, value in enumerate(entries, start=1)]
    return JsonValues(records if entries is whole else [("line 1", whole)], whole, mended)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


OnFault = Callable[[InputError], None]


def json_records(path: Path, on_fault: OnFault | None = None) -> Iterator[tuple[str, Any]]:
    """Yield `(place, value)` for every record of a JSON list or of JSON lines; one is needed.

    JSON lines are read one by one, so that memory does not grow with the file. `on_fault` receives
    the errors of later lines that are not JSON, instead of the first being raised.
    """
    # What begins with bytes that are no UTF-8 may be UTF-16.
    if first_line(path)[0] in "[\ufffd":
        if not (records := json_values(path).records):
            raise InputError("has no records", file=path)
        yield from records
    else:
        for number, value in streamed_lines(path, on_fault):
            yield f"line {number}", value


def streamed_lines(
    path: Path,
    on_fault: OnFault | None = None,
    *,
    is_whole: Callable[[bytes], bool] = bool,
    quick: Callable[[bytes], Any] | None = None,
) -> Iterator[tuple[int, Any]]:
    """Yield `(line number from 1, value)` for every line of a file; see `json_records`.

    `is_whole` says whether to use a last line that lacks its line break. `quick` parses and
    validates a line in one step; what raises ValueError there is parsed as any other file, so that
    the reader of the values says what is wrong.
    """
    is_json = False
    with reading(), path.open("rb") as file:
        for number, data in enumerate(file, start=1):
            line = data.removeprefix(codecs.BOM_UTF8) if number == 1 else data
            if not line.strip():
                continue
            if not (line.endswith(b"\n") or is_whole(line)):
                return
            if quick:
                with suppress(ValueError):
                    yield number, quick(line)
                    continue
            try:
                text = decoded(line, path, number).rstrip("\n")
                value = parse_json(text, file=path, line=number)
            except InputError as fault:
                if on_fault is None or not is_json:
                    raise
                on_fault(fault)
                continue
            is_json = True
            yield number, value


def first_line(path: Path) -> str:
    """Return the first line of a text file that is not blank, without a byte order mark.

    The rest is not read: another process may still be writing the last line.
    """
    with suppress(OSError):
        if path.is_file():
            with path.open(encoding="utf-8-sig", errors="replace") as file:
                if line := next(filter(None, map(str.strip, file)), ""):
                    return line
    # It raises an error that says what is wrong with the file.
    return read_text(path)


Stamp = tuple[int, ...]


def stamp_of(file: Path) -> Stamp:
    """Return what changes with a file's content: its place on the disk, time and size; OSError."""
    status = file.stat()
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)


M = TypeVar("M", bound=BaseModel)
R = TypeVar("R", bound=Annotation | Caption | Reference | Video)


def json_object(value: Any, *, file: Path, where: str) -> dict[str, Any]:
    """Return one record of a file, which must be a JSON object."""
    if not isinstance(value, dict):
        raise InputError(f"must be a JSON object, not {shown(value)}", file=file, where=where)
    return value


def validated(model: type[M], value: Any, *, file: Path, where: str) -> M:
    """Validate one record of a file; the first mistake is raised with its dotted field."""
    value = json_object(value, file=file, where=where)
    try:
        return model.model_validate(value)
    except ValidationError as faults:
        field, message = complaint(faults)
        raise InputError(message, file=file, where=where, field=field) from None


def validated_records(
    model: type[R], records: Iterable[tuple[str, Any]], *, file: Path
) -> tuple[R, ...]:
    """Validate all records of a file, given with their places; every index must be unique.

    InputError if there is no record.
    """
    seen: dict[str, str] = {}
    result: list[R] = []
    for place, value in records:
        if isinstance(value, model):
            one = value
        else:
            index = value.get("index") if isinstance(value, dict) else None
            where = f"{place}: index {shown(index)}" if isinstance(index, str) else place
            one = validated(model, value, file=file, where=where)
        if one.index in seen:
            where = f"{place}: index {shown(one.index)}"
            message = f"is duplicated (see {seen[one.index]})"
            raise InputError(message, file=file, where=where, field="index")
        seen[one.index] = place
        result.append(one)
    if not result:
        raise InputError("has no records", file=file)
    return tuple(result)
