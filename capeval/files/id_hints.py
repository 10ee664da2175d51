"""Hints about ids that differ only in how they are written; they are never joined silently."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import NamedTuple

from capeval.text import cut, either, normal_form

# Of videos and of the files that people make of them.
_SUFFIX = re.compile(
    r"\.(?:mp4|mkv|mov|avi|webm|m4v|mpe?g|flv|wmv|ts|gif|json|txt|jpe?g|png)$", re.IGNORECASE
)
_ZEROS = re.compile(r"(?<![0-9.])0+(?=[0-9])")
_FOLDER = re.compile(r"^.*[/\\](?=[^/\\])")


class Pair(NamedTuple):
    """An id, the id that is probably the same, and in what they differ."""

    one: str
    other: str
    differ: tuple[str, ...]


# What ids may differ in, and how to remove that; each step expects the ones before it.
_STEPS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("Unicode form", lambda name: normal_form(name, "NFC")),
    ("spaces", lambda name: " ".join(name.split())),
    ("folder", lambda name: _FOLDER.sub("", name)),
    ("suffix", lambda name: _SUFFIX.sub("", name)),
    ("case", str.casefold),
    ("leading zeros", lambda name: _ZEROS.sub("", name)),
)


def _simplest(name: str, but: str = "") -> str:
    """Return an id without what ids may differ in, `but` for one such property."""
    for what, simplify in _STEPS:
        name = name if what == but else simplify(name)
    return name


def look_alike(lacking: Iterable[str], available: Iterable[str]) -> Pair | None:
    """Return the first id that another side has in another form, and in what the two differ.

    >>> look_alike(["clip_07"], ["CLIP_7.mp4", "clip_8.mp4"])
    Pair(one='clip_07', other='CLIP_7.mp4', differ=('suffix', 'case', 'leading zeros'))
    >>> look_alike(["clip_7"], ["clip_77"]) is None
    True
    """
    simple: dict[str, str] = {}
    for name in available:
        simple.setdefault(_simplest(name), name)
    for name in lacking:
        other = simple.get(_simplest(name))
        if other is not None and other != name:
            differ = [of for of, _ in _STEPS if _simplest(name, of) != _simplest(other, of)]
            # A difference that several steps would remove.
            return Pair(name, other, tuple(differ) or ("spelling",))
    return None


def hint_of(pair: Pair | None) -> str:
    """Return what to do about a pair of ids, to be added to a message; nothing without one.

    >>> hint_of(Pair("a", "a.mp4", ("suffix",)))
    '; "a" and "a.mp4" differ only in suffix: write the ids alike in both files'
    """
    if pair is None:
        return ""
    return (
        f"; {_visible(pair.one, pair.differ)} and {_visible(pair.other, pair.differ)} differ only "
        f"in {either(pair.differ).replace(' or ', ' and ')}: write the ids alike in both files"
    )


def _visible(name: str, differ: tuple[str, ...]) -> str:
    """Return an id in quotes, with its Unicode form if that is what cannot be seen."""
    text = f'"{cut(name)}"'
    if "Unicode form" not in differ:
        return text
    form = next((f for f in ("NFC", "NFD") if unicodedata.is_normalized(f, name)), "mixed form")
    return f"{text} ({form})"
