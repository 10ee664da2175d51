"""Parse a list that arrives as text, as tables store lists; nothing is evaluated.

Three notations are read: JSON, Python's, and numpy's, which separates items by blanks alone. In
Python, adjacent strings are one string, so evaluating what numpy printed would fuse the items.
"""

from __future__ import annotations

import ast
import json
import re

from capeval.text import cut

_ITEM = re.compile(
    r"""'(?:[^'\\\r\n]|\\.)*+'|"(?:[^"\\\r\n]|\\.)*+"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?=[\s,]|\Z)"""
)
_SEPARATOR = re.compile(r"\s*,\s*|\s+|\Z")


def parse_list(text: str) -> list[str]:
    r"""Return the items of a list of strings and numbers; numbers as they are written.

    ValueError says what is wrong.

    >>> parse_list("['left', \"it's right\", 2.50]")
    ['left', "it's right", '2.50']
    >>> parse_list("['left' 'right'\n 'up']")
    ['left', 'right', 'up']
    """
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        raise ValueError('is not a list; write it like ["left", "right"]')
    try:
        items = json.loads(text, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        return _of_printed(text[1:-1].strip())
    # Other items, such as true or a list, are refused with their place.
    return (
        items if all(isinstance(item, str) for item in items) else _of_printed(text[1:-1].strip())
    )


def _of_printed(text: str) -> list[str]:
    items: list[str] = []
    has_comma: bool | None = None
    at = 0
    while at < len(text):
        found = _ITEM.match(text, at)
        separator = _SEPARATOR.match(text, found.end()) if found else None
        if found is None or separator is None:
            what = "no comma between two items" if found else "neither a quoted text nor a number"
            raise ValueError(f"has {what}, at {cut(text[found.end() if found else at :], 30)}")
        items.append(_unquoted(found[0]))
        at = separator.end()
        if at < len(text):
            if has_comma not in (None, "," in separator[0]):
                near = cut(text[found.end() :].lstrip(), 30)
                raise ValueError(f"has commas between some of its items only: not at {near}")
            has_comma = "," in separator[0]
    return items


def _unquoted(item: str) -> str:
    if item[0] not in "'\"":
        return item
    try:
        # A single string in quotes: there is nothing to evaluate but its escapes.
        return str(ast.literal_eval(item))
    except (ValueError, SyntaxError):
        raise ValueError(f"has a broken escape in {cut(item, 30)}") from None
