"""Text, JSON and JSON lines: read strictly, appended line by line, written whole or not at all.

Every mistake in a file is a one-line `InputError`. Output paths are checked before any work, so
that no input is destroyed.
"""

from __future__ import annotations

import codecs
import gc
import hashlib
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ValidationError

from capeval.config import config_file
from capeval.errors import InputError, UsageError
from capeval.schema import Caption, Reference, Video
from capeval.text import complaint, cut, nearest, shown

# ---- Text --------------------------------------------------------------------------------------


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file without its byte order mark; it must not be empty.

    Excel's "Unicode text" is UTF-16 with such a mark, and is read too.
    """
    return text_in(read_bytes(path), path)


def text_in(data: bytes, path: Path) -> str:
    """Return the text in the content of a file, as `read_text` does."""
    text = _decoded(data, path)
    if not text.strip():
        raise InputError("is empty", file=path)
    return text


def _decoded(data: bytes, path: Path) -> str:
    is_wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return data.decode("utf-16" if is_wide else "utf-8-sig")
    except UnicodeDecodeError as fault:
        line = 1 + data.count(b"\n", 0, fault.start)
        message = "is not UTF-8; save the file as UTF-8"
        raise InputError(message, file=path, where=f"line {line}") from None


def read_bytes(path: Path) -> bytes:
    """Return the content of a regular file: other kinds may never end."""
    with reading():
        if path.is_file():
            return path.read_bytes()
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


Stamp = tuple[int, ...]


def stamp_of(file: Path) -> Stamp:
    """Return the identity, time and size of a file, which change with its content; OSError."""
    status = file.stat()
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)


# ---- JSON --------------------------------------------------------------------------------------


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

    NaN, not JSON, is refused; with `nan` it is None.
    """
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=(lambda _: None) if nan else _no_constant,
        )
    except json.JSONDecodeError as error:
        # Nothing is on the line after the last line break.
        fault = json.JSONDecodeError(error.msg, text, min(error.pos, len(text.rstrip())))
        line += fault.lineno - 1
        if fault.pos:
            problem = f"broken JSON at column {fault.colno} ({fault.msg})"
        else:
            start = shown(text.lstrip().partition("\n")[0].rstrip())
            problem = f"is not JSON: {start}; give JSON or JSON lines"
    except (ValueError, RecursionError) as fault:
        # A duplicated key, NaN, an integer with more digits than Python parses, a deep nesting.
        problem = str(fault)
    raise InputError(problem, file=file, where=f"line {line}")


OnFault = Callable[[InputError], None]


def json_lines(
    text: str, *, file: Path, nan: bool = False, on_fault: OnFault | None = None
) -> Iterator[tuple[str, Any]]:
    """Yield the place, such as "line 1", and the value of each line that is not blank.

    `on_fault` receives the errors of lines that are not JSON; without it, the first is raised.
    """
    # Not splitlines(): U+2028 and similar characters are allowed inside a JSON string.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                value = parse_json(line, file=file, line=number, nan=nan)
            except InputError as fault:
                if on_fault is None:
                    raise
                on_fault(fault)
            else:
                yield f"line {number}", value


Records = Sequence[tuple[str, Any]]
"""Values of a file, each with its place."""


def json_values(
    path: Path,
    text: str | None = None,
    *,
    nan: bool = False,
    on_fault: OnFault | None = None,
) -> tuple[Records, Any]:
    """Return the records of JSON or JSON lines, and the whole value (None for JSON lines).

    The first line decides. `text` replaces the file's own.
    """
    text = read_text(path) if text is None else text
    first, _, rest = text.strip().partition("\n")
    if rest and first[0] == "{" and _is_object(first):
        return [*json_lines(text, file=path, nan=nan, on_fault=on_fault)], None
    whole = parse_json(text, file=path, nan=nan)
    if isinstance(whole, list):
        return [(f"entry {n}", one) for n, one in enumerate(whole, start=1)], whole
    return [("line 1", whole)], whole


def json_records(
    path: Path, text: str | None = None, *, on_fault: OnFault | None = None
) -> Records:
    """Return the records of a JSON list or of JSON lines with their places; one is needed."""
    records, _ = json_values(path, text, on_fault=on_fault)
    if not records:
        raise InputError("has no records", file=path)
    return records


def _is_object(line: str | bytes) -> bool:
    # No proper prefix of a JSON object is a JSON object: a line that is one is complete.
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def numbered_lines(path: Path, data: bytes | None = None) -> Iterator[tuple[str, Any]]:
    """Yield the values of a file, each with its place; none if there is no file.

    A killed process may have left the last line incomplete: it is ignored then, but one that lacks
    only its line break is used. `data` is the file's content, if that is known.
    """
    if data is not None or path.exists():
        data = read_bytes(path) if data is None else data
        end = data.rfind(b"\n") + 1
        whole = data if _is_object(data[end:]) else data[:end]
        yield from json_lines(_decoded(whole, path), file=path)


def whole_lines(path: Path) -> list[Any]:
    return [value for _, value in numbered_lines(path)]


# ---- Records -----------------------------------------------------------------------------------

M = TypeVar("M", bound=BaseModel)
R = TypeVar("R", bound=Caption | Reference | Video)


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
    """Validate all records of a file, at least one; every index must be unique."""
    seen: dict[str, str] = {}
    result: list[R] = []
    for place, value in records:
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


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause garbage collection, which takes up to half the time of loading many records."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            # All objects count as old, and are not searched at once.
            gc.freeze()
            gc.unfreeze()
            gc.enable()


# ---- Writing -----------------------------------------------------------------------------------


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
    """Return a value as it is read back from JSON; raises `TypeError` or `ValueError`."""
    return json.loads(dumps(value))


def lines_hash(values: Iterable[object]) -> str:
    """Return the SHA-256 (hex) of values as JSON lines."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(dumps(value).encode("utf-8") + b"\n")
    return digest.hexdigest()


def short_hash(value: object) -> str:
    return hashlib.sha256(dumps(value).encode("utf-8")).hexdigest()[:12]


def printable_json(text: str) -> str:
    r"""Return JSON for a terminal: control and reordering characters are escaped.

    >>> print(printable_json('"dog \u202e \x9b"'))
    "dog \u202e \u009b"
    """
    return re.sub(
        r"[^\x00-\x7f]",
        lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1],
        text,
    )


class JsonlAppender:
    """Appends JSON lines; first removes an incomplete last line."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("ab", buffering=0)
        data = self._path.read_bytes()
        end = data.rfind(b"\n") + 1
        if _is_object(data[end:]):
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


def write_atomic(path: Path, content: str | bytes | Iterable[str]) -> None:
    """Write a file so that readers see either the old content or the new, never a part.

    A link is followed: its target is written.
    """
    target = Path(os.path.realpath(path))
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
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_jsonl(path: Path, values: Iterable[Any]) -> None:
    write_atomic(path, (dumps(value) + "\n" for value in values))


# ---- Outputs that a user names ----------------------------------------------------------------

# Written to in place: replacing a device with a file would break other programs.
_OTHER_KINDS = (".csv", ".tsv", ".xlsx", ".parquet", ".md", ".tex", ".txt", ".html", ".pdf")
_PLAIN = ("/dev/stdout", "/dev/null")
# Names of run and shard files, the configuration and the cache: an output could replace one, or be
# mistaken for one later. Some file systems ignore case.
_OWN = re.compile(
    r"(captions|ungenerated|responses)(\.\d+-of-\d+)?\.jsonl|judgments\.jsonl"
    r"|(manifest|judge|scores|calibrated|agreement)\.json"
    r"|\.lock(\..*)?|capeval\.toml|replies\.sqlite(-\w+)?",
    re.IGNORECASE,
)


def check_json(path: Path, *others: str) -> None:
    """Refuse a name for JSON that looks like another kind of file, unless it is one of `others`."""
    if path.suffix.lower() in _OTHER_KINDS and path.suffix.lower() not in others:
        kinds = ", ".join((".json", *others))
        raise UsageError(f"--out: {path}: choose a name that ends in {kinds}")


def check_output(
    path: Path, inputs: Iterable[Path | str], *, option: str = "--out", own: str = ""
) -> None:
    """Refuse an output that is one of the inputs, or has the name of a file of capeval's own.

    Links are followed, and inputs may be folders. `/dev/stdout` and `/dev/null` are allowed. Of the
    names of capeval's files, the output may have only `own`.
    """
    if str(path) in _PLAIN:
        return
    target = Path(os.path.realpath(path))
    why = ""
    if not path.name or target.is_dir():
        why = "is a folder; name a file in it"
    elif target.exists() and not target.is_file():
        why = "is not a regular file; choose another"
    elif any(_is_read(Path(file), target) for file in (*inputs, config_file())):
        why = "is one of the files to be read; choose another"
    elif target.name.lower() != own and _OWN.fullmatch(target.name):
        why = "has a name that capeval uses itself; choose another"
    if why:
        raise UsageError(f"{option}: {path} {why}")


def _is_read(file: Path, target: Path) -> bool:
    if not (file.exists() and target.exists()):
        return Path(os.path.realpath(file)) == target
    # A folder around the working folder may contain earlier outputs to replace.
    inside = file.is_dir() and not Path.cwd().is_relative_to(file.resolve())
    return file.samefile(target) or (inside and target.is_relative_to(file.resolve()))


def write_output(path: Path, text: str | bytes) -> None:
    """Write a file that `check_output` has accepted, completely or not at all."""
    if str(path) == "/dev/stdout" and isinstance(text, str):
        sys.stdout.write(printable_json(text) if text.startswith(("{", "[")) else text)
    elif str(path) not in _PLAIN:
        write_atomic(path, text)
