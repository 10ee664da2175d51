"""One stretch of text as the judge reads it: meanings, and what is claimed of whom."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from capeval.judging.lexical.lexicon import Lexicon, Word
from capeval.judging.lexical.word_lists import WEAK_NUMBERS

NOT = "¬"
"""Stands before a concept that is denied."""

_TOKEN = re.compile(r"\d++(?:[.,]\d++)*+|[^\W_]++(?:'[^\W_]++)?+|'s|[,;:]")
_POSSESSIVE = re.compile(r"'s\b")
_STOP = Word("", ",", ",", 0.0)
_MARKS = frozenset(",;:")
_DENIED = 3
_VERB_ENDINGS = ("s", "ed", "ing")
_JOINING = frozenset({"and", "or", "but", "while", "when", "as", "who", "where"})
_AUXILIARIES = frozenset({"is", "are", "was", "were", "be", "been", "being"})


class Claim(NamedTuple):
    """A colour or a number said of a thing.

    `concept` is the word that claims and `head` what it is said of. A colour has its bits in
    `colour`; a number its least and most in `limits`.
    """

    concept: str
    head: str
    colour: int = 0
    limits: tuple[float, float] | None = None

    def excludes(self, other: Claim) -> bool:
        """Return whether both cannot hold of one thing."""
        if self.colour and other.colour:
            return not self.colour & other.colour
        if self.limits and other.limits:
            return self.limits[1] < other.limits[0] or other.limits[1] < self.limits[0]
        return False


class Reading(NamedTuple):
    """`concepts` with their weights, denied ones after `NOT`; claims; and who acts, as bits."""

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


def read(said: Sequence[str], lexicon: Lexicon) -> Reading:
    """Read the tokens of one piece of text."""
    look = lexicon.word
    words = [_STOP if text in _MARKS else look(text) for text in said]
    concepts: dict[str, float] = {}
    denied = 0
    skip = False
    critical = False
    for at, word in enumerate(words):
        if skip:
            skip = False
            continue
        if word.is_preposition and 0 < denied < _DENIED:
            denied = 0
        if word.weight == 0.0 and not word.follows:
            if word.is_negation:
                following = said[at + 1] if at + 1 < len(said) else ""
                denied = 0 if following == "only" else _DENIED
                if following == "one":
                    concepts[NOT + "person"] = 1.0
                    skip = True
            elif word is _STOP or word.lemma == "but":
                denied = 0
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
            name = NOT + concept if denied else concept
            concepts[name] = max(word.weight, concepts.get(name, 0.0))
        denied -= denied > 0
    actor, actor_concept = _acting(words)
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
    # "a black and white shirt": the shirt is both.
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
    # complete: where the last word may be one ("black wolf bares"), the word before it counts too.
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
    # Said after its noun: "the dress is red", "a man in black".
    for word in words[max(0, start - 4) : start + 1][::-1]:
        if word is _STOP:
            break
        if word.weight > 0.0 and not (word.colour or word.number or word.is_preposition):
            return [word.concept]
    return []


def _acting(words: list[Word]) -> tuple[int, str]:
    # Who stands before a verb and under no preposition, clause by clause; or after "thrown by".
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
