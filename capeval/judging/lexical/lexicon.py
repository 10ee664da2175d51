"""The meaning of a single word: its concept, its weight and its part of speech."""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import permutations
from typing import Final, NamedTuple

from snowballstemmer.english_stemmer import EnglishStemmer

from capeval.judging.lexical.word_lists import (
    ACTORS,
    CAMERA_OPPOSITES,
    COLOURS,
    FUNCTION_WORDS,
    GENERIC_WORDS,
    IRREGULAR,
    KINDS,
    NEGATIONS,
    NUMBERS,
    OPPOSITES,
    PHRASES,
    PREPOSITIONS,
    SYNONYMS,
    VERBS,
    WEAK_NUMBERS,
)

_GENERIC, _PLACE, _CONTENT, _CRITICAL = 0.3, 0.6, 1.0, 1.3
_MAX_STEMMED = 30
_MAX_CACHED = 100_000
_FAMILY = ("man", "woman", "boy", "girl", "child", "baby", "person")
_PRONOUNS = {
    "he": ("man", "boy", "person"),
    "she": ("woman", "girl", "person"),
    "they": ("crowd", "couple"),
}


class Word(NamedTuple):
    """One word; `concept` names its meaning and `weight` is how informative it is."""

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
    follows: dict[str, tuple[str, ...]] | None = None
    """Second words that form a phrase with this one, and the phrase's concepts."""


class Related(NamedTuple):
    """The concepts that entail another one, in full or in part, or oppose it.

    `opposing_camera` opposes it in camera elements; `actor` has the bits of possible actors, or 0.
    """

    full: tuple[str, ...]
    partial: tuple[str, ...]
    opposing: tuple[str, ...]
    opposing_camera: tuple[str, ...]
    actor: int


class Lexicon:
    """The word lists by stem (Porter, 1980; Snowball's English stemmer)."""

    def __init__(self) -> None:
        # Not `snowballstemmer.stemmer`: where PyStemmer is installed, that is another program.
        self._stem: Final = EnglishStemmer().stemWord
        self._cached = lru_cache(_MAX_CACHED)(self._read)
        self.related = lru_cache(_MAX_CACHED)(self._relate)
        """Returns the concepts that are related to one; the most recent ones are cached."""
        self._names: dict[str, str] = {}
        for meaning in SYNONYMS:
            for word in meaning:
                exact = word.startswith("=")
                self._names.setdefault(word[1:] if exact else self.lemma(word), meaning[0])
        self._verbs = {self._name(verb) for verb in VERBS}
        self._generic = {self.lemma(word) for word in GENERIC_WORDS}
        self._phrases: dict[str, dict[str, tuple[str, ...]]] = {}
        for first, second, concepts in PHRASES:
            followers = self._phrases.setdefault(self.lemma(first), {})
            followers[self.lemma(second)] = tuple(map(self._name, concepts))
        self._actors = {self._name(actor): mask for actor, mask in ACTORS.items()}
        self._members: dict[str, set[str]] = {}
        for kind, members in KINDS:
            self._members.setdefault(self._name(kind), set()).update(map(self._name, members))
        self._kinds: dict[str, set[str]] = {}
        for kind, kind_members in self._members.items():
            for member in kind_members:
                self._kinds.setdefault(member, set()).add(kind)
        self._opposites = self._excluding(OPPOSITES)
        self._camera_opposites = self._excluding(CAMERA_OPPOSITES)

    def lemma(self, word: str) -> str:
        """Return the stem of a lower-case word; irregular forms are looked up."""
        regular = IRREGULAR.get(word, word)
        # No English word is longer, and stemming a megabyte of letters would take seconds.
        return self._stem(regular) if len(regular) <= _MAX_STEMMED else regular

    def word(self, text: str) -> Word:
        """Return the meaning of a lower-case word; the most recent short ones are cached."""
        return self._read(text) if len(text) > _MAX_STEMMED else self._cached(text)

    def _relate(self, concept: str) -> Related:
        full, partial = self._entailing(concept)
        opposed = self._opposites.get(concept, set())
        camera = opposed | self._camera_opposites.get(concept, set())
        actor = self._actors.get(concept, 0)
        return Related(tuple(full), tuple(partial), tuple(opposed), tuple(camera), actor)

    def _entailing(self, concept: str) -> tuple[set[str], set[str]]:
        full = self._below(concept)
        partial = set(self._kinds.get(concept, ()))
        if concept in _FAMILY:
            mask = self._actors[concept]
            partial |= {other for other in _FAMILY if self._actors[other] & mask}
        for pronoun, meant in _PRONOUNS.items():
            if concept == "person":
                full.add(pronoun)
            elif concept in meant:
                partial.add(pronoun)
        colour = COLOURS.get(concept, 0)
        if colour:
            full |= {other for other, mask in COLOURS.items() if mask == colour}
            partial |= {other for other, mask in COLOURS.items() if mask & colour}
        limits = NUMBERS.get(concept)
        if limits and concept not in WEAK_NUMBERS:
            for other, (low, high) in NUMBERS.items():
                if other not in WEAK_NUMBERS and low <= limits[1] and limits[0] <= high:
                    (full if (low, high) == limits else partial).add(other)
        return full, partial - full

    def _name(self, word: str) -> str:
        lemma = self.lemma(word)
        return self._names.get(word) or self._names.get(lemma, lemma)

    def _below(self, concept: str) -> set[str]:
        found, waiting = {concept}, [concept]
        while waiting:
            for member in self._members.get(waiting.pop(), ()):
                if member not in found:
                    found.add(member)
                    waiting.append(member)
        return found

    def _excluding(self, opposites: list[list[list[str]]]) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for poles in opposites:
            named = [[self._name(word) for word in pole] for pole in poles]
            for here, there in permutations(named, 2):
                for concept in here:
                    found.setdefault(concept, set()).update(there)
        return found

    def _read(self, text: str) -> Word:
        if text in NEGATIONS:
            return Word("", text, text, 0.0, is_negation=True)
        if text in COLOURS:
            return Word(text, text, text, _CRITICAL, colour=COLOURS[text])
        if text in NUMBERS:
            weight = 0.0 if text in WEAK_NUMBERS else _CRITICAL
            return Word(text, text, text, weight, number=NUMBERS[text])
        if text[0].isdecimal():
            return self._read_digits(text)
        lemma = self.lemma(text)
        concept = self._name(text)
        follows = self._phrases.get(lemma)
        preposition = text in PREPOSITIONS
        if text in FUNCTION_WORDS:
            actor = self._actors.get(text, 0)
            return Word(
                text, lemma, text, 0.0, is_preposition=preposition, actor=actor, follows=follows
            )
        weight = _CONTENT
        if preposition or lemma in {"left", "right"}:
            weight = _PLACE
        elif lemma in self._generic:
            weight = _GENERIC
        return Word(
            concept,
            lemma,
            text,
            weight,
            is_verb=concept in self._verbs,
            is_preposition=preposition,
            actor=self._actors.get(concept, 0),
            follows=follows,
        )

    def _read_digits(self, text: str) -> Word:
        try:
            value = float(text)
        except ValueError:
            return Word(text, text, text, _CONTENT)
        spelt = next((word for word, limits in NUMBERS.items() if limits == (value, value)
                      and word not in WEAK_NUMBERS), text)  # fmt: skip
        return Word(spelt, text, text, _CRITICAL, number=(value, value))


@cache
def lexicon() -> Lexicon:
    """Return the lexicon; its first use builds it."""
    return Lexicon()
