"""The layout of a comparison: what `capeval compare --json` prints.

Every difference is the second run less the first: positive where the second is better.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from capeval.schema import ElementType, Relation
from capeval.scoring.result import ByType, ByWay, Part


class Difference(Part):
    """The means of two runs over the same videos, and the second less the first.

    `low` and `high` bound `value` (95%); `p` is of no difference, two-sided, not adjusted. None
    where there is none.
    """

    first: float | None
    second: float | None
    value: float | None
    low: float | None
    high: float | None
    p: float | None


class TypeDifference(Part):
    """Differences of one type in one bucket, over `n` videos."""

    precision: Difference
    recall: Difference
    f1: Difference
    n: int


class Power(Part):
    """What so many videos can show of F1, two-sided at 5%, with a power of 80%.

    `sd` is of the differences of videos; `detectable` the smallest true difference that would
    most often be found; `videos_for_one_point` how many videos would find 0.01. None of fewer than
    ten videos.
    """

    sd: float | None
    detectable: float | None
    videos_for_one_point: int | None


class BucketDifference(ByType[TypeDifference]):
    """One bucket of videos: all elements pooled, and each type.

    `p_adjusted` is the p of the F1 of all elements, by Holm over all buckets; None for the whole
    set, whose p is not adjusted. `power` is of the F1 of all elements.
    """

    p_adjusted: float | None
    power: Power


class Differences(ByWay[BucketDifference]):
    """The buckets of every way to group videos; empty buckets are left out."""


class LeftOut(Part):
    """A video that this run scored and that could not be paired, because of another run."""

    index: str
    reason: str


class Side(Part):
    """One run: its coverage, and which of its scored videos were left out."""

    name: str
    signature: str
    model: str | None
    baseline: bool
    """Judged by the lexical baseline."""
    annotated: int
    captioned: int
    scored: int
    left_out: tuple[LeftOut, ...]


class Move(Part):
    """One measure of one video in both runs."""

    first: float
    second: float
    value: float


class VideoMove(Part):
    """One video in both runs, all elements pooled."""

    precision: Move
    recall: Move
    f1: Move


class Flip(Part):
    """An element that the two runs have different verdicts of."""

    index: str
    element_id: str
    type: ElementType
    weight: int
    content: str
    first: Relation
    second: Relation


Transitions = dict[Relation, dict[Relation, int]]
"""From the first run's verdict to the second's; verdicts that stayed stand on the diagonal."""


class Flips(Part):
    """How verdicts changed, over the elements of `videos` paired videos annotated alike.

    `counts` and `weights` are by "all" and type of element.
    """

    videos: int
    counts: dict[str, Transitions]
    weights: dict[str, Transitions]
    elements: tuple[Flip, ...]


class GateResult(Part):
    """One gate: `value` (points, or percent for the coverage) must be at least `at_least`.

    `value` is None where there is none, which fails. `told` says it in words.
    """

    gate: str
    on: Literal["estimate", "lower", "coverage"]
    value: float | None
    at_least: float
    passed: bool
    told: str


class _Compared(Part):
    direction: Literal["second - first"] = "second - first"
    comparable: bool
    unlike: tuple[str, ...]
    """In what the runs' signatures differ, where they were compared anyway."""
    notes: tuple[str, ...]
    annotated: int
    """Videos that any of the runs' annotations have."""
    paired: int
    """Videos that all of the runs scored: only these are behind the numbers."""
    gates: tuple[GateResult, ...] = ()
    settings: dict[str, Any] = Field(default_factory=dict)


class Comparison(_Compared):
    """Two runs, paired by video; fractions from 0 to 1 at full precision."""

    first: Side
    second: Side
    overall: BucketDifference
    by: Differences
    videos: dict[str, VideoMove]
    flips: Flips


class Contender(Side):
    """One of several runs: its mean F1 over the paired videos and its rank cluster, from 1."""

    f1: float
    cluster: int


class PairDifference(Part):
    """Two of several runs: difference of overall F1; `p_adjusted` by Holm over all pairs."""

    first: str
    second: str
    value: float
    low: float | None
    high: float | None
    p: float
    p_adjusted: float


class Matrix(_Compared):
    """More than two runs, paired by video, in the order in which they were named."""

    runs: tuple[Contender, ...]
    pairs: tuple[PairDifference, ...]
