"""Match labels to elements by their repeated content, the only key that TUNA's files have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from capeval.errors import ReplyError
from capeval.schema import RELATIONS, Relation
from capeval.text import normal_form, shown

_PUNCTUATION = re.compile(r"[\W_]+")

# The similarity of a misspelt word to the right one: one wrong letter in a word of five.
_SAME_WORD = 0.8


def normalised(text: str) -> str:
    """Return text for comparison: without case, punctuation and extra spaces.

    >>> normalised("The  van has the logo “KXBD”.")
    'the van has the logo kxbd'
    """
    return _PUNCTUATION.sub(" ", normal_form(text).casefold()).strip()


def read_relation(value: Any, of: str) -> Relation:
    """Return a label of the closed set; case is ignored."""
    label = value.strip().strip(".'\"").lower() if isinstance(value, str) else value
    for relation in RELATIONS:
        if label == relation:
            return relation
    raise ReplyError(
        f"{of} has the relation {shown(value)}; it must be one of {', '.join(RELATIONS)}"
    )


def match_labels(
    elements: Sequence[str],
    labels: Sequence[tuple[str, Relation]],
    name: str,
    notes: list[str],
) -> tuple[Relation, ...]:
    """Return the label of each element, matched by normalised content and not by position.

    Content with one misspelt word matches if only one element is so similar; this is noted.
    ReplyError if elements are missing, invented, or duplicated with different labels.
    """
    keys = [normalised(element) for element in elements]
    found: dict[int, Relation] = {}
    unmatched: list[tuple[str, str, Relation]] = []
    last: dict[str, Relation] = {}
    for content, relation in labels:
        key = normalised(content)
        place = _place_of(content, key, elements, keys, found)
        if place is not None:
            found[place] = last[key] = relation
        elif key not in last:
            unmatched.append((content, key, relation))
        elif last[key] != relation:
            raise ReplyError(f"{name}: the element {shown(content)} is answered twice, differently")
        else:
            notes.append(f"classify: {name}: an element was answered twice, alike")
    for content, key, relation in unmatched:
        meant = _misspelt_element(key, keys, [p for p in range(len(keys)) if p not in found])
        if meant is None:
            raise ReplyError(f"{name} has no visual element {shown(content)}; copy them exactly")
        found[meant] = relation
        notes.append(f"classify: {name}: an element was repeated with a slip, and recognised")
    missing = [shown(elements[place]) for place in range(len(elements)) if place not in found]
    if missing:
        raise ReplyError(f"{name}: element(s) not answered: {', '.join(missing[:10])}")
    return tuple(found[place] for place in range(len(elements)))


def _place_of(
    content: str,
    key: str,
    elements: Sequence[str],
    keys: Sequence[str],
    found: Mapping[int, Relation],
) -> int | None:
    """Return the element with this content: exactly the same, else the same when normalised."""
    open_places = [place for place in range(len(elements)) if place not in found]
    for place in open_places:
        if elements[place].strip() == content.strip():
            return place
    near = [place for place in open_places if keys[place] == key]
    # "+5" and "-5" are equal when normalised: what is exactly neither could mean either.
    equal = {element.strip() for element, other in zip(elements, keys, strict=True) if other == key}
    return near[0] if near and len(equal) == 1 else None


def _misspelt_element(content: str, keys: Sequence[str], left: Sequence[int]) -> int | None:
    near = [place for place in left if _is_one_slip(content.split(), keys[place].split())]
    # If two elements are equally similar, it is unclear which one is meant.
    return near[0] if len({keys[place] for place in near}) == 1 else None


def _is_one_slip(given: Sequence[str], meant: Sequence[str]) -> bool:
    changed = [(a, b) for a, b in zip(given, meant, strict=False) if a != b]
    if len(given) != len(meant) or len(changed) != 1:
        return False
    one, other = changed[0]
    # "left" for "right", "2" for "3" and "unlocked" for "locked" are different statements.
    if one[0] != other[0] or any(c.isdigit() for c in one + other):
        return False
    return SequenceMatcher(None, one, other).ratio() >= _SAME_WORD
