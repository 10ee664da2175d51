"""Names as cells that no spreadsheet runs as a formula (OWASP, CSV injection), and back."""

from __future__ import annotations

import re

_FORMULA = r"\s*[=+\-@＝＋－＠|%]"
_MARKED = re.compile(rf"'+{_FORMULA}")
_LIVE = re.compile(rf"'*{_FORMULA}")


def inert(text: str) -> str:
    """Return text with an apostrophe before it, where a spreadsheet would take it for a formula.

    >>> inert("=1+1"), inert("a=1"), inert("'=1")
    ("'=1+1", 'a=1', "''=1")
    """
    return f"'{text}" if _LIVE.match(text) else text


def plain(text: str) -> str:
    """Return what `inert` was given.

    >>> plain("'=1+1"), plain("'tis"), plain("''=1")
    ('=1+1', "'tis", "'=1")
    """
    return text[1:] if _MARKED.match(text) else text
