"""The layout of `scores.json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    model_serializer,
)

T = TypeVar("T")


class ResultModel(BaseModel):
    """A part of a result file: frozen, and all of its keys are known."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Estimate(ResultModel):
    """A mean over videos with its 95% interval; None if there is none."""

    value: float | None
    low: float | None = None
    high: float | None = None


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


def bucket_rows(overall: ByType[Any], by: ByWay[Any]) -> list[dict[str, Any]]:
    """Return a flat record for each bucket and type, of scores or of differences."""
    buckets = [("overall", "all", overall)]
    for way in ByWay.model_fields:
        buckets += [(way, name, bucket) for name, bucket in getattr(by, way).items()]
    return [
        {"by": way, "group": name, "type": kind, "n": of.n}
        | {
            measure + ("" if part == "value" else f"_{part}"): value
            for measure in ("precision", "recall", "f1")
            for part, value in getattr(of, measure).model_dump().items()
        }
        for way, name, bucket in buckets
        for kind in ByType.model_fields
        for of in (getattr(bucket, kind),)
    ]


class Bucket(ByType[TypeScores]):
    """One bucket of videos: all elements pooled, and each type."""


class Breakdown(ByWay[Bucket]):
    """The buckets of every way to group videos; empty buckets are left out."""


class Counts(ResultModel):
    """How many videos are behind the numbers; `unscored` = captioned - scored.

    `empty` are the scored captions without any event, which score 0; left out of the file if there
    are none.
    """

    annotated: int
    captioned: int
    scored: int
    unscored: int
    empty: int = 0

    @model_serializer(mode="wrap")
    def _without_zero(self, serialize: SerializerFunctionWrapHandler) -> dict[str, int]:
        value: dict[str, int] = serialize(self)
        return value if self.empty else {k: n for k, n in value.items() if k != "empty"}


@dataclass(frozen=True, slots=True)
class VideoScore:
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
