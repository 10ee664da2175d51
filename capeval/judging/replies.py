"""Finds the JSON in a model's reply: strict first, then what models really write.

Understood besides strict JSON: code fences, prose around the answer, thinking text before it, and
Python's way of writing lists (single quotes, tuples, None, trailing commas). Each of these is
noted. Nothing is invented: a reply that was cut off holds no complete value and is refused.
"""

from __future__ import annotations

import ast
import json
import re
import tokenize
import warnings
from collections.abc import Callable, Iterator
from io import StringIO
from itertools import islice
from typing import Any, TypeVar

from capeval.errors import ReplyError

__all__ = ["candidates", "read_reply"]

T = TypeVar("T")

_THINKING = re.compile(r"^(?:\s*<(think|thinking|reasoning)>.*?</\1>)+", re.DOTALL | re.IGNORECASE)
_THOUGHT = re.compile(r"^\s*<(?:think|thinking|reasoning)>", re.IGNORECASE)
_THOUGHT_END = re.compile(r"</(?:think|thinking|reasoning)>", re.IGNORECASE)
_FENCE = re.compile(r"```[A-Za-z]*[ \t]*\r?\n?(.*?)```", re.DOTALL)
_NAMES: dict[str, Any] = {"null": None, "true": True, "false": False, "NULL": None}
_MAX_CANDIDATES = 16
_MAX_LITERAL = 200_000
_MAX_DEPTH = 40


def read_reply(text: str, read: Callable[[Any, list[str]], T], stage: str) -> tuple[T, list[str]]:
    """Return what `read` makes of the one value in a reply that keeps the contract, and its notes.

    Where a draft and its correction both keep it nobody knows which was meant; and a draft does
    not stand in for a correction that breaks it. Then the model is asked again.

    Parameters
    ----------
    text : the model's reply
    read : checks one value against the contract and notes what it repaired
    stage : what the notes begin with

    Raises
    ------
    ReplyError
        There is no complete JSON value, none that keeps the contract, or two that differ.
    """
    complaint: ReplyError | None = None
    broken: list[Any] = []
    kept: list[tuple[T, list[str]]] = []
    for value, form in islice(candidates(text), _MAX_CANDIDATES):
        notes = [f"{stage}: {form}"] if form else []
        try:
            result = read(value, notes)
        except ReplyError as fault:
            complaint = complaint or fault
            broken += [] if kept else [value]
            continue
        # The last answer of a reply comes first.
        if complaint and not kept and any(_alike(value, other) for other in broken):
            raise complaint
        if kept and kept[0][0] != result:
            raise ReplyError("the reply holds two different answers; give one")
        # A runaway reply says the same a thousand times.
        kept.append((result, list(dict.fromkeys(notes))))
    if kept:
        return kept[0]
    if complaint:
        raise complaint
    if not text.strip():
        raise ReplyError("the reply is empty")
    raise ReplyError("the reply holds no complete JSON value")


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys()
    if isinstance(one, list) and isinstance(other, list):
        return {type(item) for item in one} == {type(item) for item in other}
    return False


def candidates(text: str) -> Iterator[tuple[Any, str]]:
    """Yield the values (lists and objects) that a reply may mean, the likeliest first.

    With each comes a note of how it departs from strict JSON alone, empty where it does not.
    """
    text = text.lstrip("\ufeff").strip()
    for whole, form in _values(text):
        yield whole, form
        return
    answer = _THINKING.sub("", text)
    if answer == text:
        # Chat templates often open the thinking themselves, so only its end is in the reply.
        answer = _THOUGHT_END.split(text)[-1]
    if _THOUGHT.match(answer):
        # Thinking that never ended: what stands in it are drafts.
        return
    blocks = (block.strip() for block in reversed(_FENCE.findall(answer)))
    pieces, rest = _balanced(answer)
    if _BEGUN.match(rest):
        raise ReplyError("the reply ends in the middle of an answer")
    for piece in (*blocks, *reversed(pieces)):
        for value, form in _values(piece):
            yield value, f"taken out of the text around it{form and ', '}{form}"


def _values(text: str) -> Iterator[tuple[Any, str]]:
    if text[:1] in ("[", "{"):
        try:
            yield json.loads(text, object_pairs_hook=_unique), ""
        except (ValueError, RecursionError):
            yield from _literals(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # The same key twice is two answers to one question.
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ReplyError("an object of the reply has the same key twice")
    return result


def _literals(text: str) -> Iterator[tuple[Any, str]]:
    if len(text) > _MAX_LITERAL:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = _convert(ast.parse(text, mode="eval").body, _MAX_DEPTH)
        if _joins_strings(text):
            return
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return
    yield value, "not strict JSON"


def _joins_strings(text: str) -> bool:
    # Python reads "a" "b" as one string; the model has left out a comma, or more.
    before = None
    for token in tokenize.generate_tokens(StringIO(text).readline):
        if token.type == before == tokenize.STRING:
            return True
        if token.type != tokenize.NL:
            before = token.type
    return False


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
_BEGUN = re.compile(r"""[\[{]\s*["'\[{(]""")


def _balanced(text: str) -> tuple[list[str], str]:
    """Return the outermost bracketed stretches, and what is open at the end of the text.

    Brackets inside double-quoted strings are passed by.
    """
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
    return pieces, text[start:] if stack else ""


_STRING_REST = re.compile(r'(?:[^"\\]|\\.)*+"', re.DOTALL)


def _end_of_string(text: str, at: int) -> int:
    rest = _STRING_REST.match(text, at)
    return rest.end() if rest else len(text)
