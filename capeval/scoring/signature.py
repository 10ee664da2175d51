"""The signature: one line that says how a score was made, as in sacreBLEU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from capeval.text import both_ends, one_line

VERSION = "v"
"""The part that names the version of capeval; it changes nothing that is measured."""

_LIKE = ("judge", "prompts", "reasoning", "repeats", "data")
"""The parts of the signature that two scores must share to be comparable."""


@dataclass(frozen=True)
class Signature:
    """The named parts of a signature, in their order.

    >>> Signature.parse("capeval:tuna-cap|judge:a|v:1").get("judge")
    'a'
    """

    parts: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, parts: Mapping[str, str]) -> Self:
        """Return the signature with these parts; separators in a value are replaced."""
        # Names come from endpoints: a separator or a line break in one would forge another part.
        safe = ((name, one_line(value).replace("|", "/")) for name, value in parts.items())
        return cls(tuple(safe))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a signature; text without a colon, and a name's second part, are kept whole.

        >>> dict(Signature.parse("judge:a|judge:b|x").parts)
        {'judge': 'a', 'judge:b': 'b', 'x': ''}
        """
        parts: dict[str, str] = {}
        for part in text.split("|"):
            name, colon, value = part.partition(":")
            parts[name if colon and name not in parts else part] = value
        return cls(tuple(parts.items()))

    def get(self, name: str) -> str | None:
        """Return the value of a part, or None if there is no such part."""
        return dict(self.parts).get(name)

    def __str__(self) -> str:
        return "|".join(f"{name}:{value}" for name, value in self.parts)


def unlikeness(signatures: Mapping[str, str]) -> list[str]:
    """List the differences between signatures that make scores incomparable.

    The judge, its prompts, its reasoning effort, its repeats (the majority of three is another
    measure than one verdict) and the data count; the version of capeval does not.

    >>> unlikeness({"a": "capeval:x|judge:m|v:1", "b": "capeval:x|judge:n|v:2"})
    ['judge m vs. n']
    """
    parsed = [Signature.parse(signature) for signature in signatures.values()]
    found = []
    for name in _LIKE:
        # Scores of a judge without a reasoning effort do not name one.
        missing = "not set" if name == "reasoning" else "unknown"
        values = dict.fromkeys(signature.get(name) for signature in parsed)
        if len(values) > 1:
            texts = (both_ends(value or missing, 60) for value in values)
            found.append(f"{name} {' vs. '.join(texts)}")
    return found
