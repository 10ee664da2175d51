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
    def of_scores(
        cls,
        *,
        judge: str,
        prompts: str,
        repeats: int,
        data_hash: str,
        annotated: int,
        version: str,
        reasoning: str | None = None,
    ) -> Self:
        """Return the signature of a TUNA-CAP score.

        `judge` is the model snapshot that answered, `prompts` the set's name and hash, `data_hash`
        the SHA-256 of the annotations and `annotated` their number. `reasoning` is the effort that
        the judge was asked for, and no part without one.

        >>> print(Signature.of_scores(judge="gpt-4o-2024-08-06", prompts="tuna-cap-v1@1f3a9c",
        ...     repeats=1, data_hash="9be2c4ff", annotated=1000, version="0.1.0"))
        capeval:tuna-cap|judge:gpt-4o-2024-08-06|prompts:tuna-cap-v1@1f3a9c|repeats:1|avg:macro|data:9be2c4@1000|v:0.1.0
        """
        return cls.of(
            {
                "capeval": "tuna-cap",
                "judge": judge,
                "prompts": prompts,
                **({"reasoning": reasoning} if reasoning else {}),
                "repeats": str(repeats),
                "avg": "macro",
                "data": f"{data_hash[:6]}@{annotated}",
                VERSION: version,
            }
        )

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

    def without_version(self) -> dict[str, str]:
        """Return the parts that say what was measured, by name."""
        return {name: value for name, value in self.parts if name != VERSION}

    def __str__(self) -> str:
        return "|".join(f"{name}:{value}" for name, value in self.parts)


def differing_parts(
    *signatures: Signature, names: tuple[str, ...] = ()
) -> dict[str, tuple[str | None, ...]]:
    """Return the parts in which signatures differ, with the value of each; not the version.

    Parameters
    ----------
    names : only these parts

    >>> one, other = Signature.parse("judge:a|v:1"), Signature.parse("judge:b|v:2")
    >>> differing_parts(one, other)
    {'judge': ('a', 'b')}
    """
    parts = [of.without_version() for of in signatures]
    every = names or tuple(dict.fromkeys(name for of in parts for name in of))
    values = {name: tuple(of.get(name) for of in parts) for name in every}
    return {name: found for name, found in values.items() if len(set(found)) > 1}


def unlikeness(signatures: Mapping[str, str]) -> list[str]:
    """List the differences between signatures that make scores incomparable.

    The judge, its prompts, its reasoning effort, its repeats (the majority of three is another
    measure than one verdict) and the data count; the version of capeval does not.

    >>> unlikeness({"a": "capeval:x|judge:m|v:1", "b": "capeval:x|judge:n|v:2"})
    ['judge m vs. n']
    """
    parsed = [Signature.parse(signature) for signature in signatures.values()]
    # Scores of a judge that was not asked for an effort do not name one.
    missing = {"reasoning": "not set"}
    return [
        f"{part} "
        + " vs. ".join(
            both_ends(value or missing.get(part, "unknown"), 60) for value in dict.fromkeys(values)
        )
        for part, values in differing_parts(*parsed, names=_LIKE).items()
    ]
