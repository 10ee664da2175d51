"""Text of messages: shortened, escaped, in complete sentences."""

from __future__ import annotations

import json
import re
import traceback
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError


class Loss(str):
    """A notice about money or lost work: `-q` prints it too, and hides all other notices."""

    __slots__ = ()


def one_line(text: str, limit: int = 300) -> str:
    r"""Return `text` on one line, control characters shown as escapes, cut at `limit` characters.

    >>> one_line("two\nlines\x00")
    'two lines\\x00'
    """
    # A text can be a megabyte long: only the part that can be shown is processed.
    flat = " ".join(text[: 4 * limit].split())
    escaped = (c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in flat)
    return cut("".join(escaped), limit)


def normal_form(text: str) -> str:
    """Return the compatibility form of a text (NFKC)."""
    return unicodedata.normalize("NFKC", text)


def describe(error: BaseException, limit: int = 200) -> str:
    r"""Return an exception as `TYPE: message`; for a group, the first.

    >>> describe(OSError("no\nweights"))
    'OSError: no weights'
    """
    error = _first(error)
    message = one_line(str(error), limit)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def described(error: BaseException) -> str:
    """Return an exception as `describe` does, with the file and the line that raised it."""
    frames = traceback.extract_tb(_first(error).__traceback__)
    at = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return describe(error) + at


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def both_ends(text: str, limit: int) -> str:
    """Return `text` on one line; longer text keeps its beginning and its end.

    Names of runs and checkpoints often differ only at the end.

    >>> both_ends("a-model-with-a-long-name-step-2000", 20)
    'a-model-wi…step-2000'
    """
    flat = one_line(text, 2000)
    if len(flat) <= limit:
        return flat
    head = limit // 2
    return f"{flat[:head]}…{flat[len(flat) - (limit - head - 1) :]}"


def shown(value: Any) -> str:
    """Return a short JSON-like rendering of a value from a file."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return cut(text)


def cut(text: str, limit: int = 60) -> str:
    """Return text cut at `limit` characters.

    >>> cut("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= limit else text[: limit - 1] + "…"


def listed(things: Iterable[object], limit: int = 5) -> str:
    """Return the names of the first few things, and how many more there are.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    names = list(map(str, things))
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def distinct(names: Sequence[str], *others: Sequence[str]) -> list[str]:
    """Return names, with shared ones from the first of `others` that makes all distinct.

    >>> distinct(["a", "a", "b"], ["a/x", "a/y", "b/x"])
    ['a/x', 'a/y', 'b']
    """
    count = Counter(names)
    for other in others:
        found = [own if count[name] > 1 else name for name, own in zip(names, other, strict=True)]
        if len({*found}) == len(found):
            return found
    return [*names]


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun.

    >>> counted(1, "video"), counted(1000, "video"), counted(2, "reply")
    ('1 video', '1,000 videos', '2 replies')
    """
    if not plural:
        plural = f"{noun[:-1]}ies" if noun.endswith("ly") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def nearest(value: Any, valid: Sequence[str]) -> str:
    """Return `; did you mean X?` if one of `valid` is similar, else an empty string.

    >>> nearest("cammera", ["camera", "scene"])
    '; did you mean "camera"?'
    """
    names = {name.casefold(): name for name in valid}
    # Three of four characters agree: one slip in the shortest names, and two that are swapped.
    found = get_close_matches(str(value).casefold(), names, n=1, cutoff=0.75)
    return f'; did you mean "{names[found[0]]}"?' if found else ""


# One plain sentence for each kind of pydantic's errors; users never see its own.
_SENTENCES = {
    "missing": "is missing",
    "missing_argument": "is missing",
    "extra_forbidden": "is not a known field",
    "unexpected_keyword_argument": "is not a known field",
    "literal_error": "must be {expected}",
    "union_tag_invalid": "must be {expected_tags}",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "finite_number": "must be a finite number",
    "string_pattern_mismatch": "is blank",
    "string_too_short": "is empty",
    "too_short": "needs at least {min_length}, and has {actual_length}",
    "too_long": "takes at most {max_length}, and has {actual_length}",
    "value_error": "{error}",
}
# Errors of type are named after the type, such as int_parsing and int_from_float.
_TYPES = {
    "string": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "none": "null",
    **dict.fromkeys(("list", "tuple", "set"), "a list"),
    **dict.fromkeys(("dict", "mapping", "model", "dataclass"), "a JSON object"),
}


def complaint(faults: ValidationError) -> tuple[str, str]:
    """Return the dotted field (list positions from 1) and the message of the first error."""
    place, message = complaints(faults)[0]
    return ".".join(str(p + 1) if isinstance(p, int) else str(p) for p in place), message


def complaints(faults: ValidationError) -> list[tuple[tuple[int | str, ...], str]]:
    """Return the place (list positions from 0) and the message of each error of validation."""
    found = []
    for fault in faults.errors(include_url=False):
        kind, given, limits = fault["type"], fault["input"], fault.get("ctx", {})
        limits |= {name: f"{of:g}" for name, of in limits.items() if isinstance(of, float)}
        if kind == "too_short" and len(given) >= limits["min_length"]:
            continue  # its items are wrong, and have errors of their own
        of = _TYPES.get(kind.partition("_")[0])
        message = _SENTENCES.get(kind, f"must be {of}" if of else "is not valid").format(**limits)
        if message.startswith("must") and isinstance(given, str | int | float | None):
            message += f", not {shown(given)}"
        if kind == "literal_error":
            message += nearest(given, re.findall("'(.*?)'", limits["expected"]))
        found.append((fault["loc"], message))
    return found


def storable(text: str) -> str:
    """Return text that can be sent and stored as UTF-8: unpaired surrogates become U+FFFD.

    >>> storable("a\\ud800b")
    'a\ufffdb'
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def filled(text: str, values: Mapping[str, str]) -> str:
    """Fill a template in one pass: inserted text is never searched for placeholders.

    >>> filled("{a} and {b}, {other}", {"a": "{b}", "b": "2"})
    '{b} and 2, {other}'
    """
    names = "|".join(map(re.escape, values))
    return re.sub(rf"\{{({names})\}}", lambda hole: values[hole[1]], text)


def tag_free_json(value: Any) -> str:
    r"""Return JSON without < and >, so that nothing in it can close a tag or end a chat turn.

    >>> tag_free_json('</caption> "quoted"')
    '"\\u003c/caption\\u003e \\"quoted\\""'
    """
    text = storable(json.dumps(value, ensure_ascii=False))
    return text.replace("<", "\\u003c").replace(">", "\\u003e")
