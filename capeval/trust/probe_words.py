"""The words of annotated sentences: what they say, and whether two of them share any of it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from capeval.judging.lexical.lexicon import lexicon
from capeval.judging.lexical.reading import tokens
from capeval.schema import Annotation, VisualElement

LONGEST_SENTENCE = 1_000
"""Characters. A visual element is one atomic statement; TUNA's longest has about 150."""

_PLACE, _CONTENT = 0.6, 1.0
"""The lexicon's weights: function words have 0, words of every caption 0.3, prepositions 0.6."""


def word_set(text: str) -> frozenset[str]:
    """Return the words of a list that is written as text."""
    return frozenset(text.split())


# At least one word in twelve is one of these in English, and in no other language: some of them are
# words elsewhere ("is", "of" in Dutch), but far rarer.
_ENGLISH = word_set(
    "the a an is are of with and his her their its in on to from by at behind which"
)
_SURELY_ENGLISH = word_set("the is are of with and his her their from which")
_ENGLISH_SHARE = 1 / 12
# Texts that could be taken for markup, a template or a reply.
_MARKUP = re.compile(r"[<>{}]|```")
_END = re.compile(r"[.!?…。！？]['\"”’)\]]*\Z")
# What a narrator says only at the beginning.
_OPENING = re.compile(
    r"^(?:at first|initially|first|in the beginning|to begin)\b"
    r"|\b(?:video|scene|clip|film|footage|shot|sequence|camera)\s(?:first\s|initially\s)?"
    r"(?:begins|starts|opens)\b|\b(?:begins|starts|opens)\swith\b|\bbeginning\b|\binitial(?:ly)?\b",
    re.IGNORECASE,
)

_LONGEST_ADDED = 40
"""Words of an added sentence."""
_LEAST_ADDED_WORDS = 2
"""Content words of an added sentence: with one, it says next to nothing."""
# A sentence with one of these is about something that was named before, or about the video itself.
_NOT_ALONE = word_set(
    """
    he she they it him them his her hers their theirs its himself herself itself themselves another
    other others same again also both next then finally now still back camera video scene shot frame
    screen lens view clip image footage background foreground
    """
)


@dataclass(frozen=True)
class Sentence:
    """One element's sentence as captions have it.

    `event` and `place` are from 0.
    """

    event: int
    place: int
    element: VisualElement
    text: str

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The lower-case words, with numbers and without punctuation."""
        return tuple(word for word in tokens(self.text) if word[0].isalnum())

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of all words, irregular forms looked up."""
        return stems(self.words)

    @cached_property
    def content(self) -> frozenset[str]:
        """What its content words mean: synonyms and forms of a word are one."""
        return _meanings(self.words, _CONTENT)

    @cached_property
    def meanings(self) -> frozenset[str]:
        """As `content`, with words of place such as "left" and "above"."""
        return _meanings(self.words, _PLACE)

    @cached_property
    def said(self) -> frozenset[str]:
        """The meanings, and those that they entail in full or in part: who says dog says animal."""
        return expanded(self.meanings)

    @cached_property
    def stands_alone(self) -> bool:
        """Whether it can be appended to another video's caption: its subject is named in it."""
        return (
            self.element.type in ("action", "attribute")
            and len(self.content) >= _LEAST_ADDED_WORDS
            and len(self.words) <= _LONGEST_ADDED
            and not self.is_opening
            and _NOT_ALONE.isdisjoint(self.words)
        )

    @property
    def is_opening(self) -> bool:
        """Whether it says that something is the beginning of the video."""
        return bool(_OPENING.search(self.text))


def stems(words: Iterable[str]) -> frozenset[str]:
    """Return the stems of lower-case words.

    >>> sorted(stems(["zooming", "zooms", "children"]))
    ['child', 'zoom']
    """
    return frozenset(map(_stem, words))


@lru_cache(maxsize=100_000)
def _stem(word: str) -> str:
    return lexicon().lemma(word)


def _meanings(words: Iterable[str], least: float) -> frozenset[str]:
    meant = map(lexicon().word, words)
    return frozenset(word.concept for word in meant if word.weight >= least)


def expanded(meanings: frozenset[str]) -> frozenset[str]:
    """Return meanings with all that they entail in full or in part."""
    return meanings.union(*map(_entailed, meanings))


@lru_cache(maxsize=100_000)
def _entailed(meaning: str) -> frozenset[str]:
    related = lexicon().related(meaning)
    return related.full | related.partial


@dataclass(frozen=True)
class Video:
    """The usable sentences of one annotated video, in the order of its events."""

    annotation: Annotation
    sentences: tuple[Sentence, ...]

    @property
    def index(self) -> str:
        """The video's index."""
        return self.annotation.index

    @cached_property
    def events(self) -> tuple[tuple[Sentence, ...], ...]:
        """The sentences of each event; an event may have none."""
        found: list[list[Sentence]] = [[] for _ in self.annotation.events]
        for sentence in self.sentences:
            found[sentence.event].append(sentence)
        return tuple(map(tuple, found))

    @cached_property
    def meanings(self) -> frozenset[str]:
        """What all sentences and event texts mean."""
        own = frozenset[str]().union(*(sentence.meanings for sentence in self.sentences))
        return own | _meanings(self.event_words, _PLACE)

    @cached_property
    def said(self) -> frozenset[str]:
        """The meanings and what they entail."""
        return expanded(self.meanings)

    @cached_property
    def event_words(self) -> tuple[str, ...]:
        """The words of the event texts."""
        words = (word for event in self.annotation.events for word in tokens(event.event))
        return tuple(word for word in words if word[0].isalnum())

    @cached_property
    def all_stems(self) -> frozenset[str]:
        """The stems of all sentences and event texts."""
        own = frozenset[str]().union(*(sentence.stems for sentence in self.sentences))
        return own | stems(self.event_words)

    @cached_property
    def is_english(self) -> bool:
        """Whether the sentences are English: only its words and forms are known."""
        words = [word for sentence in self.sentences for word in sentence.words]
        sure = sum(word in _SURELY_ENGLISH for word in words)
        return sure > 0 and sum(word in _ENGLISH for word in words) >= _ENGLISH_SHARE * len(words)


def read_video(annotation: Annotation) -> Video:
    """Return the usable sentences of a video."""
    found: list[Sentence] = []
    seen: set[tuple[str, ...]] = set()
    for number, event in enumerate(annotation.events):
        for place, element in enumerate(event.visual_elements):
            if not _is_statement(element.content):
                continue
            sentence = Sentence(number, place, element, _as_sentence(element.content))
            # A judge may take the second for a mere repeat, which its prompt says to ignore.
            if sentence.words not in seen:
                seen.add(sentence.words)
                found.append(sentence)
    return Video(annotation, tuple(found))


def _is_statement(content: str) -> bool:
    """Return whether a text has words, can be shown, and does not look like markup."""
    return (
        len(content) <= LONGEST_SENTENCE
        and all(
            character.isspace()
            or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Cn")
            for character in content
        )
        and any(word[0].isalnum() for word in tokens(content))
        and not _MARKUP.search(content)
    )


def _as_sentence(content: str) -> str:
    text = " ".join(content.split())
    return text if _END.search(text) else f"{text}."
