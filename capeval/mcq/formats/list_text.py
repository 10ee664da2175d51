"""Parse a list that arrives as text, as tables store lists; nothing is evaluated.

Three notations are read: JSON, Python's, and numpy's, which separates items by blanks alone. In
Python, adjacent strings are one string, so evaluating what numpy printed would fuse the items.
"""

from __future__ import annotations

import json
import re

from capeval.text import cut

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?=[\s,\]])")
_QUOTED = re.compile(r"""'((?:[^'\\\r\n]|\\.)*+)'|"((?:[^"\\\r\n]|\\.)*+)\"""")
_BLANKS = re.compile(r"\s*")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_MEANINGS = {
    "\\": "\\",
    "'": "'",
    '"': '"',
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}


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
    items = _of_json(text)
    if items is None:
        items = _of_printed(text)
    if any(_SURROGATE.search(item) for item in items):
        raise ValueError("has an unpaired surrogate")
    return items


def _of_json(text: str) -> list[str] | None:
    try:
        items = json.loads(text, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        return None
    # Other items, such as true or a list, are refused below, where their place is known.
    return items if all(isinstance(item, str) for item in items) else None


def _of_printed(text: str) -> list[str]:
    items: list[str] = []
    separators: set[str] = set()
    at = _after_blanks(text, 1)
    if text[at] == "]" and at == len(text) - 1:
        return items
    while True:
        item, at = _item(text, at)
        items.append(item)
        end = _after_blanks(text, at)
        if text[end : end + 1] == "]":
            break
        if text[end : end + 1] == ",":
            separators.add("comma")
            at = _after_blanks(text, end + 1)
        elif end > at:
            separators.add("blank")
            at = end
        else:
            raise ValueError(f"has no comma between two items, at {_near(text, at)}")
        if len(separators) > 1:
            raise ValueError(f"has commas between some of its items only: not at {_near(text, at)}")
    if end != len(text) - 1:
        raise ValueError(f"goes on after the list: {_near(text, end + 1)}")
    return items


def _item(text: str, at: int) -> tuple[str, int]:
    if found := _QUOTED.match(text, at):
        raw = found[1] if found[1] is not None else found[2]
        return _ESCAPE.sub(_meaning, raw), found.end()
    if found := _NUMBER.match(text, at):
        return found[0], found.end()
    raise ValueError(f"has an item that is neither a quoted text nor a number: {_near(text, at)}")


def _meaning(escape: re.Match[str]) -> str:
    code = escape[1]
    if len(code) > 1:
        number = int(code[1:], 16)
        if number > 0x10FFFF:
            raise ValueError(f"has an escape that is no character: \\{code}")
        return chr(number)
    if code not in _MEANINGS:
        raise ValueError(f"has an unknown escape: \\{code}")
    return _MEANINGS[code]


def _after_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found else at


def _near(text: str, at: int) -> str:
    return cut(text[at:].lstrip(), 30) or "its end"
