"""Escape names that a spreadsheet would run as a formula (OWASP: CSV injection)."""

from __future__ import annotations

import re

_FORMULA = r"\s*[=+\-@＝＋－＠|%]"
_ESCAPED = re.compile(rf"'+{_FORMULA}")
_LIVE = re.compile(rf"'*{_FORMULA}")


def escape(text: str) -> str:
    """Return the text with an apostrophe before it if a spreadsheet would read it as a formula.

    >>> escape("=1+1"), escape("a=1"), escape("'=1")
    ("'=1+1", 'a=1', "''=1")
    """
    return f"'{text}" if _LIVE.match(text) else text


def unescape(text: str) -> str:
    """Return the text that `escape` was given.

    >>> unescape("'=1+1"), unescape("'tis"), unescape("''=1")
    ('=1+1', "'tis", "'=1")
    """
    return text[1:] if _ESCAPED.match(text) else text
