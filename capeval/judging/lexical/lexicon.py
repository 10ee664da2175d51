"""The meaning of a single word: its concept, its weight, its part of speech, related concepts.

The word lists are in `words.txt`; comments there explain each section.
"""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import permutations
from pathlib import Path
from typing import Final, NamedTuple

from snowballstemmer.english_stemmer import EnglishStemmer


def _sections() -> dict[str, list[str]]:
    """Return the lines of each section of the file, without comments and empty lines."""
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in Path(__file__).with_name("words.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            lines = sections[line.strip("[]")] = []
        elif line and not line.startswith("#"):
            lines.append(line)
    return sections


SECTIONS: Final = _sections()


def _words(section: str) -> list[str]:
    return " ".join(SECTIONS[section]).split()


def _pairs(section: str, separator: str = ":") -> list[tuple[list[str], list[str]]]:
    halves = (line.partition(separator) for line in SECTIONS[section])
    return [(left.split(), right.split()) for left, _, right in halves]


def _colours() -> dict[str, int]:
    shades = _pairs("colours")
    basic = dict.fromkeys(base for _, bases in shades for base in bases)
    bits = {name: 1 << place for place, name in enumerate(basic)}
    return {word: sum(bits[base] for base in bases) for words, bases in shades for word in words}


def _actors() -> dict[str, int]:
    genders = (("male", 1), ("female", 2), ("either", 3))
    found = {word: bits for section, bits in genders for word in _words(section)}
    found |= {word: 1 << place for place, word in enumerate(_words("other actors"), 2)}
    # Animals and ships may be called "he" or "she".
    others = sum(bits for bits in found.values() if bits > 3)
    return found | {"he": 1 | others, "she": 2 | others, "they": 3 | others, "it": others}


_PREPOSITIONS = frozenset(_words("prepositions"))
_FUNCTION_WORDS = frozenset(_words("determiners") + _words("function words"))
_NEGATIONS = frozenset(_words("negations"))
ABBREVIATIONS: Final = frozenset(_words("abbreviations"))
_IRREGULAR = {form: word for (word,), forms in _pairs("irregular forms") for form in forms}
COLOURS: Final = _colours()
"""Word -> bits of the basic colours that it may stand for."""
NUMBERS: Final = {word: (float(least), float(most)) for (word,), (least, most) in _pairs("numbers")}
"""Word -> the smallest and the largest number that it may stand for."""
WEAK_NUMBERS: Final = frozenset(_words("weak numbers"))
_ACTORS = _actors()
# Those who may be called by one another's names, and by pronouns.
_FAMILY = ("man", "woman", "boy", "girl", "child", "baby", "person")
_PRONOUNS = {"he": {"man", "boy"}, "she": {"woman", "girl"}, "they": {"crowd", "couple"}}
JOINING: Final = frozenset({"and", "or", "but", "while", "when", "as", "who", "where"})

_GENERIC, _PLACE, _CONTENT, _CRITICAL = 0.3, 0.6, 1.0, 1.3
# No English word is longer, and stemming a megabyte of letters would take seconds.
_MAX_STEMMED = 30
_MAX_CACHED = 100_000


class Word(NamedTuple):
    """One word; `concept` names its meaning and `weight` is how informative it is.

    `colour` has the bits of a colour, `number` the limits of a number, `actor` the bits of who may
    be meant: 1 male, 2 female, one for each other kind. Two words without a common bit cannot mean
    the same actor. `follows` has the second words that form a phrase with this one, and the
    phrase's concepts.
    """

    concept: str
    lemma: str
    text: str
    weight: float
    is_verb: bool = False
    is_preposition: bool = False
    is_negation: bool = False
    colour: int = 0
    number: tuple[float, float] | None = None
    actor: int = 0
    is_claim: bool = False
    """It is a colour or a number."""
    follows: dict[str, tuple[str, ...]] | None = None


STOP: Final = Word("", ",", ",", 0.0)
"""Any punctuation within a text."""


class Related(NamedTuple):
    """Concepts that a mention of one entails in full or in part, or excludes.

    `opposed_camera` are those that it excludes in camera elements, `opposed` included.
    """

    full: frozenset[str]
    partial: frozenset[str]
    opposed: frozenset[str]
    opposed_camera: frozenset[str]


class Lexicon:
    """The word lists by stem (Porter, 1980; Snowball's English stemmer)."""

    def __init__(self) -> None:
        # Not `snowballstemmer.stemmer`: where PyStemmer is installed, that is another program.
        self._stem = EnglishStemmer().stemWord
        self._names: dict[str, str] = {}
        for meaning in SECTIONS["synonyms"]:
            first, *others = meaning.split()
            for word in (first, *others):
                exact = word.startswith("=")
                self._names.setdefault(word[1:] if exact else self.lemma(word), first)
        self._verbs = {self._name(verb) for verb in _words("verbs")}
        self._generic = {self.lemma(word) for word in _words("generic words")}
        self._phrases: dict[str, dict[str, tuple[str, ...]]] = {}
        for (one, two), concepts in _pairs("phrases", "="):
            followers = self._phrases.setdefault(self.lemma(one), {})
            followers[self.lemma(two)] = tuple(map(self._name, concepts))
        self.actors: Final = {self._name(actor): bits for actor, bits in _ACTORS.items()}
        """Concept -> the bits of the actors that it may stand for."""
        self._members: dict[str, set[str]] = {}
        self._kinds: dict[str, set[str]] = {}
        for (named,), members in _pairs("kinds"):
            kind = self._name(named)
            for member in map(self._name, members):
                self._members.setdefault(kind, set()).add(member)
                self._kinds.setdefault(member, set()).add(kind)
        self._opposites = self._excluding("opposites")
        self._camera_opposites = self._excluding("camera opposites")
        self.word: Final = lru_cache(_MAX_CACHED)(self._word)
        """Returns the meaning of a lower-case word or of inner punctuation."""
        self.related: Final = lru_cache(_MAX_CACHED)(self._related)
        """Returns what a text that mentions a concept entails and excludes."""

    def lemma(self, word: str) -> str:
        """Return the stem of a lower-case word; irregular forms are looked up."""
        regular = _IRREGULAR.get(word, word)
        return self._stem(regular) if len(regular) <= _MAX_STEMMED else regular

    def _name(self, word: str) -> str:
        lemma = self.lemma(word)
        return self._names.get(word) or self._names.get(lemma, lemma)

    def _excluding(self, section: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for line in SECTIONS[section]:
            poles = [[self._name(word) for word in pole.split()] for pole in line.split("|")]
            for here, there in permutations(poles, 2):
                for concept in here:
                    found.setdefault(concept, set()).update(there)
        return found

    def _related(self, mention: str) -> Related:
        full, waiting = {mention}, [mention]
        while waiting:
            kinds = self._kinds.get(waiting.pop(), set()) - full
            full |= kinds
            waiting += kinds
        partial = set(self._members.get(mention, ()))
        if mention in _FAMILY:
            partial |= {one for one in _FAMILY if self.actors[one] & self.actors[mention]}
        if mention in _PRONOUNS:
            full.add("person")
            partial |= _PRONOUNS[mention]
        if colour := COLOURS.get(mention, 0):
            full |= {other for other, bits in COLOURS.items() if bits == colour}
            partial |= {other for other, bits in COLOURS.items() if bits & colour}
        if mention in NUMBERS and mention not in WEAK_NUMBERS:
            least, most = NUMBERS[mention]
            for other, (low, high) in NUMBERS.items():
                if other not in WEAK_NUMBERS and low <= most and least <= high:
                    (full if (low, high) == (least, most) else partial).add(other)
        opposed = self._opposites.get(mention, set())
        camera = opposed | self._camera_opposites.get(mention, set())
        return Related(*map(frozenset, (full, partial - full, opposed, camera)))

    def _word(self, text: str) -> Word:
        if text in (",", ";", ":"):
            return STOP
        if text in _NEGATIONS:
            return Word("", text, text, 0.0, is_negation=True)
        if text in COLOURS:
            return Word(text, text, text, _CRITICAL, colour=COLOURS[text], is_claim=True)
        if text in NUMBERS:
            weight = 0.0 if text in WEAK_NUMBERS else _CRITICAL
            return Word(text, text, text, weight, number=NUMBERS[text], is_claim=True)
        if text[0].isdecimal():
            return _digits(text)
        lemma = self.lemma(text)
        concept, weight = self._name(text), _CONTENT
        if text in _FUNCTION_WORDS:
            concept, weight = text, 0.0
        elif text in _PREPOSITIONS or lemma in {"left", "right"}:
            weight = _PLACE
        elif lemma in self._generic:
            weight = _GENERIC
        return Word(
            concept,
            lemma,
            text,
            weight,
            is_verb=weight > 0.0 and concept in self._verbs,
            is_preposition=text in _PREPOSITIONS,
            actor=self.actors.get(concept, 0),
            follows=self._phrases.get(lemma),
        )


def _digits(text: str) -> Word:
    try:
        value = float(text)
    except ValueError:
        return Word(text, text, text, _CONTENT)
    limits = (value, value)
    spelt = (word for word, own in NUMBERS.items() if own == limits and word not in WEAK_NUMBERS)
    return Word(next(spelt, text), text, text, _CRITICAL, number=limits, is_claim=True)


@cache
def lexicon() -> Lexicon:
    """Return the lexicon; its first use builds it."""
    return Lexicon()
