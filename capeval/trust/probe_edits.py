"""Edits that make a true sentence false: one word or phrase replaced by one that excludes it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from capeval.judging.lexical.reading import tokens
from capeval.schema import ElementType
from capeval.trust.probe_words import Sentence, Video, stems, word_set

FILE = Path(__file__).with_name("probe_edits.toml")

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_QUOTED = re.compile(r"“[^”]*”|\"[^\"]*\"|‘[^’]*’|«[^»]*»|(?<!\w)'[^']*'(?!\w)")
_QUOTES = re.compile(r"[“”\"«»]")


@dataclass(frozen=True)
class Edit:
    """One replacement in a sentence: `old` by `new` from the character `start` on."""

    kind: str
    old: str
    new: str
    start: int
    sentence: Sentence

    @cached_property
    def text(self) -> str:
        """The edited sentence."""
        before, after = self.sentence.text[: self.start], self.sentence.text[self.start :]
        new = self.new[0].upper() + self.new[1:] if after[0].isupper() else self.new
        if article := re.search(r"\b(an?) $", before, re.IGNORECASE):
            fitting = "an" if new[0].lower() in "aeiou" else "a"
            fitting = fitting.capitalize() if article[1][0].isupper() else fitting
            before = before[: article.start(1)] + fitting + " "
        return before + new + after[len(self.old) :]


@dataclass(frozen=True)
class Rule:
    """What is replaced by what, and where; see `probe_edits.toml`.

    `keys` are the stems that may be in no other sentence, `absent` those that may not be in the
    video at all besides.
    """

    kind: str
    old: str
    new: tuple[str, ...]
    keys: frozenset[str]
    absent: Mapping[str, frozenset[str]]
    before: frozenset[str] | None = None
    not_before: frozenset[str] = frozenset()
    after: frozenset[str] | None = None
    not_after: frozenset[str] = frozenset()
    not_with: frozenset[str] = frozenset()
    types: frozenset[ElementType] | None = None
    not_types: frozenset[ElementType] = frozenset()
    subjects: frozenset[str] | None = None
    ends: frozenset[str] = frozenset()
    predicate_after: frozenset[str] = frozenset()

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Finds the old phrase as whole words, its first letter of either case."""
        first, rest = self.old[0], self.old[1:]
        text = f"[{first}{first.upper()}]{re.escape(rest)}".replace(r"\ ", " ")
        return re.compile(rf"(?<![\w\-–'’]){text}(?![\w\-–'’])")


@dataclass(frozen=True)
class EditRules:
    """The rules by the first word of what they replace, and the words that rule out an edit."""

    by_word: Mapping[str, Sequence[Rule]]
    unsure: frozenset[str]
    unsure_ending: str


@cache
def edit_rules() -> EditRules:
    """Return the rules of the packaged file."""
    content = tomllib.loads(FILE.read_text(encoding="utf-8"))
    by_word: dict[str, list[Rule]] = {}
    for rule in (*_listed(content), *_swaps(content), *_moves(content)):
        by_word.setdefault(tokens(rule.old)[0], []).append(rule)
    return EditRules(
        by_word=by_word,
        unsure=word_set(content["unsure"]),
        unsure_ending=content["unsure_ending"],
    )


def _listed(content: Mapping[str, Any]) -> Iterator[Rule]:
    for section, contexts, kind in (
        ("colours", "colour_contexts", "colour"),
        ("numbers", "number_contexts", "number"),
    ):
        entries = content[section]
        limits: dict[str, Any] = {name: word_set(text) for name, text in content[contexts].items()}
        for old, entry in entries.items():
            yield Rule(
                kind=kind,
                old=old,
                new=tuple(entry["instead"]),
                keys=stems({old, *word_set(entry["related"])}),
                absent={
                    # A number that replaces a number has an entry only if it is small.
                    new: stems({new, *word_set(entries.get(new, {}).get("related", ""))})
                    for new in entry["instead"]
                },
                **limits,
            )


def _swaps(content: Mapping[str, Any]) -> Iterator[Rule]:
    for entry in content["swap"]:
        old, new = entry["old"], entry["new"]
        limits: dict[str, Any] = {
            name: frozenset(value) if isinstance(value, list) else word_set(value)
            for name, value in entry.items()
            if name not in ("kind", "old", "new", "verbs", "related")
        }
        keys = {*old.split(), *word_set(entry["related"])} - _FUNCTION
        for verb in entry.get("verbs", "").split() or [""]:
            yield Rule(
                kind=entry["kind"],
                old=f"{verb} {old}".strip(),
                new=(f"{verb} {new}".strip(),),
                keys=stems(keys),
                absent={f"{verb} {new}".strip(): stems({*new.split()} - _FUNCTION)},
                **limits,
            )


# Of phrases such as "in front of", the words that say nothing alone.
_FUNCTION = frozenset({"in", "of", "from", "to", "the"})


def _moves(content: Mapping[str, Any]) -> Iterator[Rule]:
    for entry in content["move"]:
        for verb in entry["verbs"].split() or [""]:
            for old, new in entry["pairs"]:
                yield Rule(
                    kind="camera move",
                    old=f"{verb} {old}".strip(),
                    new=(f"{verb} {new}".strip(),),
                    keys=stems(word_set(entry["related"].replace("-", " "))),
                    absent={},
                    types=frozenset({"camera"}),
                    subjects=word_set(entry["subjects"]) if "subjects" in entry else None,
                    not_before=frozenset({"and", "or", "then"}),
                )


def edits_of(sentence: Sentence, video: Video) -> list[Edit]:
    """Return every edit of a sentence after which it is certainly false, and the rest unchanged."""
    rules = edit_rules()
    if any(w in rules.unsure or w.endswith(rules.unsure_ending) for w in sentence.words):
        return []
    if "?" in sentence.text:
        return []
    found: list[Edit] = []
    for word in dict.fromkeys(sentence.words):
        for rule in rules.by_word.get(word, ()):
            found += _by_rule(rule, sentence, video)
    return found


def _by_rule(rule: Rule, sentence: Sentence, video: Video) -> Iterator[Edit]:
    kind = sentence.element.type
    if kind in rule.not_types or (rule.types is not None and kind not in rule.types):
        return
    if not rule.not_with.isdisjoint(sentence.words):
        return
    text = sentence.text
    matches = list(rule.pattern.finditer(text))
    if len(matches) != 1 or _is_quoted(text, matches[0]) or _is_name(text, matches[0]):
        return
    if not _fits(rule, text, matches[0]):
        return
    # Once in this sentence, and in no form in another.
    rest = [other for other in video.sentences if other is not sentence]
    if any(rule.keys & other.stems for other in rest):
        return
    own = tokens(text[: matches[0].start()] + " " + text[matches[0].end() :])
    if rule.kind != "camera move" and rule.keys & stems(own):
        return
    for new in rule.new:
        if not rule.absent.get(new, frozenset()) & video.all_stems:
            yield Edit(rule.kind, matches[0][0], new, matches[0].start(), sentence)


def _fits(rule: Rule, text: str, match: re.Match[str]) -> bool:
    before = [word[0].lower() for word in _WORD.finditer(text[: match.start()])]
    after = text[match.end() :]
    previous = before[-1] if before else ""
    found = _WORD.match(after.lstrip(" "))
    # A comma or full stop ends the phrase.
    following = found[0].lower() if found and after.startswith(" ") else "."
    if previous in rule.not_after or following in rule.not_before:
        return False
    if following in rule.ends and previous not in rule.predicate_after:
        return False
    if rule.after is not None and previous not in rule.after:
        return False
    if rule.before is not None and following not in rule.before:
        return False
    return rule.subjects is None or previous in rule.subjects


def _is_quoted(text: str, match: re.Match[str]) -> bool:
    if any(q.start() < match.end() and match.start() < q.end() for q in _QUOTED.finditer(text)):
        return True
    # A quotation that does not end, or does not begin, may be of any length.
    return len(_QUOTES.findall(_QUOTED.sub("", text))) > 0


def _is_name(text: str, match: re.Match[str]) -> bool:
    """Return whether it is capitalised within a sentence, or what follows is: "the Red Sea"."""
    following = re.match(r" [A-Z]", text[match.end() :])
    return bool(following) or (match[0][0].isupper() and match.start() > 0)
