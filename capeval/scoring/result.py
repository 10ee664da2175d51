"""The layout of `scores.json`."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from capeval.schema import Usage

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


class Scores(ResultModel):
    """The content of `scores.json`; fractions from 0 to 1 at full precision."""

    signature: str
    counts: Counts
    overall: Bucket
    by: Breakdown
    videos: dict[str, dict[str, VideoScore]]
    unmatched_events: UnmatchedEvents
    repeat_spread: RepeatSpread | None
    usage: dict[str, Usage]
    settings: dict[str, Any] = Field(default_factory=dict)
