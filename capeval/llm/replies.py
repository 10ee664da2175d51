"""Find the answer in a model's reply, by the form of the whole reply.

    reply = [thinking] [lead] answer [courtesy]

The answer is one value, JSON or in Python's notation, bare or in a fence; it may be repeated
unchanged. A lead ("Here is the JSON:") and a courtesy ("Let me know if you need more.") consist of
the phrases in `reply_phrases.toml`. Any other text could be a draft, a correction, a retraction or
a quotation, in any words and any language, so a reply that contains any is asked for again.
"""

from __future__ import annotations

import json
import re
import string
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from capeval.errors import ReplyError
from capeval.llm.reply_values import BrokenValue, read_value
from capeval.llm.thinking import after_thinking
from capeval.text import plain

T = TypeVar("T")


class FormError(ReplyError):
    """A reply from which no answer can be taken, whatever the answer is."""


NO_VALUE: Final = "the reply holds no complete JSON value"
CUT: Final = "the reply ends in the middle of an answer"
TWO: Final = "the reply holds two different answers; give one"
TEXT_AFTER: Final = "text follows the answer; end the reply with the JSON"
TEXT_BEFORE: Final = "text precedes the answer; begin the reply with the JSON"
QUOTED: Final = "the reply only quotes what it was given; answer yourself"

# Longer ones are explanations.
_MAX_LEAD, _MAX_COURTESY = 160, 300
# A model in a loop writes its answer again and again; each copy costs time.
_MAX_COPIES = 16
_MAX_FENCES = 3
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
_EDGES = string.whitespace + "\u00a0\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u2060\u3000\ufeff"
_SPACE = re.compile(r"\s+")
_PUNCTUATION = re.compile(r"[\s.,:;*_\"“”„«»、。・〜…\ufe0f😀😃😊🙂☺👍✨🎉]+")
# These are punctuation only beside a phrase: alone before an answer they comment it out, negate it
# or delete it. The limit on spaces keeps the time linear.
_BESIDE_PHRASES = re.compile(
    r"""
    ^[ \t]*\#{1,6}(?=[^\n]*\w)                  # a heading
    | ^[ \t]*-{3,}+[ \t]*(?=\n)                 # a rule
    | [–—-]++(?=\s{0,3}[*_"“«]*\w)              # a hyphen, a list of phrases
    | [¡¿](?=\w)
    | (\w[*_"”»]*)(?:!+|[ ](?:!+|[–—-]+)(?=\s))  # "Bien sûr !", "JSON - "
    """,
    re.VERBOSE | re.MULTILINE,
)


def read_reply(
    text: str,
    read: Callable[[Any, list[str]], T],
    stage: str,
    material: Sequence[str] = (),
    prompt: str = "",
) -> tuple[T, list[str]]:
    """Return what `read` makes of a reply's answer, and notes, which begin with `stage`.

    `material` are the judged texts: an answer that occurs in one is a quotation. `prompt` is what
    the model was asked: if a lead and its answer occur there together, they are an echo. Raises
    `FormError`, and the `ReplyError` of `read`.
    """
    answer = _answer_in(text.strip(_EDGES))
    notes = [f"{stage}: the answer was {answer.form}"] if answer.form else []
    result = read(answer.value, notes)
    is_echo = answer.introduced and _occurs([answer.introduced], [prompt])
    if is_echo or _occurs(_writings(answer), material):
        raise ReplyError(QUOTED)
    # A reply in a loop repeats its notes a thousand times.
    return result, list(dict.fromkeys(notes))


@dataclass(frozen=True)
class _Answer:
    value: Any
    source: str
    end: int
    is_strict: bool
    is_alone: bool = False
    introduced: str = ""
    """The reply from its lead through the answer; empty without a lead."""

    @property
    def form(self) -> str:
        """What a note says of it; nothing for JSON alone."""
        around = "" if self.is_alone else "taken out of the text around it"
        return " and was ".join(filter(None, (around, "" if self.is_strict else "not strict JSON")))


def _answer_in(text: str) -> _Answer:
    if not text:
        raise FormError("the reply is empty")
    bare = _without_template_marks(text)
    try:
        # First as it is: marks of thinking within an answer are words of the caption.
        answer = _parsed(bare)
    except ReplyError:
        rest = after_thinking(bare)
        if rest == bare:
            raise
        if rest is None:
            raise FormError(NO_VALUE) from None
        answer = _parsed(_without_template_marks(rest))
    return replace(answer, is_alone=answer.source == text)


def _without_template_marks(text: str) -> str:
    marks = _grammar()
    for _ in range(_MAX_COPIES):
        before = text
        for mark in marks.beginnings:
            text = text.removeprefix(mark)
        for mark in marks.ends:
            text = text.removesuffix(mark)
        text = text.strip(_EDGES)
        if text == before:
            break
    return text


def _parsed(text: str) -> _Answer:
    start = _grammar().start
    found = start.search(text)
    if found is None:
        raise FormError(NO_VALUE)
    first = _answer_at(text, found.start())
    end = first.end
    for _ in range(_MAX_COPIES):
        again = start.search(text, end)
        if again is None:
            break
        try:
            other = _answer_at(text, again.start())
        except FormError as fault:
            raise FormError(CUT if str(fault) == CUT else TEXT_AFTER) from None
        if _canonical(other.value) != _canonical(first.value):
            raise FormError(TWO)
        if not _is_lead(text[end : again.start()]):
            break
        end = other.end
    if not _is_courtesy(text[end:]):
        raise FormError(TEXT_AFTER)
    lead = text[: found.start()]
    if not _is_lead(lead):
        raise FormError(TEXT_BEFORE)
    return replace(first, introduced=text[: first.end] if lead.strip() else "")


def _answer_at(text: str, at: int, fences: int = _MAX_FENCES) -> _Answer:
    """Return the answer that begins at a place, bare or in a fence; raises `FormError`."""
    grammar = _grammar()
    if named := grammar.named.match(text, at):
        at = named.end()
    fence = grammar.fence.match(text, at)
    if fence is None or not fences:
        if text[at : at + 1] not in ("[", "{"):
            raise FormError(NO_VALUE)
        try:
            value, end, is_strict = read_value(text, at)
        except BrokenValue as fault:
            raise FormError(CUT if fault.is_cut else NO_VALUE) from None
        return _Answer(value, text[at:end], end, is_strict)
    inner = _answer_at(text, fence.end(), fences - 1)
    end = len(text) - len(text[inner.end :].lstrip())
    closing = fence["ticks"] or grammar.closings[fence["mark"].lower()]
    if not text.startswith(closing, end) and end < len(text):
        raise FormError(TEXT_AFTER)
    return replace(inner, end=min(end + len(closing), len(text)))


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _writings(answer: _Answer) -> Iterator[str]:
    """Yield the answer as written, and as JSON and Python write it: a quotation may change that."""
    yield answer.source
    yield json.dumps(answer.value, ensure_ascii=False)
    yield repr(answer.value)


def _occurs(parts: Iterable[str], texts: Iterable[str]) -> bool:
    squeezed = [_SPACE.sub("", text) for text in texts if "{" in text or "[" in text]
    return bool(squeezed) and any(
        _SPACE.sub("", part) in text for part in parts for text in squeezed
    )


def _is_lead(text: str) -> bool:
    return len(text.strip()) <= _MAX_LEAD and _is_made_of("lead", text)


def _is_courtesy(text: str) -> bool:
    return len(text.strip()) <= _MAX_COURTESY and _is_made_of("courtesy", f"{text}\n")


def _is_made_of(kind: str, text: str) -> bool:
    if not text.strip():
        return True
    left = _BESIDE_PHRASES.sub(r"\1 ", plain(text).replace("’", "'"))
    left = _PUNCTUATION.sub(" ", left).strip()
    reached = {0}
    for at in range(len(left)):
        if at in reached:
            ends = (phrase.match(left, at) for phrase in _phrases(kind))
            reached.update(_next(left, found.end()) for found in ends if found)
    return len(left) in reached


def _next(text: str, end: int) -> int:
    """Return where the next phrase may begin; 0 if a phrase ends within a word."""
    after = text[end : end + 1]
    # Chinese and Japanese phrases need no space between them.
    is_boundary = not after.strip() or _UNSPACED.match(after) or _UNSPACED.match(text[end - 1])
    return (end + (after == " ")) if is_boundary else 0


@cache
def _table() -> dict[str, Any]:
    file = Path(__file__).with_name("reply_phrases.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


@cache
def _phrases(kind: str) -> tuple[re.Pattern[str], ...]:
    """Compile the phrases of a kind; most replies are JSON alone and need none."""
    words = _table()["words"]

    def compiled(phrase: str) -> re.Pattern[str]:
        filled = re.sub(r"\{([a-z]\w+)\}", lambda word: words[word[1]], phrase)
        return re.compile(f"(?:{plain(filled).replace('(', '(?:')})(?![a-z])")

    return tuple(compiled(phrase) for lines in _table()[kind].values() for phrase in lines)


@dataclass(frozen=True)
class _Grammar:
    """The marks of `reply_phrases.toml`, compiled."""

    beginnings: tuple[str, ...]
    ends: tuple[str, ...]
    closings: Mapping[str, str]
    start: re.Pattern[str]
    named: re.Pattern[str]
    fence: re.Pattern[str]


@cache
def _grammar() -> _Grammar:
    form = _table()["form"]
    names, languages = "|".join(form["names"]), "|".join(form["languages"])
    opening = "|".join(re.escape(mark) for mark, _ in form["fences"])
    named = rf"\b(?:{names})\s*+=\s*+(?=[\[{{])"
    fence = rf"(?P<ticks>`{{3,}}+|~{{3,}}+|`)(?:(?:{languages})\b)?\s*+|(?P<mark>{opening})\s*+"
    return _Grammar(
        tuple(form["beginnings"]),
        tuple(form["ends"]),
        dict(form["fences"]),
        re.compile(rf"{named}|[\[{{`]|~~~|{opening}", re.IGNORECASE),
        re.compile(named, re.IGNORECASE),
        re.compile(fence, re.IGNORECASE),
    )
