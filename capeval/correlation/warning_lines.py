"""Warnings that differ in whom they are of alone, one line for each kind."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

__all__ = ["gathered", "merged"]

_OF = "people's "
_ENDS = (":", " ties ", " is ")


def gathered(warnings: Sequence[str], raters: Collection[str]) -> list[str]:
    """Return warnings in which those that differ by rater and numbers alone are one line.

    The first stands for all, with the count of the others.

    >>> gathered(["people's f1 of Ann: 9 are few", "people's f1 of Bo: 8 are few"], ["Ann", "Bo"])
    ["people's f1 of Ann: 9 are few (and so of 1 other rater)"]
    """
    names = frozenset(raters)
    first: dict[str, str] = {}
    whose: dict[str, set[str]] = {}
    for line in dict.fromkeys(warnings):
        rater, kind = _kind(line, names)
        first.setdefault(kind, line)
        whose.setdefault(kind, set()).update([rater] if rater else [])
    result = []
    for kind, line in first.items():
        others = len(whose[kind]) - 1
        plural = "" if others == 1 else "s"
        result.append(f"{line} (and so of {others:,} other rater{plural})" if others > 0 else line)
    return result


def merged(warnings: Sequence[str]) -> list[str]:
    """Return warnings in which those that say the same of several scores are one line.

    >>> merged(["people's f1: 9 are few", "m is constant", "people's recall: 9 are few"])
    ["people's f1, recall: 9 are few", 'm is constant']
    """
    scores: dict[str, dict[str, None]] = {}
    for line in warnings:
        score, mark, told = line.partition(": ")
        scores.setdefault(told if mark else line, {}).update({score: None} if mark else {})
    lines = []
    for told, of in scores.items():
        names = list(of)
        if all(name.startswith(_OF) for name in names):
            names[1:] = [name.removeprefix(_OF) for name in names[1:]]
        lines.append(f"{', '.join(names)}: {told}" if names else told)
    return lines


def _kind(line: str, raters: frozenset[str]) -> tuple[str | None, str]:
    """Return the rater that a warning is of, and what it says without name and numbers."""
    for mark in re.finditer(" of ", line):
        rest = line[mark.end() :]
        for name in (rest, *(rest.partition(end)[0] for end in _ENDS)):
            if name in raters:
                left = line[: mark.end()] + rest[len(name) :]
                return name, re.sub(r"\d+(\.\d+)?", "#", left)
    return None, line
