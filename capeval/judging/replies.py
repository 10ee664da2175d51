"""Finds the JSON in a model's reply: strict first, then what models really write.

Understood besides strict JSON: code fences, prose around the answer, thinking text before it, and
Python's way of writing lists (single quotes, tuples, None, trailing commas). Nothing is invented:
a reply that was cut off holds no complete value and is refused.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, TypeVar

from capeval.errors import ReplyError

__all__ = ["candidates", "read_reply"]

T = TypeVar("T")

_THINKING = re.compile(r"^\s*<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_THOUGHT_END = re.compile(r"</(?:think|thinking|reasoning)>", re.IGNORECASE)
_FENCE = re.compile(r"```[A-Za-z]*[ \t]*\r?\n?(.*?)```", re.DOTALL)
_NAMES: dict[str, Any] = {"null": None, "true": True, "false": False, "NULL": None}
_MAX_CANDIDATES = 16
_MAX_LITERAL = 200_000
_MAX_DEPTH = 40


def read_reply(text: str, read: Callable[[Any, list[str]], T]) -> tuple[T, list[str]]:
    """Return what `read` makes of the one value in a reply that keeps the contract, and its notes.

    A draft and its correction both keep it: then nobody knows which was meant, and the model is
    asked again.

    Parameters
    ----------
    text : the model's reply
    read : checks one value against the contract and notes what it repaired

    Raises
    ------
    ReplyError
        There is no complete JSON value, none that keeps the contract, or two that differ.
    """
    complaint: ReplyError | None = None
    kept: list[tuple[T, list[str]]] = []
    for value in islice(candidates(text), _MAX_CANDIDATES):
        notes: list[str] = []
        try:
            result = read(value, notes)
        except ReplyError as fault:
            complaint = complaint or fault
            continue
        if kept and kept[0][0] != result:
            raise ReplyError("the reply holds two different answers; give one")
        kept.append((result, notes))
    if kept:
        return kept[0]
    if complaint:
        raise complaint
    if not text.strip():
        raise ReplyError("the reply is empty")
    raise ReplyError("the reply holds no complete JSON value")


def candidates(text: str) -> Iterator[Any]:
    """Yield the values (lists and objects) that a reply may mean, the likeliest first."""
    text = text.lstrip("\ufeff").strip()
    whole = _value(text)
    if whole is not _NOTHING:
        yield whole
        return
    answer = _THINKING.sub("", text)
    if answer == text:
        # Chat templates often open the thinking themselves, so only its end is in the reply.
        answer = _THOUGHT_END.split(text)[-1]
    for block in reversed(_FENCE.findall(answer)):
        value = _value(block.strip())
        if value is not _NOTHING:
            yield value
    for piece in reversed(_balanced(answer)):
        value = _value(piece)
        if value is not _NOTHING:
            yield value


class _Nothing:
    pass


_NOTHING = _Nothing()


def _value(text: str) -> Any:
    if text[:1] not in ("[", "{"):
        return _NOTHING
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return _literal(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # The same key twice is two answers to one question.
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ReplyError("an object of the reply has the same key twice")
    return result


def _literal(text: str) -> Any:
    if len(text) > _MAX_LITERAL:
        return _NOTHING
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _convert(ast.parse(text, mode="eval").body, _MAX_DEPTH)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _NOTHING


def _convert(node: ast.expr, depth: int) -> Any:
    if depth == 0:
        raise ValueError("nested too deeply")
    match node:
        case ast.Constant(value=str() | int() | float() | None as value):
            return value
        case ast.Name(id=name) if name in _NAMES:
            return _NAMES[name]
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_convert(item, depth - 1) for item in items]
        case ast.Dict(keys=keys, values=values):
            pairs = [
                (_convert(key, depth - 1), _convert(value, depth - 1))
                for key, value in zip(keys, values, strict=True)
                if key is not None
            ]
            if len(pairs) != len(keys) or any(isinstance(key, list | dict) for key, _ in pairs):
                raise ValueError("not a plain object")
            return _unique([(str(key), value) for key, value in pairs])
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)):
            return -number
        case _:
            raise ValueError("not a plain value")


_BRACKET = re.compile(r"[\[\]{}\"]")
_CLOSES = {"]": "[", "}": "{"}


def _balanced(text: str) -> list[str]:
    """Return the outermost bracketed stretches, brackets inside double-quoted strings passed by."""
    pieces: list[str] = []
    stack: list[str] = []
    start = at = 0
    while (found := _BRACKET.search(text, at)) is not None:
        at = found.end()
        mark = found.group()
        if mark == '"':
            if stack:
                at = _end_of_string(text, at)
        elif mark in "[{":
            if not stack:
                start = found.start()
            stack.append(mark)
        elif stack and stack[-1] == _CLOSES[mark]:
            stack.pop()
            if not stack:
                pieces.append(text[start:at])
        elif stack:
            stack.clear()
    return pieces


_STRING_REST = re.compile(r'(?:[^"\\]|\\.)*+"', re.DOTALL)


def _end_of_string(text: str, at: int) -> int:
    rest = _STRING_REST.match(text, at)
    return rest.end() if rest else len(text)
