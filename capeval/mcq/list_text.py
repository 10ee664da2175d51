"""Parse a list that arrives as text, as tables store lists; nothing is evaluated.

Three notations are read: JSON, Python's, and numpy's, which separates items by blanks alone. In
Python, adjacent strings are one string, so evaluating what numpy printed would fuse the items.
"""

from __future__ import annotations

import ast
import json
import re

_ITEM = r"""(?:'(?:[^'\\\r\n]|\\.)*+'|"(?:[^"\\\r\n]|\\.)*+"|-?(?:0|[1-9]\d*)(?:\.\d+)?)"""
_LISTS = [
    re.compile(rf"\[\s*(?:{_ITEM}(?:{separator}{_ITEM})*+\s*,?\s*)?\]")
    for separator in (r"\s*,\s*", r"\s+")
]


def parse_list(text: str) -> list[str]:
    r"""Return the items of a list of strings and numbers; numbers as they are written.

    ValueError says what is wrong.

    >>> parse_list("['left', \"it's right\", 2.50]")
    ['left', "it's right", '2.50']
    >>> parse_list("['left' 'right'\n 'up']")
    ['left', 'right', 'up']
    """
    text = text.strip()
    try:
        items = json.loads(text, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        items = None
    if isinstance(items, list) and all(isinstance(item, str) for item in items):
        return items
    if not any(written.fullmatch(text) for written in _LISTS):
        raise ValueError(
            "is not a list of texts in quotes, with commas between all of them; "
            'write it like ["left", "right"]'
        )
    return [_unquoted(item) for item in re.findall(_ITEM, text)]


def _unquoted(item: str) -> str:
    if item[0] not in "'\"":
        return item
    try:
        # A single string in quotes: there is nothing to evaluate but its escapes.
        return str(ast.literal_eval(item))
    except (ValueError, SyntaxError):
        raise ValueError(f"has a broken escape in {item}") from None
