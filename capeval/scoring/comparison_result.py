"""The layout of a comparison: what `capeval compare --json` prints.

Every difference is second − first: positive if the second run is better.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from capeval.schema import ElementType, Relation
from capeval.scoring.result import (
    ByType,
    ByWay,
    ResultModel,
    bucket_rows,
)
from capeval.show.result import Result


class Difference(ResultModel):
    """The means of two runs over the same videos, and their difference, second − first.

    `low` and `high` are the 95% interval of `value`; `p` is two-sided and not adjusted. A value
    that does not exist is None.
    """

    first: float | None
    second: float | None
    value: float | None
    low: float | None
    high: float | None
    p: float | None


class TypeDifference(ResultModel):
    """Differences of one type in one bucket, over `n` videos."""

    precision: Difference
    recall: Difference
    f1: Difference
    n: int


class BucketDifference(ByType[TypeDifference]):
    """One bucket of videos: all elements pooled, and each type.

    `p_adjusted` is the p of F1 (all elements), adjusted by Holm over all buckets; None for the
    whole set, whose p is not adjusted.
    """

    p_adjusted: float | None


class Differences(ByWay[BucketDifference]):
    """The buckets of every way to group videos; empty buckets are left out."""


class LeftOut(ResultModel):
    """A video scored in this run that is not paired because of another run."""

    index: str
    reason: str


class Side(ResultModel):
    """One run: its coverage, and which of its scored videos were left out of the comparison."""

    name: str
    signature: str
    model: str | None
    baseline: bool
    """Judged by a baseline."""
    annotated: int
    captioned: int
    scored: int
    left_out: tuple[LeftOut, ...]


class Move(ResultModel):
    """One measure of one video in both runs."""

    first: float
    second: float
    value: float


class VideoMove(ResultModel):
    """One video in both runs, all elements pooled."""

    precision: Move
    recall: Move
    f1: Move


class Flip(ResultModel):
    """An element whose verdicts differ between the two runs."""

    index: str
    element_id: str
    type: ElementType
    weight: int
    content: str
    first: Relation
    second: Relation


Transitions = dict[Relation, dict[Relation, int]]
"""Counts by the first run's verdict, then the second's; the diagonal is unchanged verdicts."""


class Flips(ResultModel):
    """How verdicts changed, over the elements of `videos` paired videos with the same annotation.

    `counts` are by "all" and by type of element.
    """

    videos: int
    counts: dict[str, Transitions]
    elements: tuple[Flip, ...]


class GateResult(ResultModel):
    """One gate: `value` (points, or percent for coverage) must be at least `at_least`.

    A missing value is None and fails. `message` is the result in words.
    """

    gate: str
    value: float | None
    at_least: float
    passed: bool
    message: str


class _Compared(ResultModel):
    direction: Literal["second - first"] = "second - first"
    comparable: bool
    unlike: tuple[str, ...]
    """The differences between the runs' signatures, if they were compared anyway."""
    notes: tuple[str, ...]
    annotated: int
    """Videos in the annotations of any of the runs."""
    paired: int
    """Videos scored in all runs: only these enter the numbers."""
    gates: tuple[GateResult, ...] = ()
    settings: dict[str, Any] = Field(default_factory=dict)


class Comparison(Result, _Compared):
    """Two runs, paired by video; fractions from 0 to 1 at full precision.

    `detectable` is the smallest true difference in F1 that a two-sided test at 5% finds with a
    power of 80%; None for fewer than ten videos.
    """

    first: Side
    second: Side
    overall: BucketDifference
    by: Differences
    detectable: float | None
    videos: dict[str, VideoMove]
    flips: Flips

    def records(self) -> list[dict[str, Any]]:
        """Return a flat record for each bucket and type; values are second − first."""
        return bucket_rows(self.overall, self.by)


class Contender(Side):
    """One of several runs: its means over the paired videos and its rank cluster, from 1."""

    precision: float
    recall: float
    f1: float
    cluster: int


class PairDifference(ResultModel):
    """Two of several runs: the difference of overall F1; `p_adjusted` by Holm over all pairs."""

    first: str
    second: str
    value: float
    low: float | None
    high: float | None
    p: float
    p_adjusted: float


class Matrix(Result, _Compared):
    """More than two runs, paired by video, in the order in which they were named."""

    runs: tuple[Contender, ...]
    pairs: tuple[PairDifference, ...]

    def records(self) -> list[dict[str, Any]]:
        """Return a flat record for each pair of runs; values are second − first."""
        return [pair.model_dump() for pair in self.pairs]


Compared = Comparison | Matrix
