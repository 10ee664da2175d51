"""Labels of elements that are known by their echoed content alone, as TUNA's files have them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

from capeval.errors import ReplyError
from capeval.files.validation import shown
from capeval.schema import RELATIONS, Relation

__all__ = ["normalised", "pair_echoes", "read_relation"]

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
    open_places: dict[str, list[int]] = {}
    for place, key in enumerate(keys):
        open_places.setdefault(key, []).append(place)
    found: dict[int, Relation] = {}
    strangers: list[tuple[str, Relation]] = []
    last: dict[str, Relation] = {}
    for content, relation in labels:
        key = normalised(content)
        if open_places.get(key):
            found[open_places[key].pop(0)] = last[key] = relation
        elif key not in last:
            strangers.append((content, relation))
        elif last[key] != relation:
            raise ReplyError(f"{name}: the element {shown(content)} is answered twice, differently")
        else:
            notes.append(f"classify: {name}: an element was answered twice, alike")
    for content, relation in strangers:
        meant = _slip(normalised(content), keys, [p for p in range(len(keys)) if p not in found])
        if meant is None:
            raise ReplyError(f"{name} has no visual element {shown(content)}; copy them exactly")
        found[meant] = relation
        notes.append(f"classify: {name}: an element was echoed with a slip")
    missing = [shown(elements[place]) for place in range(len(elements)) if place not in found]
    if missing:
        raise ReplyError(f"{name}: element(s) not answered: {', '.join(missing[:10])}")
    return tuple(found[place] for place in range(len(elements)))


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
