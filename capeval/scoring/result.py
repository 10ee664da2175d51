"""The layout of `scores.json`."""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from capeval.schema import Usage
from capeval.stats.bridge_line import Rule

T = TypeVar("T")


class ResultModel(BaseModel):
    """A part of a result file: frozen, and all of its keys are known."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Estimate(ResultModel):
    """A mean over videos with its 95% interval; None if there is none."""

    value: float | None
    low: float | None
    high: float | None


class TypeScores(ResultModel):
    """Precision, recall and F1 of one type in one bucket, over `n` videos."""

    precision: Estimate
    recall: Estimate
    f1: Estimate
    n: int


class ByType(ResultModel, Generic[T]):
    """One value for all elements pooled, and one for each type."""

    all: T
    camera: T
    scene: T
    action: T
    attribute: T


class ByWay(ResultModel, Generic[T]):
    """The buckets of every way to group videos; empty buckets are left out."""

    visual_characteristic: dict[str, T]
    domain: dict[str, T]
    events: dict[str, T]
    elements: dict[str, T]


class Bucket(ByType[TypeScores]):
    """One bucket of videos: all elements pooled, and each type."""


class Breakdown(ByWay[Bucket]):
    """The buckets of every way to group videos; empty buckets are left out."""


class Counts(ResultModel):
    """How many videos are behind the numbers; `unscored` = captioned - scored."""

    annotated: int
    captioned: int
    scored: int
    unscored: int


class VideoScore(ResultModel):
    """Weights and measures of one video and type."""

    entailed: int
    contradicted: int
    total: int
    precision: float
    recall: float
    f1: float


class UnmatchedEvents(ResultModel):
    """Candidate events that match no reference event: the method cannot check them."""

    unmatched: int
    candidate: int
    share: float | None


class RepeatSpread(ResultModel):
    """How much the judge's repeats on the same captions differ."""

    repeats: int
    precision: tuple[float, ...]
    recall: tuple[float, ...]
    f1: tuple[float, ...]
    """Overall, one number per repeat."""
    f1_sd: float
    """Sample standard deviation of `f1`."""
    unanimous: float
    """Share of elements with the same label in every repeat."""


class Ends(ResultModel):
    """The ends of a 95% interval; None if there is none."""

    low: float | None
    high: float | None


class CalibratedEstimate(Estimate):
    """A judge's mean corrected with human labels of some of the videos.

    `low` and `high` are for new videos like these. There is no interval if `reason` is not None,
    and no value either where fewer than three videos are labelled.
    """

    same_videos: Ends
    """The interval of the mean human score of these same videos."""
    human: Estimate
    """The labelled videos alone, without the judge."""
    slope: float | None
    """How much of a difference between the judge's scores is applied: from 0 to 1."""
    r2: float | None
    """Share of the variance of human scores that the judge explains with this slope."""
    worth: float | None
    """The number of labelled videos that would be as precise without the judge."""
    reason: str | None


class CalibratedTypeScores(ResultModel):
    """One type in one bucket: `labelled` of its `n` judged videos have human labels."""

    precision: CalibratedEstimate
    recall: CalibratedEstimate
    f1: CalibratedEstimate
    n: int
    labelled: int


class CalibratedBucket(ByType[CalibratedTypeScores]):
    """One bucket of videos: all elements pooled, and each type."""


class CalibratedBreakdown(ByWay[CalibratedBucket]):
    """The buckets of every way to group videos; empty buckets are left out."""


Sampling = Literal["random", "stratified", "unknown"]
"""How the labelled videos were sampled: `unknown` if nothing says that it was at random."""


class HumanLabels(ResultModel):
    """The human labels behind calibrated scores.

    `hash` is of the labels as they were used; the rest counts videos: those used, and those left
    out by reason.
    """

    hash: str
    scale: Literal["three-way", "binary"]
    raters: int
    sampling: Sampling
    labelled: int
    left_out: dict[str, int]


class Calibrated(ResultModel):
    """Scores calibrated with human labels, beside the judge's own in the same layout."""

    signature: str
    labels: HumanLabels
    overall: CalibratedBucket
    by: CalibratedBreakdown
    warnings: tuple[str, ...]


class BridgeRefusal(ResultModel):
    """Which rule refuses a bridged score (see `capeval.stats.bridge_line`), and the figures."""

    rule: Rule
    figures: dict[str, float | str] = Field(default_factory=dict)


class BridgedEstimate(Estimate):
    """What another judge's mean would be.

    `low` and `high` are for new videos like these, `same_videos` for these same videos. There is no
    interval if `reason` is not None, and no value if there are `refusals`.
    """

    same_videos: Ends | None = None
    reason: str | None = None
    refusals: tuple[BridgeRefusal, ...] = ()


class BridgedTypeScores(ResultModel):
    """One type in one bucket, over `n` videos, of which the old judge scored `anchored`."""

    precision: BridgedEstimate
    recall: BridgedEstimate
    f1: BridgedEstimate
    n: int
    anchored: int


class BridgedBucket(ByType[BridgedTypeScores]):
    """One bucket of videos: all elements pooled, and each type."""


class BridgedBreakdown(ByWay[BridgedBucket]):
    """The buckets of every way to group videos; empty buckets are left out."""


class Bridged(ResultModel):
    """Scores carried from one judge to another, with a signature of their own.

    `hash` is of everything else here, verdicts' hashes included; `systems` are the runs behind a
    line through systems, 1 for a run's own anchor. `by` is None where the method gives no buckets.
    """

    signature: str
    method: Literal["own_anchor", "system_line"]
    old: str
    new: str
    hash: str
    systems: int
    anchored: int
    overall: BridgedBucket
    by: BridgedBreakdown | None = None
    warnings: tuple[str, ...] = ()
    settings: dict[str, Any] = Field(default_factory=dict)


class Scores(ResultModel):
    """The content of `scores.json`; fractions from 0 to 1 at full precision.

    `calibrated` and `bridged` are left out of the file where there is none.
    """

    signature: str
    counts: Counts
    overall: Bucket
    by: Breakdown
    videos: dict[str, dict[str, VideoScore]]
    unmatched_events: UnmatchedEvents
    repeat_spread: RepeatSpread | None
    usage: dict[str, Usage]
    settings: dict[str, Any] = Field(default_factory=dict)
    calibrated: Calibrated | None = None
    bridged: Bridged | None = None

    @model_serializer(mode="wrap")
    def _without_absent(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        value: dict[str, Any] = serialize(self)
        for name in ("calibrated", "bridged"):
            if value.get(name, "") is None:
                del value[name]
        return value
