"""The meaning of a single word: its concept, its weight and its part of speech."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import chain, permutations
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
MARKS = frozenset(",;:")
"""Inner punctuation, which is read as a word."""
JOINING = frozenset({"and", "or", "but", "while", "when", "as", "who", "where"})
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
    is_plain: bool = False
    """It only adds its concept: most words, so they are recognised first."""
    is_idle: bool = False
    """It adds nothing and changes nothing for the words after it."""
    is_claim: bool = False
    """It is a colour or a number."""
    may_act: bool = False
    """It can decide who acts: as an actor, a verb, or a bound between them."""

    def classified(self) -> Word:
        """Return the word with the last four fields, which follow from the others."""
        claim, joins = bool(self.colour or self.number), self.lemma in JOINING
        is_bound = self.text in MARKS or joins or self.is_preposition
        is_inert = not (self.follows or self.is_preposition)
        ends_negation = self.is_negation or self.text in MARKS or self.lemma == "but"
        return self._replace(
            is_plain=is_inert and self.weight > 0.0 and not (claim or joins),
            is_idle=is_inert and self.weight == 0.0 and not (ends_negation or self.actor),
            is_claim=claim,
            may_act=is_bound or bool(self.actor) or (self.is_verb and self.weight >= 1.0),
        )


STOP: Final = Word("", ",", ",", 0.0).classified()
"""Any punctuation within a text."""


class Related(NamedTuple):
    """Concepts that are related to one: as entailed in full or in part, or as its opposites.

    `opposing_camera` are its opposites in camera elements, `near` those and the partial ones,
    and `any` all together.
    """

    full: frozenset[str]
    partial: frozenset[str]
    opposing: frozenset[str]
    opposing_camera: frozenset[str]
    near: frozenset[str]
    any: frozenset[str]


class Lexicon:
    """The word lists by stem (Porter, 1980; Snowball's English stemmer)."""

    def __init__(self) -> None:
        # Not `snowballstemmer.stemmer`: where PyStemmer is installed, that is another program.
        self._stem: Final = EnglishStemmer().stemWord
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
        self.actors: Final = {self._name(actor): mask for actor, mask in ACTORS.items()}
        """Concept -> the bits of the actors that it may stand for."""
        self._members: dict[str, set[str]] = {}
        for kind, members in KINDS:
            self._members.setdefault(self._name(kind), set()).update(map(self._name, members))
        self._kinds: dict[str, set[str]] = {}
        for kind, kind_members in self._members.items():
            for member in kind_members:
                self._kinds.setdefault(member, set()).add(kind)
        self._opposites = self._excluding(OPPOSITES)
        self._camera_opposites = self._excluding(CAMERA_OPPOSITES)
        self.related: Final = self._by_mention()
        """Concept -> what a text that mentions it entails in full, in part, and opposes.

        A concept that is not in the word lists is missing: it entails only itself.
        """
        self.words: Final = _Words(self._read)
        """Lower-case word or punctuation -> its meaning."""

    def lemma(self, word: str) -> str:
        """Return the stem of a lower-case word; irregular forms are looked up."""
        regular = IRREGULAR.get(word, word)
        # No English word is longer, and stemming a megabyte of letters would take seconds.
        return self._stem(regular) if len(regular) <= _MAX_STEMMED else regular

    def _by_mention(self) -> dict[str, Related]:
        listed = {*COLOURS, *NUMBERS, *_FAMILY, *chain(*_PRONOUNS.values())}
        listed.update(self._members, self._kinds, self._opposites, self._camera_opposites)
        found: dict[str, tuple[list[str], ...]] = {}
        for concept in sorted(listed):
            opposed = self._opposites.get(concept, set())
            camera = opposed | self._camera_opposites.get(concept, set())
            for place, mentions in enumerate((*self._entailing(concept), opposed, camera)):
                for mention in mentions:
                    found.setdefault(mention, ([], [], [], []))[place].append(concept)
        for mention in found.keys() - listed:
            found[mention][0].append(mention)
        return {
            mention: Related(*map(frozenset, (*lists, lists[1] + lists[3], chain(*lists))))
            for mention, lists in found.items()
        }

    def _entailing(self, concept: str) -> tuple[set[str], set[str]]:
        full = self._below(concept)
        partial = set(self._kinds.get(concept, ()))
        if concept in _FAMILY:
            mask = self.actors[concept]
            partial |= {other for other in _FAMILY if self.actors[other] & mask}
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
            actor = self.actors.get(text, 0)
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
            actor=self.actors.get(concept, 0),
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


class _Words(dict[str, Word]):
    """The words that were read; the dictionary itself looks them up, so that it costs no call."""

    def __init__(self, read: Callable[[str], Word]) -> None:
        super().__init__(dict.fromkeys(MARKS, STOP))
        self._read = read

    def __missing__(self, text: str) -> Word:
        word = self._read(text).classified()
        if len(text) <= _MAX_STEMMED:
            if len(self) >= _MAX_CACHED:
                self.clear()
                self.update(dict.fromkeys(MARKS, STOP))
            self[text] = word
        return word


@cache
def lexicon() -> Lexicon:
    """Return the lexicon; its first use builds it."""
    return Lexicon()
