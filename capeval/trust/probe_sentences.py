"""The sentences of annotated elements, and which of them say something that no other says."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from capeval.judging.lexical import Words, content_words
from capeval.schema import Annotation, VisualElement
from capeval.text import words

_LEAST_OWN = 2
"""Content words that no other says: one alone, such as "static", may follow from other words."""
# Words of place, and of every caption: they tell little about what is in this video.
_COMMON = content_words(
    """
    in into out up down onto over under near behind above below beside through around across away
    back left right top bottom side front camera video scene shot view frame clip footage background
    foreground begin start end show appear visible remain stay
    """
)
# At least one word in twelve is one of these in English, and in no other language: some of them are
# words elsewhere ("is", "of" in Dutch), but far rarer.
_SURELY_ENGLISH = frozenset(["the", "is", "are", "of", "with", "and", "his", "her", "from"])
_ENGLISH_SHARE = 1 / 12
_MARKUP = re.compile(r"[<>{}]|```")
_END = re.compile(r"[.!?…。！？]['\"”’)\]]*\Z")
# What a narrator says only at the beginning.
_OPENING = re.compile(
    r"^(?:at )?first\b|\b(?:begins|beginning|starts with|opens (?:on|with)|initial|initially)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ProbeSentence:
    """One element's sentence as captions have it; `event` and `place` are from 0."""

    event: int
    place: int
    element: VisualElement
    text: str

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The lower-case words."""
        return tuple(words(self.text))

    @cached_property
    def stems(self) -> Words:
        """The stems of its words, without function words."""
        return content_words(self.text)

    @cached_property
    def content(self) -> Words:
        """The stems that tell what is in the video."""
        return self.stems - _COMMON

    @property
    def is_opening(self) -> bool:
        """Whether it says that something is the beginning of the video."""
        return bool(_OPENING.search(self.text))


@dataclass(frozen=True)
class ProbedVideo:
    """The usable sentences of one annotated video, in the order of its events."""

    annotation: Annotation
    sentences: tuple[ProbeSentence, ...]

    @cached_property
    def events(self) -> list[list[ProbeSentence]]:
        """The sentences of each event; an event may have none."""
        numbers = range(len(self.annotation.events))
        return [[one for one in self.sentences if one.event == number] for number in numbers]

    @cached_property
    def is_english(self) -> bool:
        """Whether the sentences are English: only its words and forms are known."""
        every = [word for sentence in self.sentences for word in sentence.words]
        return sum(word in _SURELY_ENGLISH for word in every) > _ENGLISH_SHARE * len(every)


def unstated(
    sentences: Iterable[ProbeSentence], others: Iterable[ProbeSentence]
) -> list[ProbeSentence]:
    """Return the sentences of which others say neither much nor all but one word."""
    said = frozenset[str]().union(*(other.content for other in others))
    return [
        one
        for one in sentences
        if len(own := one.content - said) >= _LEAST_OWN and 2 * len(own) > len(one.content)
    ]


def read_video(annotation: Annotation) -> ProbedVideo:
    """Return the usable sentences of a video."""
    found: list[ProbeSentence] = []
    for number, event in enumerate(annotation.events):
        for place, element in enumerate(event.visual_elements):
            # Not what could be taken for markup, a template or a reply.
            if words(element.content) and not _MARKUP.search(element.content):
                found.append(ProbeSentence(number, place, element, _as_sentence(element.content)))
    # A judge may take the second of two equal sentences for a mere repeat.
    first = {sentence.words: sentence for sentence in reversed(found)}
    return ProbedVideo(annotation, tuple(one for one in found if first[one.words] is one))


def _as_sentence(content: str) -> str:
    text = " ".join(content.split())
    return text if _END.search(text) else f"{text}."
