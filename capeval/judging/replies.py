"""Finds the JSON in a model's reply: strict first, then what models really write.

Understood besides strict JSON: code fences, prose around the answer, thinking text before it, and
Python's way of writing lists (single quotes, tuples, None, trailing commas). Each of these is
noted. Nothing is invented: a reply that was cut off holds no complete value and is refused. So is
one that goes on in a way that may take its answer back, and one whose answer stands word for word
in the material that was judged: a model that quotes a caption has not answered.
"""

from __future__ import annotations

import ast
import json
import re
import tokenize
import warnings
from collections.abc import Callable, Iterator, Sequence
from io import StringIO
from itertools import islice
from typing import Any, TypeVar

from capeval.errors import ReplyError

T = TypeVar("T")

_THOUGHT = re.compile(r"^\s*<(?:think|thinking|reasoning)>", re.IGNORECASE)
_THOUGHT_END = re.compile(r"</(?:think|thinking|reasoning)>", re.IGNORECASE)
_FENCE = re.compile(r"```[A-Za-z]*+[ \t]*+\r?\n?(.*?)```", re.DOTALL)
# A courtesy after the answer is passed over; anything that may take it back is not.
_TAKES_BACK = re.compile(
    r"\b(?:but|however|actually|although|except|instead|rather|correct\w*|refus\w*|decline\w*"
    r"|cannot|unable|sorry|wrong|mistake\w*|not|never|ignor\w*|wait|quot\w*|fals\w*|should)\b"
    r"|n['’]t\b|entail|lack|contradict|\d",
    re.IGNORECASE,
)
_SPACE = re.compile(r"\s+")
_NAMES: dict[str, Any] = {"null": None, "true": True, "false": False, "NULL": None}
_MAX_CANDIDATES = 16
_MAX_LITERAL = 200_000
_MAX_REPLY = 2_000_000
_MAX_DEPTH = 40


def read_reply(
    text: str, read: Callable[[Any, list[str]], T], stage: str, material: Sequence[str] = ()
) -> tuple[T, list[str]]:
    """Return what `read` makes of the one value in a reply that keeps the contract, and its notes.

    Where a draft and its correction both keep it nobody knows which was meant; and a draft does
    not stand in for a correction that breaks it. Then the model is asked again.

    Parameters
    ----------
    text : the model's reply
    read : checks one value against the contract and notes what it repaired
    stage : what the notes begin with
    material : the texts that were judged

    Raises
    ------
    ReplyError
        There is no complete JSON value, none that keeps the contract, two that differ, or one
        that is quoted from the material.
    """
    if len(text) > _MAX_REPLY:
        raise ReplyError(f"the reply is far too long ({len(text):,} characters)")
    complaint: ReplyError | None = None
    broken: list[Any] = []
    kept: list[tuple[T, list[str]]] = []
    for value, form, source in islice(candidates(text), _MAX_CANDIDATES):
        notes = [f"{stage}: the answer was {form}"] if form else []
        try:
            result = read(value, notes)
            if _stands_in(source, material):
                raise ReplyError("the reply only quotes what it was given; answer yourself")
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


def _stands_in(source: str, material: Sequence[str]) -> bool:
    quoted = _SPACE.sub("", source)
    return any(quoted in _SPACE.sub("", text) for text in material if "{" in text or "[" in text)


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys()
    if isinstance(one, list) and isinstance(other, list):
        return {type(item) for item in one} == {type(item) for item in other}
    return False


def candidates(text: str) -> Iterator[tuple[Any, str, str]]:
    """Yield the values (lists and objects) that a reply may mean, the likeliest first.

    With each comes a note of how it departs from strict JSON alone, empty where it does not, and
    the text that it was read from.
    """
    text = text.lstrip("\ufeff").strip()
    for whole, form in _values(text):
        yield whole, form, text
        return
    # Chat templates often open the thinking themselves, so only its end is in the reply; and a
    # thought that quotes such an end is not over there.
    answer = _THOUGHT_END.split(text)[-1]
    if _THOUGHT.match(answer):
        # Thinking that never ended: what stands in it are drafts.
        return
    blocks = [block.strip() for block in reversed(_FENCE.findall(answer))]
    pieces, rest = _balanced(answer)
    if _BEGUN.match(rest):
        raise ReplyError("the reply ends in the middle of an answer")
    for piece in (*blocks, *reversed(pieces)):
        for value, form in _values(piece):
            after = answer[answer.rindex(piece) + len(piece) :]
            if _TAKES_BACK.search(after) and not any(True for _ in _later(after)):
                raise ReplyError("text follows the answer; end the reply with the JSON")
            yield value, f"taken out of the text around it{form and ' and was '}{form}", piece


def _later(text: str) -> Iterator[Any]:
    """Yield the values further down: then this one is a draft, told apart by `read_reply`."""
    for piece in _balanced(text)[0]:
        yield from _values(piece)


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
