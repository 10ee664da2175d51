"""The buckets of videos that scores are broken down by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from capeval.schema import CHARACTERISTICS, Annotation
from capeval.scoring.score_parts import Breakdown

B = TypeVar("B")

EVENT_BUCKETS = ((2, "<=2"), (4, "3-4"), (6, "5-6"), (8, "7-8"), (None, ">=9"))
ELEMENT_BUCKETS = ((15, "<=15"), (20, "16-20"), (25, "21-25"), (30, "26-30"), (None, ">=31"))


def bucket_name(count: int, buckets: Sequence[tuple[int | None, str]]) -> str:
    """Return the name of the bucket that a count falls in.

    >>> bucket_name(16, ELEMENT_BUCKETS), bucket_name(31, ELEMENT_BUCKETS)
    ('16-20', '>=31')
    """
    return next(name for top, name in buckets if top is None or count <= top)


@dataclass(frozen=True)
class Membership:
    """One bucket of one way to group videos; `inside` (videos,) is true for those in it."""

    way: str
    name: str
    inside: NDArray[np.bool_]


def memberships(videos: Sequence[Annotation]) -> list[Membership]:
    """Return every bucket that holds a video, by the ways of `Breakdown`, each in its order."""
    result = []
    for way, tags_of, names in _ways(videos):
        tags = [tags_of(video) for video in videos]
        for name in names:
            inside = np.array([name in of_video for of_video in tags], dtype=bool)
            if inside.any():
                result.append(Membership(way, name, inside))
    return result


def by_way(members: Sequence[Membership], buckets: Sequence[B]) -> dict[str, dict[str, B]]:
    """Group one value per bucket by the ways of `Breakdown`, then by the bucket's name."""
    grouped: dict[str, dict[str, B]] = {way: {} for way in Breakdown.model_fields}
    for member, bucket in zip(members, buckets, strict=True):
        grouped[member.way][member.name] = bucket
    return grouped


_Way = tuple[str, Callable[[Annotation], Sequence[str]], Sequence[str]]


def _ways(videos: Sequence[Annotation]) -> list[_Way]:
    domains = sorted({video.domain for video in videos if video.domain})
    return [
        ("visual_characteristic", lambda video: video.visual_characteristic, CHARACTERISTICS),
        ("domain", lambda video: (video.domain or "",), domains),
        (
            "events",
            lambda video: (bucket_name(len(video.events), EVENT_BUCKETS),),
            [name for _, name in EVENT_BUCKETS],
        ),
        (
            "elements",
            lambda video: (bucket_name(video.element_count, ELEMENT_BUCKETS),),
            [name for _, name in ELEMENT_BUCKETS],
        ),
    ]
