"""Small helpers for the text of messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any


class Loss(str):
    """A notice about money or lost work: `-q` prints it too, and hides all other notices.

    It is used where the reply cache cannot be read or written, or loses replies; where a request
    parameter is left off, which makes it another measurement; where stored verdicts or captions
    will be paid for once more; and where the cost that is shown is an estimate. What stays
    unscored or ungenerated, and a cost cap that was reached, are printed as results.
    """

    __slots__ = ()


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


def listed(names: Sequence[str], limit: int = 5) -> str:
    """Return the first few names, and how many more there are.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


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
