"""Hints about ids that differ only in how they are written; they are never joined silently."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

# A folder before a name, and the suffix of a video or of a file made of it.
_FOLDER = re.compile(r"^.*[/\\](?=[^/\\])")
_SUFFIX = re.compile(r"\.(mp4|mkv|mov|avi|webm|m4v|mpe?g|gif|json|txt|jpe?g|png)$")
_ZEROS = re.compile(r"(?<![0-9.])0+(?=[0-9])")


def _simplest(name: str) -> str:
    name = " ".join(unicodedata.normalize("NFC", name).casefold().split())
    return _ZEROS.sub("", _SUFFIX.sub("", _FOLDER.sub("", name)))


def look_alike(lacking: Iterable[str], available: Iterable[str]) -> tuple[str, str] | None:
    """Return the first id that another side has in another form, and that form.

    The forms differ in Unicode form, spaces, folder, suffix, case or leading zeros.

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
    """
    if pair is None:
        return ""
    one, other = (ascii(name) if not name.isascii() else f'"{name}"' for name in pair)
    return f"; {one} and {other} look alike: write the ids alike in both files"
