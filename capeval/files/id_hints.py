"""Hints about ids that differ only in how they are written; they are never joined silently."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
