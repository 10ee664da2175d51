"""A piece of text as the judge reads it: meanings, claims of colours and numbers, and who acts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from capeval.judging.lexical.lexicon import Lexicon, Word
from capeval.judging.lexical.word_lists import WEAK_NUMBERS

NOT = "¬"
"""Prefix of a concept that is negated."""

_TOKEN = re.compile(r"\d++(?:[.,]\d++)*+|[^\W_]++(?:'[^\W_]++)?+|'s|[,;:]")
_POSSESSIVE = re.compile(r"'s\b")
_STOP = Word("", ",", ",", 0.0)
_MARKS = frozenset(",;:")
_NEGATION_REACH = 3
_VERB_ENDINGS = ("s", "ed", "ing")
_JOINING = frozenset({"and", "or", "but", "while", "when", "as", "who", "where"})
_AUXILIARIES = frozenset({"is", "are", "was", "were", "be", "been", "being"})


class Claim(NamedTuple):
    """A colour or a number of a thing.

    `concept` is the word for the colour or number, and `head` is the thing. A colour has its bits
    in `colour`, a number its minimum and maximum in `limits`.
    """

    concept: str
    head: str
    colour: int = 0
    limits: tuple[float, float] | None = None

    def excludes(self, other: Claim) -> bool:
        """Return whether both cannot be true of one thing."""
        if self.colour and other.colour:
            return not self.colour & other.colour
        if self.limits and other.limits:
            return self.limits[1] < other.limits[0] or other.limits[1] < self.limits[0]
        return False


class Reading(NamedTuple):
    """`concepts` with their weights (negated ones with the prefix `NOT`), claims, and who acts."""

    concepts: dict[str, float]
    claims: tuple[Claim, ...]
    actor: int
    actor_concept: str


def tokens(text: str) -> list[str]:
    """Return the lower-case words and inner punctuation of a text.

    >>> tokens("A man's 2 dogs, 3.5 m: run!")
    ['a', 'man', "'s", '2', 'dogs', ',', '3.5', 'm', ':', 'run']
    """
    return _TOKEN.findall(_POSSESSIVE.sub(" 's", text.lower().replace("’", "'")))


def read(texts: Sequence[str], lexicon: Lexicon) -> Reading:
    """Read the tokens of one piece of text."""
    word_of = lexicon.word
    words = [_STOP if text in _MARKS else word_of(text) for text in texts]
    concepts: dict[str, float] = {}
    negated = 0
    skip = False
    critical = False
    for at, word in enumerate(words):
        if skip:
            skip = False
            continue
        if word.is_preposition and 0 < negated < _NEGATION_REACH:
            negated = 0
        if word.weight == 0.0 and not word.follows:
            if word.is_negation:
                following = texts[at + 1] if at + 1 < len(texts) else ""
                negated = 0 if following == "only" else _NEGATION_REACH
                if following == "one":
                    concepts[NOT + "person"] = 1.0
                    skip = True
            elif word is _STOP or word.lemma == "but":
                negated = 0
            elif word.actor:
                concepts.setdefault(word.concept, 0.0)
            critical = critical or word.number is not None
            continue
        if word.colour or word.number:
            critical = True
        named: Iterable[str] = (word.concept,)
        if word.follows and at + 1 < len(words):
            phrase = word.follows.get(words[at + 1].lemma)
            if phrase:
                named, skip = phrase, True
        if word.weight == 0.0 and not skip:
            continue
        for concept in named:
            name = NOT + concept if negated else concept
            concepts[name] = max(word.weight, concepts.get(name, 0.0))
        negated -= negated > 0
    actor, actor_concept = _actor_of(words)
    return Reading(concepts, _merged(_claims(words)) if critical else (), actor, actor_concept)


def _claims(words: list[Word]) -> Iterable[Claim]:
    for at, word in enumerate(words):
        if word.colour or word.number:
            heads = _heads_after(words, at + 1, after_article=word.weight == 0.0)
            if not heads and word.weight > 0.0:
                heads = _heads_before(words, at - 1)
            for head in heads:
                yield Claim(word.concept, head, word.colour, word.number)


def _merged(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    # "a black and white shirt": the shirt has both colours.
    found: dict[tuple[str, bool], Claim] = {}
    for claim in claims:
        key = claim.head, claim.limits is None
        old = found.get(key)
        if old is None or (old.limits and old.concept in WEAK_NUMBERS):
            found[key] = claim
        elif claim.colour:
            found[key] = old._replace(colour=old.colour | claim.colour)
    return tuple(found.values())


def _heads_after(words: list[Word], start: int, *, after_article: bool) -> list[str]:
    # The last noun of the phrase: "white news van", "black and white shirt". No list of verbs is
    # complete: if the last word may be a verb ("black wolf bares"), the word before it counts too.
    phrase: list[Word] = []
    for word in words[start : start + 5]:
        if word.colour or word.number or (not phrase and word.lemma in _JOINING):
            continue
        if word is _STOP or word.weight == 0.0 or word.is_preposition:
            break
        if word.is_verb and (phrase or not after_article):
            break
        phrase.append(word)
    doubtful = len(phrase) > 1 and phrase[-1].text.endswith(_VERB_ENDINGS)
    return [word.concept for word in phrase[-2 if doubtful else -1 :]]


def _heads_before(words: list[Word], start: int) -> list[str]:
    # A claim after its noun: "the dress is red", "a man in black".
    for word in words[max(0, start - 4) : start + 1][::-1]:
        if word is _STOP:
            break
        if word.weight > 0.0 and not (word.colour or word.number or word.is_preposition):
            return [word.concept]
    return []


def _actor_of(words: list[Word]) -> tuple[int, str]:
    # The noun before a verb that no preposition governs, clause by clause; or after "thrown by".
    mask, concept = 0, ""
    governed = passive = acted = False
    for at, word in enumerate(words):
        if word is _STOP or word.lemma in _JOINING:
            governed = acted = passive = False
        elif word.is_preposition:
            # "with a dog standing beside him": the dog stands.
            governed = word.text != "with"
            if passive and word.lemma == "by":
                agent = next((other for other in words[at + 1 : at + 5] if other.actor), None)
                mask, concept = (agent.actor, agent.concept) if agent else (mask, concept)
        elif word.actor:
            if not (governed or acted):
                mask |= word.actor
                concept = concept or word.concept
            governed = False
        elif word.is_verb and word.weight >= 1.0:
            passive = at > 0 and words[at - 1].text in _AUXILIARIES
            acted = True
    return mask, concept
