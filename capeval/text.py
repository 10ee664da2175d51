"""Small helpers for the text of messages."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any


def one_line(text: str, limit: int = 300) -> str:
    r"""Return `text` on one line, control characters shown as escapes, cut at `limit` characters.

    >>> one_line("two\nlines\x00")
    'two lines\\x00'
    """
    # A text can be a megabyte long: only the part that can be shown is processed.
    flat = " ".join(text[: 4 * limit].split())
    shown = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in flat
    )
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def describe(error: BaseException, limit: int = 200) -> str:
    """Return an exception of unknown code as `TYPE: message`, whatever its own methods do.

    Of a group, the first exception is described and the others are counted.

    >>> describe(OSError("no\nweights"))
    'OSError: no weights'
    >>> describe(ExceptionGroup("both", [OSError("no weights"), ValueError()]))
    'OSError: no weights (and 1 more)'
    """
    first, others = _first(error)
    more = f" (and {others} more)" if others else ""
    name, message = "an exception", ""
    try:
        name = type(first).__name__
        # A subclass of str could have methods that raise.
        message = str.__str__(str(first))
    except BaseException:  # even SystemExit
        message = "its message cannot be shown"
    return one_line(f"{name}: {message}" if message else name, limit) + more


def raised_at(error: BaseException) -> str:
    """Return ` (FILE, line N)`: the place that raised an exception, or nothing if it is unknown."""
    frames = traceback.extract_tb(_first(error)[0].__traceback__)
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""


def _first(error: BaseException) -> tuple[BaseException, int]:
    others = 0
    while isinstance(error, BaseExceptionGroup):
        # The attribute as the class defines it: a subclass could have replaced it.
        inner = BaseExceptionGroup.exceptions.__get__(error)
        others += len(inner) - 1
        error = inner[0]
    return error, others


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
    except Exception:  # a mapping of a plugin may raise anything
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


def either(names: Sequence[str]) -> str:
    """Return alternatives as a sentence names them.

    >>> either(["a", "b", "c"]), either(["a"])
    ('a, b or c', 'a')
    """
    return " or ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def nearest(value: Any, valid: Sequence[str]) -> str:
    """Return `; did you mean X?` if one of `valid` is similar, else an empty string.

    >>> nearest("cammera", ["camera", "scene"])
    '; did you mean "camera"?'
    """
    if not isinstance(value, str):
        return ""
    # Comparison is quadratic in length, and no valid name is longer than 100 characters.
    near = get_close_matches(value[:100].lower(), [name.lower() for name in valid], n=1, cutoff=0.5)
    original = {name.lower(): name for name in valid}
    return f'; did you mean "{original[near[0]]}"?' if near else ""
