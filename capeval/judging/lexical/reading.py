"""A piece of text as the judge reads it: meanings, claims of colours and numbers, and who acts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from capeval.judging.lexical.lexicon import JOINING, STOP, WEAK_NUMBERS, Word, lexicon

NOT = "¬"
"""Prefix of a concept that is negated."""

_TOKEN = re.compile(r"\d++(?:[.,]\d++)*+|[^\W_]++(?:'[^\W_]++)?+|'s|[,;:]")
_POSSESSIVE = re.compile(r"'s\b")
_NEGATION_REACH = 3
_VERB_ENDINGS = ("s", "ed", "ing")
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


def read(texts: Sequence[str]) -> Reading:
    """Read the tokens of one piece of text."""
    words = [*map(lexicon().word, texts)]
    concepts: dict[str, float] = {}
    # How many of the next words a negation reaches.
    negated = 0
    skip = has_claims = False
    for word, following in pairwise([*words, STOP]):
        if skip:
            skip = False
            continue
        has_claims = has_claims or word.is_claim
        if word.is_preposition and 0 < negated < _NEGATION_REACH:
            negated = 0
        phrase = word.follows.get(following.lemma) if word.follows else None
        if phrase or word.weight > 0.0:
            for concept in phrase or (word.concept,):
                name = NOT + concept if negated else concept
                concepts[name] = max(word.weight, concepts.get(name, 0.0))
            negated = max(0, negated - 1)
            skip = phrase is not None
        elif word.is_negation:
            negated = 0 if following.text == "only" else _NEGATION_REACH
            if following.text == "one":
                concepts[NOT + "person"] = 1.0
                skip = True
        elif word is STOP or word.lemma == "but":
            negated = 0
        elif word.actor and not word.follows:
            concepts.setdefault(word.concept, 0.0)
    return Reading(concepts, _claims(words) if has_claims else (), *_actor_of(words))


def _claims(words: list[Word]) -> tuple[Claim, ...]:
    # "a black and white shirt": the shirt has both colours.
    found: dict[tuple[str, bool], Claim] = {}
    for at, word in enumerate(words):
        if not word.is_claim:
            continue
        heads = _heads_after(words, at + 1, after_article=word.weight == 0.0)
        if not heads and word.weight > 0.0:
            heads = _heads_before(words, at - 1)
        for head in heads:
            key = head, word.number is None
            old = found.get(key)
            if old is None or (old.limits and old.concept in WEAK_NUMBERS):
                found[key] = Claim(word.concept, head, word.colour, word.number)
            elif word.colour:
                found[key] = old._replace(colour=old.colour | word.colour)
    return tuple(found.values())


def _heads_after(words: list[Word], start: int, *, after_article: bool) -> Sequence[str]:
    # The last noun of the phrase: "white news van", "black and white shirt". No list of verbs is
    # complete: if the last word may be a verb ("black wolf bares"), the word before it counts too.
    before = last = None
    for word in words[start : start + 5]:
        if word.is_claim or (last is None and word.lemma in JOINING):
            continue
        if word.weight == 0.0 or word.is_preposition:
            break
        if word.is_verb and (last is not None or not after_article):
            break
        before, last = last, word
    if last is None:
        return ()
    if before is None or not last.text.endswith(_VERB_ENDINGS):
        return (last.concept,)
    return (before.concept, last.concept)


def _heads_before(words: list[Word], start: int) -> Sequence[str]:
    # A claim after its noun: "the dress is red", "a man in black".
    for word in words[max(0, start - 4) : start + 1][::-1]:
        if word is STOP:
            break
        if word.weight > 0.0 and not (word.is_claim or word.is_preposition):
            return (word.concept,)
    return ()


def _actor_of(words: list[Word]) -> tuple[int, str]:
    # The noun before a verb that no preposition governs, clause by clause; or after "thrown by".
    actor, concept = 0, ""
    governed = passive = acted = False
    for at, word in enumerate(words):
        if word is STOP or word.lemma in JOINING:
            governed = acted = passive = False
        elif word.is_preposition:
            # "with a dog standing beside him": the dog stands.
            governed = word.text != "with"
            if passive and word.lemma == "by":
                agent = next((other for other in words[at + 1 : at + 5] if other.actor), None)
                actor, concept = (agent.actor, agent.concept) if agent else (actor, concept)
        elif word.actor:
            if not (governed or acted):
                actor |= word.actor
                concept = concept or word.concept
            governed = False
        elif word.is_verb and word.weight >= 1.0:
            passive = at > 0 and words[at - 1].text in _AUXILIARIES
            acted = True
    return actor, concept
