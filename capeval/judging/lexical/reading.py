"""A piece of text as the judge reads it: meanings, claims of colours and numbers, and who acts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import compress
from operator import itemgetter
from typing import NamedTuple

from capeval.judging.lexical.lexicon import JOINING, STOP, Lexicon, Word
from capeval.judging.lexical.word_lists import WEAK_NUMBERS

NOT = "¬"
"""Prefix of a concept that is negated."""

_TOKEN = re.compile(r"\d++(?:[.,]\d++)*+|[^\W_]++(?:'[^\W_]++)?+|'s|[,;:]")
# Faster than a loop over the words: most of them are neither.
_IS_CLAIM, _MAY_ACT = (itemgetter(Word._fields.index(name)) for name in ("is_claim", "may_act"))
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
    """`concepts` with their weights (negated ones with the prefix `NOT`), claims, and who acts.

    `negates` says whether some are negated.
    """

    concepts: dict[str, float]
    claims: tuple[Claim, ...]
    actor: int
    actor_concept: str
    negates: bool


def tokens(text: str) -> list[str]:
    """Return the lower-case words and inner punctuation of a text.

    >>> tokens("A man's 2 dogs, 3.5 m: run!")
    ['a', 'man', "'s", '2', 'dogs', ',', '3.5', 'm', ':', 'run']
    """
    text = text.lower().replace("’", "'")
    return _TOKEN.findall(_POSSESSIVE.sub(" 's", text) if "'s" in text else text)


def read(texts: Sequence[str], lexicon: Lexicon) -> Reading:
    """Read the tokens of one piece of text."""
    words = list(map(lexicon.words.__getitem__, texts))
    concepts: dict[str, float] = {}
    negated = 0
    skip = False
    negates = False
    skipped_claims = 0
    for at, word in enumerate(words):
        if skip:
            skip = False
            skipped_claims += word.is_claim
        elif word.is_plain:
            name = word.concept
            if negated:
                name = NOT + name
                negated -= 1
            if concepts.get(name, 0.0) < word.weight:
                concepts[name] = word.weight
        elif not word.is_idle:
            if word.is_preposition and 0 < negated < _NEGATION_REACH:
                negated = 0
            if word.weight == 0.0 and not word.follows:
                if word.is_negation:
                    following = texts[at + 1] if at + 1 < len(texts) else ""
                    negated = 0 if following == "only" else _NEGATION_REACH
                    negates = True
                    if following == "one":
                        concepts[NOT + "person"] = 1.0
                        skip = True
                elif word is STOP or word.lemma == "but":
                    negated = 0
                elif word.actor:
                    concepts.setdefault(word.concept, 0.0)
                continue
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
    places = range(len(words))
    claims = list(compress(places, map(_IS_CLAIM, words)))
    actor, actor_concept = _actor_of(words, compress(places, map(_MAY_ACT, words)))
    merged = _claims(words, claims) if len(claims) > skipped_claims else ()
    return Reading(concepts, merged, actor, actor_concept, negates)


def _claims(words: list[Word], places: Iterable[int]) -> tuple[Claim, ...]:
    # "a black and white shirt": the shirt has both colours.
    found: dict[tuple[str, bool], Claim] = {}
    for at in places:
        word = words[at]
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
        if not word.is_plain:
            if word.is_claim or (last is None and word.lemma in JOINING):
                continue
            if word is STOP or word.weight == 0.0 or word.is_preposition:
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


def _actor_of(words: list[Word], places: Iterable[int]) -> tuple[int, str]:
    # The noun before a verb that no preposition governs, clause by clause; or after "thrown by".
    mask, concept = 0, ""
    governed = passive = acted = False
    for at in places:
        word = words[at]
        if word is STOP or word.lemma in JOINING:
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
