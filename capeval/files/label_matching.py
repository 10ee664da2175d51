"""Labels of elements that are known by their echoed content alone, as TUNA's files have them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from capeval.errors import ReplyError
from capeval.schema import RELATIONS, Relation
from capeval.text import shown

_PUNCTUATION = re.compile(r"[\W_]+")

# An echo with one misspelt word is still that element; a paraphrase is not.
_SAME_WORD = 0.8


def normalised(text: str) -> str:
    """Return text for comparing echoes: case, punctuation and spacing do not count.

    >>> normalised("The  van has the logo “KXBD”.")
    'the van has the logo kxbd'
    """
    return _PUNCTUATION.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


def read_relation(value: Any, of: str) -> Relation:
    """Return a label of the closed set, whatever its case."""
    label = value.strip().strip(".'\"").lower() if isinstance(value, str) else value
    for relation in RELATIONS:
        if label == relation:
            return relation
    raise ReplyError(
        f"{of} has the relation {shown(value)}; it must be one of {', '.join(RELATIONS)}"
    )


def pair_echoes(
    elements: Sequence[str],
    labels: Sequence[tuple[str, Relation]],
    name: str,
    notes: list[str],
) -> tuple[Relation, ...]:
    """Give each element the label of its echo: by normalised content, not by position.

    An echo with one misspelt word is taken for the element that it must mean, and noted.

    Raises
    ------
    ReplyError
        Elements are missing, doubled with different labels, or invented.
    """
    keys = [normalised(element) for element in elements]
    found: dict[int, Relation] = {}
    strangers: list[tuple[str, Relation]] = []
    last: dict[str, Relation] = {}
    for content, relation in labels:
        place = _place_of(content, elements, keys, found)
        if place is not None:
            found[place] = last[normalised(content)] = relation
        elif normalised(content) not in last:
            strangers.append((content, relation))
        elif last[normalised(content)] != relation:
            raise ReplyError(f"{name}: the element {shown(content)} is answered twice, differently")
        else:
            notes.append(f"classify: {name}: an element was answered twice, alike")
    for content, relation in strangers:
        meant = _slip(normalised(content), keys, [p for p in range(len(keys)) if p not in found])
        if meant is None:
            raise ReplyError(f"{name} has no visual element {shown(content)}; copy them exactly")
        found[meant] = relation
        notes.append(f"classify: {name}: an element was repeated with a slip, and recognised")
    missing = [shown(elements[place]) for place in range(len(elements)) if place not in found]
    if missing:
        raise ReplyError(f"{name}: element(s) not answered: {', '.join(missing[:10])}")
    return tuple(found[place] for place in range(len(elements)))


def _place_of(
    content: str, elements: Sequence[str], keys: Sequence[str], found: Mapping[int, Relation]
) -> int | None:
    """Return the element that an echo means: the very words first, then the same but for case."""
    open_places = [place for place in range(len(elements)) if place not in found]
    for place in open_places:
        if elements[place].strip() == content.strip():
            return place
    key = normalised(content)
    near = [place for place in open_places if keys[place] == key]
    # "+5" and "-5" are alike but for their signs: an echo of neither means neither.
    alike = {element.strip() for element, other in zip(elements, keys, strict=True) if other == key}
    return near[0] if near and len(alike) == 1 else None


def _slip(content: str, keys: Sequence[str], left: Sequence[int]) -> int | None:
    near = [place for place in left if _one_word_off(content.split(), keys[place].split())]
    # Two elements that it may mean are no element that it must mean.
    return near[0] if len({keys[place] for place in near}) == 1 else None


def _one_word_off(told: Sequence[str], meant: Sequence[str]) -> bool:
    if len(told) != len(meant):
        return False
    changed = [(a, b) for a, b in zip(told, meant, strict=True) if a != b]
    return len(changed) == 1 and _misspelt(*changed[0])


def _misspelt(told: str, meant: str) -> bool:
    # Not "left" for "right", "2" for "3", or "unlocked" for "locked": that is another statement.
    if told[0] != meant[0] or any(c.isdigit() for c in told + meant):
        return False
    return SequenceMatcher(None, told, meant).ratio() >= _SAME_WORD
