"""The word lists of `words.txt` as typed constants; comments there explain each section."""

from __future__ import annotations

from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).with_name("words.txt")


def _read() -> dict[str, list[str]]:
    """Return the lines of each section of the file, without comments and empty lines."""
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            lines = sections[line.strip("[]")] = []
        elif line and not line.startswith("#"):
            lines.append(line)
    return sections


_SECTIONS = _read()


def _words(section: str) -> list[str]:
    return " ".join(_SECTIONS[section]).split()


def _pairs(section: str, separator: str = ":") -> list[tuple[list[str], list[str]]]:
    halves = (line.partition(separator) for line in _SECTIONS[section])
    return [(left.split(), right.split()) for left, _, right in halves]


def _poles(section: str) -> list[list[list[str]]]:
    return [[pole.split() for pole in line.split("|")] for line in _SECTIONS[section]]


DETERMINERS: Final = frozenset(_words("determiners"))
PREPOSITIONS: Final = frozenset(_words("prepositions"))
FUNCTION_WORDS: Final = DETERMINERS.union(_words("function words"))
GENERIC_WORDS: Final = frozenset(_words("generic words"))
NEGATIONS: Final = frozenset(_words("negations"))
ABBREVIATIONS: Final = frozenset(_words("abbreviations"))
VERBS: Final = frozenset(_words("verbs"))
IRREGULAR: Final = {form: word for (word,), forms in _pairs("irregular forms") for form in forms}
"""Irregular form -> the word that is stemmed instead."""

SYNONYMS: Final = [line.split() for line in _SECTIONS["synonyms"]]
KINDS: Final = [(kind, members) for (kind,), members in _pairs("kinds")]
PHRASES: Final = [(first, second, named) for (first, second), named in _pairs("phrases", "=")]
OPPOSITES: Final = _poles("opposites")
CAMERA_OPPOSITES: Final = _poles("camera opposites")


def _colours() -> dict[str, int]:
    shades = _pairs("colours")
    basic = dict.fromkeys(base for _, bases in shades for base in bases)
    bits = {name: 1 << place for place, name in enumerate(basic)}
    return {word: sum(bits[base] for base in bases) for words, bases in shades for word in words}


COLOURS: Final = _colours()
"""Word -> bits of the basic colours that it may stand for."""

NUMBERS: Final = {word: (float(least), float(most)) for (word,), (least, most) in _pairs("numbers")}
"""Word -> the smallest and the largest number that it may stand for."""
WEAK_NUMBERS: Final = frozenset(_words("weak numbers"))


def _actors() -> dict[str, int]:
    people = (("male", 1), ("female", 2), ("either", 3))
    found = {word: bits for section, bits in people for word in _words(section)}
    found |= {word: 1 << place for place, word in enumerate(_words("other actors"), 2)}
    # Animals and ships may be called "he" or "she".
    others = sum(bits for bits in found.values() if bits > 3)
    return found | {"he": 1 | others, "she": 2 | others, "they": 3 | others, "it": others}


ACTORS: Final = _actors()
"""Who or what acts -> bits: 1 male, 2 female, one for each other kind. Two words without a common
bit cannot mean the same actor."""
