"""A probe: a caption of an annotated video whose correct verdicts are certain by construction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from capeval.schema import Annotation, Relation

Kind = Literal[
    "verbatim",
    "dropped",
    "reordered",
    "contradicted",
    "hallucinated",
    "foreign",
    "injected",
    "repeat",
]
KINDS: tuple[Kind, ...] = get_args(Kind)[:-1]
"""Those that are graded; verdicts on a repeated caption are only compared with the first ones."""

RULES = "probes-1"
"""The version of the rules in `probe_kinds.py`: whoever changes what they build renames it."""

Expectation = Relation | Literal["not entailed", "unchanged"] | None
"""What the verdict on an element must be; None where it is not certain.

`unchanged` is the verdict on the base caption, and is graded only if that was right.
"""


@dataclass(frozen=True)
class Probe:
    """One caption and what a judge must find in it.

    Attributes
    ----------
    id : `VIDEO#NAME`, unique among the probes of a set of annotations
    expected : per event and element
    unmatched : numbers of the events, from 1, that no event of the caption may be matched to
    base : the id of the probe that `unchanged` refers to, or whose caption is repeated
    edits : what was done, in words, with its fields
    """

    id: str
    kind: Kind
    annotation: Annotation
    caption: str
    expected: tuple[tuple[Expectation, ...], ...]
    unmatched: tuple[int, ...] = ()
    base: str | None = None
    edits: tuple[Mapping[str, Any], ...] = field(default=())

    @property
    def video(self) -> str:
        """The video's index."""
        return self.annotation.index

    def line(self) -> dict[str, Any]:
        """Return the probe as its line in `probes.jsonl`."""
        return {
            "id": self.id,
            "video": self.video,
            "kind": self.kind,
            "caption": self.caption,
            "edits": [dict(edit) for edit in self.edits],
            "expected": [list(event) for event in self.expected],
            "unmatched": list(self.unmatched),
            "base": self.base,
        }
