"""Requests to a chat model and its replies; the one JSON value that a reply must be.

One block of reasoning in front and one code fence are removed. Any other text could be a draft, a
correction, a retraction or a quotation, so a reply that contains any is asked for again.

The message of a `ReplyError` is sent to the model with the next request, and so is part of that
request's cache key.
"""

from __future__ import annotations

import ast
import json
import re
import tokenize
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from io import StringIO
from itertools import pairwise
from typing import Annotated, Any, Final, Generic, Literal, NoReturn, Protocol, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Strict, TypeAdapter, ValidationError
from pydantic_core import from_json

from capeval.errors import ReplyError, RequestRefused
from capeval.language import after_thinking
from capeval.llm.tracing import is_tracing
from capeval.schema import Usage
from capeval.text import shown, storable

# ---- Requests and replies ------------------------------------------------------------------------

T_co = TypeVar("T_co", covariant=True)
# Of a stored reply; `capeval.llm.cache` says what they mean.
State = Literal["validated", "refused", "exhausted"]

# A model needs to see what it got wrong, not all of a runaway reply: that would be paid for again.
QUOTED_CHARACTERS = 4000


@dataclass(frozen=True, slots=True, eq=False)
class ReplySchema:
    """A strict JSON schema that the reply must follow, and its name; made once and not changed."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request to a chat model; parameters that an endpoint rejects are left off.

    `messages` are `{"role", "content"}`, the content text or a list of parts; `max_tokens` counts
    the visible reply; `repeat` is sent as `seed`, `reasoning` as `reasoning_effort`, and `media` as
    `media_io_kwargs`, by which vLLM reads a video; the last two are always sent. With a `scope`,
    only replies to requests of the same scope are reused.
    """

    model: str
    messages: tuple[Mapping[str, Any], ...]
    max_tokens: int
    temperature: float | None = 0.0
    repeat: int = 0
    schema: ReplySchema | None = None
    reasoning: str | None = None
    media: Mapping[str, Any] | None = None
    scope: str = ""

    def is_enforced_in(self, reply: ChatReply) -> bool:
        """Return whether the endpoint took the schema that the reply must follow."""
        return self.schema is not None and not {"json_schema", "response_format"} & {
            *reply.left_off
        }

    def parts(self) -> list[Any]:
        contents = [message["content"] for message in self.messages]
        parts = [part for one in contents for part in (one if isinstance(one, list) else [one])]
        return [
            part["text"] if isinstance(part, dict) and part["type"] == "text" else part
            for part in parts
        ]

    def followed_by(self, reply: str, complaint: str, max_tokens: int | None = None) -> ChatRequest:
        """Return the request that shows the model its reply and what is wrong with it."""
        # Some endpoints refuse an empty message, others two user messages in a row.
        quoted = reply[:QUOTED_CHARACTERS] if reply.strip() else "(empty reply)"
        return replace(
            self,
            messages=(
                *self.messages,
                {"role": "assistant", "content": quoted},
                {"role": "user", "content": complaint},
            ),
            max_tokens=self.max_tokens if max_tokens is None else max_tokens,
        )


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What a model answered.

    `model` is the snapshot as the endpoint names it, and what it says of the weights;
    `finish_reason` is "refusal" where the endpoint put the text into its refusal field; `left_off`
    names the parameters of the request that the endpoint does not take; `day` is the date on which
    a cached reply came.
    """

    text: str
    finish_reason: str | None
    model: str
    fingerprint: str | None
    usage: Usage
    cached: bool = False
    left_off: tuple[str, ...] = ()
    day: str | None = None


def described(request: ChatRequest) -> dict[str, Any]:
    """Return what the debug log records of a request: parameters and sizes, no content."""
    if not is_tracing():
        return {}
    parts = request.parts()
    texts = [part for part in parts if isinstance(part, str)]
    return {
        "model": request.model,
        "reply_schema": request.schema.name if request.schema else None,
        "messages": len(request.messages),
        "characters": sum(map(len, texts)),
        "images": len(parts) - len(texts),
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "seed": request.repeat,
        "reasoning_effort": request.reasoning,
    }


class ChatClient(Protocol):
    """Completes requests: an endpoint, a script, a recording."""

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Make one paid call; raises `EndpointError`."""


@dataclass(frozen=True)
class Answer(Generic[T_co]):
    """A checked value, every reply that it took, and the complaints about all but the last."""

    value: T_co
    replies: tuple[ChatReply, ...]
    complaints: tuple[str, ...]

    @property
    def usage(self) -> Usage:
        return sum((reply.usage for reply in self.replies), Usage())


class _Replied(Exception):
    def __init__(self, reason: str, replies: tuple[ChatReply, ...]) -> None:
        super().__init__(reason)
        self.replies = replies


class ReplyBroken(_Replied, ReplyError):
    """No reply met its contract; `str()` is the last complaint, `replies` has all replies."""


class ReplyRefused(_Replied, RequestRefused):
    """The model declined to answer; `replies` has all replies."""


# ---- The value of a reply, and its form ----------------------------------------------------------

T = TypeVar("T")


class FormError(ReplyError):
    """A reply whose form allows no answer to be read."""


class Incomplete(ReplyError):
    """A reply that is valid so far, but incomplete."""


EMPTY: Final = "the reply is empty"
NO_VALUE: Final = "the reply must be one complete JSON value and nothing else"
TEXT_AFTER: Final = "text follows the answer; end the reply with the JSON"
QUOTED: Final = "the reply only quotes what it was given; answer yourself"

_FENCED = re.compile(r"```(?:json|python)?\s(.*?)```", re.DOTALL)
# vLLM leaves this of Gemma's empty reasoning. Any other text could be about a draft: with any short
# text before the JSON removed, 432 of the 1,092 attacks of the tests would be read wrongly.
_CHANNEL = re.compile(r"\s*thought\s*\n")
# Python's parser needs memory and depth; a judge writes a tenth of this.
_LONGEST_PRINTED = 40_000
_QUOTES = str.maketrans("“”„«»‘’", '"' * 5 + "'" * 2)


def read_reply(
    text: str,
    read: Callable[[Any, list[str]], T],
    material: Sequence[str] = (),
    *,
    printed: bool = False,
    enforced: bool = False,
) -> tuple[T, list[str]]:
    """Return the result of `read` on a reply's one value, and notes.

    `material` are the judged texts: an answer that occurs in one is a quotation. With `printed`, a
    list as Python prints it counts as JSON; with `enforced`, the endpoint has taken the schema.
    Raises `FormError`, and the `ReplyError` of `read`.
    """
    notes: list[str] = []
    if enforced and (mark := _CHANNEL.match(text)):
        text = text[mark.end() :]
        notes.append('"thought" in front of the JSON was removed')
    value, source = _value_of(text.strip(), printed=printed)
    result = read(value, notes)
    if _is_quoted(value, source, material):
        raise ReplyError(QUOTED)
    return result, notes


def beginning_of(text: str, schema: Mapping[str, Any]) -> str:
    """Return a reply that was cut off, ended after its last whole item; raises `ReplyError`.

    >>> schema = object_of(starts=array_of(COUNT), repeats=array_of(COUNT))
    >>> beginning_of('{"starts": [1, 4, 1', schema)
    '{"starts": [1, 4], "repeats": []}'
    """
    try:
        value = from_json(text.removeprefix("```json"), allow_partial=True)
    except ValueError:
        raise FormError(NO_VALUE) from None
    if not isinstance(value, dict):
        raise FormError(NO_VALUE)
    items = [*value.values()][-1] if value else None
    listed = items if isinstance(items, list) else []
    if len({*map(repr, listed)}) * 2 < len(listed) or len(text.rstrip()) * 2 < len(text):
        raise ReplyError("the reply repeats itself without end")
    del listed[-1:]
    for name, part in schema["properties"].items():
        if "items" in part:
            value.setdefault(name, [])
    return json.dumps(value)


def _value_of(text: str, *, printed: bool) -> tuple[Any, str]:
    if not text:
        raise FormError(EMPTY)
    try:
        # First as it is: marks of reasoning within an answer are words of the caption.
        return _parsed(text, printed=printed), text
    except FormError:
        rest = after_thinking(text)
        if rest is None:
            raise FormError(NO_VALUE) from None
        fenced = _FENCED.fullmatch(rest.strip())
        bare = (fenced[1] if fenced else rest).strip()
        if bare == text:
            raise
    return _parsed(bare, printed=printed), bare


def _parsed(text: str, *, printed: bool) -> Any:
    try:
        value, end = _JSON.raw_decode(text)
    except (ValueError, RecursionError):
        if printed:
            return _printed(text)
        raise FormError(NO_VALUE) from None
    if text[end:].strip():
        raise FormError(TEXT_AFTER)
    return value


def _printed(text: str) -> Any:
    """Return a value as Python writes it; a comment or two adjacent strings are refused."""
    unusable = (ValueError, SyntaxError, MemoryError, RecursionError, tokenize.TokenError)
    with suppress(*unusable), warnings.catch_warnings(action="ignore"):
        if len(text) <= _LONGEST_PRINTED:
            tokens = [one.type for one in tokenize.generate_tokens(StringIO(text).readline)]
            strings = (tokenize.STRING, tokenize.STRING)
            if tokenize.COMMENT not in tokens and strings not in pairwise(tokens):
                return ast.literal_eval(text)
    raise FormError(NO_VALUE)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # A duplicated key means two answers to one question.
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ReplyError("an object of the reply has the same key twice")
    return result


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_JSON = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def _is_quoted(value: Any, source: str, material: Sequence[str]) -> bool:
    # Together: an answer may begin in one event of a caption and end in the next.
    text = _squeezed("".join(material))
    if "{" not in text and "[" not in text:
        return False
    writings = (source, json.dumps(value, ensure_ascii=False), repr(value))
    return any(_squeezed(one) in text for one in writings)


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text).casefold().translate(_QUOTES)


class ReplyForm(BaseModel):
    """The keys of an object in a reply: all are required, no others allowed.

    A key that was not requested can take the answer back ("error") or hold another one.
    """

    model_config = ConfigDict(extra="forbid")


Number = Annotated[int, Strict()]
"""A number of a reply; neither digits in quotes nor `true`."""


def _with_words(text: str) -> str:
    if not any(map(str.isalnum, text)):
        raise ValueError("must be a text with words")
    return storable(text.strip())


Words = Annotated[str, AfterValidator(_with_words)]
"""A text of a reply that is not blank."""


def in_form(form: type[T], value: Any) -> T:
    """Return a reply's value in the form of a type; raises `ReplyError`.

    >>> in_form(list[Number], [1, 2])
    [1, 2]
    """
    hashable: Any = form
    try:
        result: T = _adapter(hashable).validate_python(value)
    except ValidationError as faults:
        fault = faults.errors(include_url=False)[0]
        place = ".".join(str(p + 1) if isinstance(p, int) else p for p in fault["loc"])
        of = f"{place}: " if place else ""
        message = _PLAIN.get(fault["type"], fault["msg"].removeprefix("Value error, "))
        raise ReplyError(storable(f"{of}{message} (found {shown(fault['input'])})")) from None
    return result


# These messages of pydantic's name Python's types.
_PLAIN = {"model_type": "must be a JSON object", "tuple_type": "must be a list"}


@cache
def _adapter(form: Any) -> TypeAdapter[Any]:
    return TypeAdapter(form)


def one_of(answer: T, known: Collection[T], what: str) -> T:
    """Return an answer that is one of those known; raises `ReplyError`.

    >>> one_of("left", ("left", "right"), "side")
    'left'
    """
    if answer not in known:
        few = f"; it must be one of {', '.join(map(str, known))}" if len(known) <= 20 else ""
        raise ReplyError(f"there is no {what} {shown(answer)}{few}")
    return answer


def must_exist(number: int, count: int, what: str) -> None:
    """Raise `ReplyError` for a number that is not one from 1 to `count`."""
    if not 1 <= number <= count:
        raise ReplyError(f"there is no {what} {shown(number)}; ids go from 1 to {count}")


def each_once(answers: Sequence[tuple[int, T]], count: int, what: str) -> list[T]:
    """Return the answers in the order of their numbers; raises `ReplyError`.

    Each number from 1 to `count` must be there once.

    >>> each_once([(2, "b"), (1, "a")], 2, "event")
    ['a', 'b']
    """
    found: dict[int, T] = {}
    for number, answer in answers:
        must_exist(number, count, what)
        if number in found:
            raise ReplyError(f"{what} {number} is answered twice")
        found[number] = answer
    missing = [str(number) for number in range(1, count + 1) if number not in found]
    if missing:
        more = ", …" if len(missing) > 40 else ""
        raise Incomplete(f"{what}(s) {', '.join(missing[:40])}{more} are not answered")
    return [found[number] for number in range(1, count + 1)]


# Supported by all servers of strict schemas: no references or numeric limits.
_SCHEMA_KEYS = {"type", "properties", "required", "additionalProperties", "items", "enum"}


def schema_of(form: type[BaseModel]) -> dict[str, Any]:
    """Return a form's JSON schema, as far as servers support it; the form checks the rest.

    >>> schema_of(ReplyForm)["additionalProperties"]
    False
    """
    whole = form.model_json_schema()
    named = whole.get("$defs", {})

    def plain(part: dict[str, Any], *, in_list: bool = False) -> dict[str, Any]:
        part = named[part["$ref"].rpartition("/")[2]] if "$ref" in part else part
        found = {key: value for key, value in part.items() if key in _SCHEMA_KEYS}
        if "properties" in found:
            parts = found["properties"].items()
            found["properties"] = {key: plain(one, in_list=in_list) for key, one in parts}
        if "items" in found:
            items = plain(found["items"], in_list=True)
            # Limits of lists in lists multiply, and outlines-core compiles 400 times 400 for hours.
            found |= {"items": items} if in_list else array_of(items)
        return found

    return plain(whole)


def object_of(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


# Far more than any honest reply lists; without a limit, small models never stop.
MOST_ITEMS = 400


def array_of(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": MOST_ITEMS}


def pair_of(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": 2, "maxItems": 2}


COUNT: Final = {"type": "integer"}
TEXT: Final = {"type": "string"}
