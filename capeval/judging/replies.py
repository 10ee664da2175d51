"""Find the JSON in a model's reply: strict JSON first, then the forms that models really write.

Besides strict JSON, this reads code fences, prose around the answer, thinking text before it, and
Python literals (single quotes, tuples, None, trailing commas). Each of these is noted. Nothing is
invented: a reply that was cut off has no complete value and is refused. So is a reply that goes on
in a way that may retract its answer, and one whose answer is copied word for word from the judged
text: a model that quotes a caption has not answered.
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
# A courtesy after the answer is ignored; words that may retract it make the reply ambiguous.
_RETRACTS = re.compile(
    r"\b(?:but|however|actually|although|except|instead|rather|correct\w*|refus\w*|decline\w*"
    r"|cannot|unable|sorry|wrong|mistake\w*|not|never|ignor\w*|wait|quot\w*|fals\w*|should)\b"
    r"|n['’]t\b|entail|lack|contradict|\d",
    re.IGNORECASE,
)
_SPACE = re.compile(r"\s+")
_NAMES: dict[str, Any] = {"null": None, "true": True, "false": False, "NULL": None}
# Limits on hostile replies. With drafts and quotes, a reply rarely has more than three values.
_MAX_CANDIDATES = 16
# Python's parser takes seconds for megabytes; strict JSON has no such limit.
_MAX_LITERAL = 200_000
# Characters: far more than the token limit of any request lets a model write.
_MAX_REPLY = 2_000_000
# An answer nests four levels deep; the limit keeps recursion safe.
_MAX_DEPTH = 40


def read_reply(
    text: str, read: Callable[[Any, list[str]], T], stage: str, material: Sequence[str] = ()
) -> tuple[T, list[str]]:
    """Return what `read` makes of the one value in a reply that meets the contract, and the notes.

    The notes begin with `stage`; `material` are the judged texts, from which an answer must not be
    quoted. If a draft and its correction both meet the contract, it is unclear which one is meant;
    and a draft does not replace a correction that breaks the contract. Both raise `ReplyError`.
    """
    if len(text) > _MAX_REPLY:
        raise ReplyError(f"the reply is far too long ({len(text):,} characters)")
    complaint: ReplyError | None = None
    rejected: list[Any] = []
    accepted: list[tuple[T, list[str]]] = []
    for value, form, source in islice(candidates(text), _MAX_CANDIDATES):
        notes = [f"{stage}: the answer was {form}"] if form else []
        try:
            result = read(value, notes)
            if _is_quoted(source, material):
                raise ReplyError("the reply only quotes what it was given; answer yourself")
        except ReplyError as fault:
            complaint = complaint or fault
            rejected += [] if accepted else [value]
            continue
        # The last answer of a reply comes first.
        if complaint and not accepted and any(_have_same_shape(value, other) for other in rejected):
            raise complaint
        if accepted and accepted[0][0] != result:
            raise ReplyError("the reply holds two different answers; give one")
        # A reply in a loop repeats its notes a thousand times.
        accepted.append((result, list(dict.fromkeys(notes))))
    if accepted:
        return accepted[0]
    if complaint:
        raise complaint
    if not text.strip():
        raise ReplyError("the reply is empty")
    raise ReplyError("the reply holds no complete JSON value")


def _is_quoted(source: str, material: Sequence[str]) -> bool:
    quoted = _SPACE.sub("", source)
    return any(quoted in _SPACE.sub("", text) for text in material if "{" in text or "[" in text)


def _have_same_shape(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys()
    if isinstance(one, list) and isinstance(other, list):
        return {type(item) for item in one} == {type(item) for item in other}
    return False


def candidates(text: str) -> Iterator[tuple[Any, str, str]]:
    """Yield what may be a reply's answer, the likeliest first, each with its form and source."""
    text = text.lstrip("\ufeff").strip()
    for whole, form in _values(text):
        yield whole, form, text
        return
    # Chat templates often open the thinking themselves, so that only its end is in the reply. The
    # last end counts, because a thought may quote one.
    answer = _THOUGHT_END.split(text)[-1]
    if _THOUGHT.match(answer):
        # The thinking never ended: the values in it are drafts.
        return
    blocks = [block.strip() for block in reversed(_FENCE.findall(answer))]
    pieces, rest = _balanced(answer)
    if _ANSWER_START.match(rest):
        raise ReplyError("the reply ends in the middle of an answer")
    for piece in (*blocks, *reversed(pieces)):
        for value, form in _values(piece):
            after = answer[answer.rindex(piece) + len(piece) :]
            # With a later value the current one is a draft; see `read_reply`.
            if _RETRACTS.search(after) and not any(map(_values, _balanced(after)[0])):
                raise ReplyError("text follows the answer; end the reply with the JSON")
            yield value, f"taken out of the text around it{form and ' and was '}{form}", piece


def _values(text: str) -> list[tuple[Any, str]]:
    """Return the value that a text is, with a note on its form; empty if it is none."""
    if text[:1] not in ("[", "{"):
        return []
    try:
        return [(json.loads(text, object_pairs_hook=_unique), "")]
    except (ValueError, RecursionError):
        return _literals(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # A duplicated key means two answers to one question.
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ReplyError("an object of the reply has the same key twice")
    return result


def _literals(text: str) -> list[tuple[Any, str]]:
    if len(text) > _MAX_LITERAL:
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = _convert(ast.parse(text, mode="eval").body, _MAX_DEPTH)
        return [] if _has_adjacent_strings(text) else [(value, "not strict JSON")]
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return []


def _has_adjacent_strings(text: str) -> bool:
    # Python reads "a" "b" as one string, but the model has omitted at least a comma.
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
_STRING_REST = re.compile(r'(?:[^"\\]|\\.)*+"', re.DOTALL)
_CLOSES = {"]": "[", "}": "{"}
_ANSWER_START = re.compile(r"""[\[{]\s*["'\[{(]""")


def _balanced(text: str) -> tuple[list[str], str]:
    """Return the outermost bracketed substrings, and what is still open at the end of the text."""
    pieces: list[str] = []
    stack: list[str] = []
    start = at = 0
    while (found := _BRACKET.search(text, at)) is not None:
        at = found.end()
        mark = found.group()
        if mark == '"':
            if stack:
                rest = _STRING_REST.match(text, at)
                at = rest.end() if rest else len(text)
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
