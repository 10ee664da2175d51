"""Read one value in a text: JSON, or what Python prints for the same lists and objects."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn

from capeval.errors import ReplyError

# Python's notation is read token by token, in 0.1 s; a judge writes a tenth of this.
_MAX_LITERAL = 40_000
# An answer nests four levels deep; the limit keeps recursion safe.
_MAX_DEPTH = 40

_TOKEN = re.compile(
    r"""[ \t\r\n]*+(?:
        (?P<mark>[\[\](){},:])
      | (?P<text>"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')
      | (?P<number>-?(?:0|[1-9][0-9]{0,17})(?P<fraction>\.[0-9]{1,17})?)(?![\w.])
      | (?P<name>[A-Za-z]++)(?!\w)
    )""",
    re.VERBOSE,
)
_NAMES: Final[dict[str, Any]] = {"null": None, "None": None, "NULL": None} | {
    "true": True, "True": True, "false": False, "False": False,
}  # fmt: skip
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"} | {c: c for c in "\\\"'/"}


class BrokenValue(Exception):
    """There is no value here; `is_cut` says that it begins and the text ends before it does."""

    def __init__(self, *, is_cut: bool = False) -> None:
        super().__init__()
        self.is_cut = is_cut


def read_value(text: str, start: int) -> tuple[Any, int, bool]:
    """Return the value at a place in a text, where it ends, and whether it is strict JSON.

    Strict JSON is tried first. Raises `BrokenValue`, and `ReplyError` for a key given twice.
    """
    is_cut = False
    try:
        value, end = _JSON.raw_decode(text, start)
    except json.JSONDecodeError as fault:
        is_cut = fault.pos >= len(text) or fault.msg.startswith("Unterminated")
    except (ValueError, RecursionError):
        pass  # a number of thousands of digits, or nested deeper than any answer
    else:
        return value, end, True
    literal = _Literal(text[: start + _MAX_LITERAL], start)
    try:
        return literal.value(_MAX_DEPTH), literal.at, False
    except BrokenValue as fault:
        raise BrokenValue(
            is_cut=is_cut or (fault.is_cut and len(literal.text) == len(text))
        ) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # A duplicated key means two answers to one question.
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ReplyError("an object of the reply has the same key twice")
    return result


_JSON = json.JSONDecoder(object_pairs_hook=_unique)


class _Literal:
    """A value in Python's notation; tuples are lists. Comments and expressions are not values."""

    def __init__(self, text: str, at: int) -> None:
        self.text, self.at = text, at

    def value(self, depth: int) -> Any:
        token = _TOKEN.match(self.text, self.at)
        if token is None or depth == 0:
            self._break()
        self.at = token.end()
        match token.lastgroup:
            case "text":
                return _unquoted(token["text"])
            case "number":
                return (float if token["fraction"] else int)(token["number"])
            case "name" if token["name"] in _NAMES:
                return _NAMES[token["name"]]
        if token["mark"] == "{":
            return _unique(self._items("}", lambda: self._pair(depth - 1)))
        if token["mark"] not in ("[", "("):
            self.at = token.start()
            self._break()
        return self._items("]" if token["mark"] == "[" else ")", lambda: self.value(depth - 1))

    def _items(self, close: str, read: Callable[[], Any]) -> list[Any]:
        items = []
        while not self._skip(close):
            items.append(read())
            if not self._skip(","):
                self._expect(close)
                break
        return items

    def _pair(self, depth: int) -> tuple[str, Any]:
        key = self.value(depth)
        self._expect(":")
        return (key if isinstance(key, str) else self._break()), self.value(depth)

    def _skip(self, mark: str) -> bool:
        token = _TOKEN.match(self.text, self.at)
        if token is None or token["mark"] != mark:
            return False
        self.at = token.end()
        return True

    def _expect(self, mark: str) -> None:
        if not self._skip(mark):
            self._break()

    def _break(self) -> NoReturn:
        rest = self.text[self.at :].lstrip()
        # A string that is never closed runs to the end of its line and of the text.
        is_open = rest[:1] in ("'", '"') and "\n" not in rest and not _TOKEN.match(rest)
        raise BrokenValue(is_cut=not rest or is_open)


def _unquoted(quoted: str) -> str:
    inner = quoted[1:-1]
    return _ESCAPE.sub(_character, inner) if "\\" in inner else inner


def _character(escape: re.Match[str]) -> str:
    code, byte, letter = escape.groups()
    if letter is not None and letter not in _ESCAPED:
        raise BrokenValue
    return _ESCAPED[letter] if letter is not None else chr(int(code or byte, 16))
