"""Edits that make a true sentence false: one phrase replaced by another that excludes it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from capeval.judging.lexical import Words, content_words
from capeval.trust.probe_sentences import Sentence, Video

_QUOTES = re.compile(r"[“”\"«»‘?]|(?<!\w)'")


class Edit(NamedTuple):
    """One replacement: a sentence, the edited text, and in words what was replaced."""

    sentence: Sentence
    text: str
    made: str


class _Rule(NamedTuple):
    """Two phrases that exclude each other.

    `keys` are the stems that no other sentence may have: those that both phrases have, such as the
    verb of a camera move, else all of them.
    """

    kind: str
    new: str
    pattern: re.Pattern[str]
    stems: Words
    keys: Words


@cache
def probe_texts() -> dict[str, Any]:
    """Return the content of the packaged file."""
    return tomllib.loads(Path(__file__).with_name("probes.toml").read_text(encoding="utf-8"))


@cache
def _rules() -> list[_Rule]:
    return [
        _rule(table["kind"], pair, table.get("before", "").split())
        for table in probe_texts()["edits"]
        for pair in table["pairs"]
    ]


def _rule(kind: str, pair: str, before: list[str]) -> _Rule:
    old, new = pair.split(" = ")
    following = "|".join(r"(?! \w)" if word == "." else rf" {word}(?![\w-])" for word in before)
    # A capital after it is part of a name: "the Red Sea".
    pattern = rf"(?<![\w-])[{old[0]}{old[0].upper()}]{old[1:]}(?![\w-])(?! [A-Z])(?={following})"
    # "in" is in every other sentence.
    one, other = (content_words(phrase) - {"in"} for phrase in (old, new))
    return _Rule(kind, new, re.compile(pattern), one | other, one & other or one | other)


def edits_of(sentence: Sentence, video: Video) -> Iterator[Edit]:
    """Yield every edit of a sentence after which it is certainly false, and the rest unchanged."""
    unsure = probe_texts()["unsure"].split()
    if any(word in unsure or word.endswith("n't") for word in sentence.words):
        return
    if _QUOTES.search(sentence.text):
        return
    elsewhere = frozenset[str]().union(*(one.stems for one in video.sentences if one != sentence))
    for rule in _rules():
        found = [*rule.pattern.finditer(sentence.text)]
        of_camera = rule.kind == "camera move"
        if len(found) != 1 or of_camera != (sentence.element.type == "camera"):
            continue
        before, after = sentence.text[: found[0].start()], sentence.text[found[0].end() :]
        if rule.keys & elsewhere or rule.stems & content_words(f"{before} {after}"):
            continue
        new = rule.new if before else rule.new.capitalize()
        made = f"{rule.kind}: {found[0][0]} → {rule.new} in: {sentence.text}"
        yield Edit(sentence, before + new + after, made)
