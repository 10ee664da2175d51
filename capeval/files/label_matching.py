"""Match labels to elements by their repeated content, the only key that TUNA's files have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from capeval.errors import ReplyError
from capeval.schema import RELATIONS, Relation
from capeval.text import shown, words


def normalised(text: str) -> str:
    """Return text for comparison: without case, punctuation and extra spaces.

    >>> normalised("The  van has the logo “KXBD”.")
    'the van has the logo kxbd'
    """
    return " ".join(words(text))


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
    """Return the label of each element, matched by content and not by position.

    Content may differ in case, punctuation and spaces where only one element can be meant.
    ReplyError if elements are missing, invented, or duplicated with different labels.
    """
    keys = [normalised(element) for element in elements]
    found: dict[int, Relation] = {}
    last: dict[str, Relation] = {}
    for content, relation in labels:
        key = normalised(content)
        alike = [place for place, other in enumerate(keys) if other == key]
        exact = [place for place in alike if elements[place].strip() == content.strip()]
        # "+5" and "-5" are equal when normalised: what is exactly neither could mean either.
        if not exact and len({elements[place].strip() for place in alike}) == 1:
            exact = alike
        place = next((place for place in exact if place not in found), None)
        if place is not None:
            found[place] = last[key] = relation
        elif key not in last:
            raise ReplyError(f"{name} has no visual element {shown(content)}; copy them exactly")
        elif last[key] != relation:
            raise ReplyError(f"{name}: the element {shown(content)} is answered twice, differently")
        else:
            notes.append(f"classify: {name}: an element was answered twice, alike")
    missing = [shown(element) for place, element in enumerate(elements) if place not in found]
    if missing:
        raise ReplyError(f"{name}: element(s) not answered: {', '.join(missing[:10])}")
    return tuple(found[place] for place in range(len(elements)))


# A folder before a name, and the suffix of a video or of a file made of it.
_FOLDER = re.compile(r"^.*[/\\](?=[^/\\])")
_SUFFIX = re.compile(r"\.(mp4|mkv|mov|avi|webm|m4v|mpe?g|gif|json|txt|jpe?g|png)$|(?<=^\d)\.0$")
_ZEROS = re.compile(r"(?<![0-9.])0+(?=[0-9])")


def _simplest(name: str) -> str:
    name = " ".join(name.casefold().split())
    return _ZEROS.sub("", _SUFFIX.sub("", _FOLDER.sub("", name)))


def look_alike(lacking: Iterable[str], available: Iterable[str]) -> tuple[str, str] | None:
    """Return the first id that another side has in another form, and that form.

    The forms differ in spaces, folder, suffix, case, leading zeros or a zero after the point.

    >>> look_alike(["clip_07"], ["CLIP_7.mp4", "clip_8.mp4"])
    ('clip_07', 'CLIP_7.mp4')
    >>> look_alike(["clip_7"], ["clip_77"]) is None
    True
    """
    forms = {_simplest(name): name for name in available}
    for name in lacking:
        other = forms.get(_simplest(name), name)
        if other != name:
            return name, other
    return None


def hint_of(pair: tuple[str, str] | None) -> str:
    """Return what to do about a pair of ids, to be added to a message; nothing without one.

    >>> hint_of(("a", "a.mp4"))
    '; "a" and "a.mp4" look alike: write the ids alike in both files'
    >>> hint_of(("7", "007"))
    '; "7" and "007" look alike: leading zeros were lost; store the ids as text'
    """
    if pair is None:
        return ""
    how = "write the ids alike in both files"
    if all(map(str.isdigit, pair)) and int(pair[0]) == int(pair[1]):
        how = "leading zeros were lost; store the ids as text"
    return f'; "{pair[0]}" and "{pair[1]}" look alike: {how}'
