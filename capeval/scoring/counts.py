"""Sufficient statistics: by video and type, the weights entailed, contradicted and in total.

Every score, interval and comparison is computed from this one small array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from capeval.schema import CHARACTERISTICS, ELEMENT_TYPES, Annotation, Relation

GROUPS = ("all", *ELEMENT_TYPES)
COUNTS = ("entailed", "contradicted", "total")
MEASURES = ("precision", "recall", "f1")
# In the order of COUNTS; a lack adds only to the total.
_CODES: dict[Relation, int] = {"entailment": 0, "contradiction": 1, "lack": 2}


class AnnotationArrays:
    """A set of annotations as arrays, so that the verdicts of many videos are summed at once.

    `rows` are the places of the videos by index.
    """

    def __init__(self, annotations: Sequence[Annotation]) -> None:
        self.annotations = tuple(annotations)
        self.rows = {annotation.index: row for row, annotation in enumerate(annotations)}
        self._shapes = [[len(e.visual_elements) for e in a.events] for a in annotations]
        elements = [
            [(GROUPS.index(e.type), e.weight) for event in a.events for e in event.visual_elements]
            for a in annotations
        ]
        self._types = [np.array([group for group, _ in video], np.int8) for video in elements]
        self._weights = [np.array([weight for _, weight in video], np.int8) for video in elements]

    def counts(
        self, rows: Sequence[int], relations: Sequence[Sequence[Sequence[Relation]]]
    ) -> NDArray[np.int64]:
        """Return the (videos, 5 groups, 3 counts) summed weights of the videos in some rows."""
        for row, of_video in zip(rows, relations, strict=True):
            if [len(event) for event in of_video] != self._shapes[row]:
                index = self.annotations[row].index
                raise ValueError(f"relations of {index} do not fit its annotation")
        counts = np.zeros((len(rows), len(GROUPS), len(COUNTS)), dtype=np.int64)
        if not len(rows):
            return counts
        labels = np.array(
            [_CODES[label] for of_video in relations for event in of_video for label in event]
        )
        # Every element is added to the cell of its video and type.
        cell = np.repeat(np.arange(len(rows)) * len(GROUPS), [len(self._types[r]) for r in rows])
        cell += np.concatenate([self._types[row] for row in rows])
        weight = np.concatenate([self._weights[row] for row in rows])
        for place, summed in enumerate((labels == 0, labels == 1, labels >= 0)):
            sums = np.bincount(cell, weights=weight * summed, minlength=counts[..., 0].size)
            counts[..., place] = sums.reshape(len(rows), len(GROUPS))
        counts[:, 0] = counts[:, 1:].sum(axis=1)
        return counts


def measures(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return precision, recall and F1 for counts of any leading shape.

    Precision = entailed / (entailed + contradicted), 0 when nothing is mentioned; recall =
    entailed / total; F1 their harmonic mean, 0 when both are 0. NaN if the total is 0: a type
    without elements in a video does not count there (TUNA, section 3.2.2).

    Parameters
    ----------
    counts : (..., 3) entailed, contradicted, total weights

    Returns
    -------
    (..., 3) precision, recall, f1

    >>> [round(float(v), 3) for v in measures(np.array([6, 2, 10]))]
    [0.75, 0.6, 0.667]
    """
    entailed, contradicted, total = np.moveaxis(counts.astype(np.float64), -1, 0)
    mentioned = entailed + contradicted
    nothing = np.zeros_like(entailed)
    precision = np.divide(entailed, mentioned, out=nothing.copy(), where=mentioned > 0)
    recall = np.divide(entailed, total, out=nothing.copy(), where=total > 0)
    # 2PR / (P + R) in weights, exact and without a case for P = R = 0.
    f1 = np.divide(2 * entailed, mentioned + total, out=nothing.copy(), where=total > 0)
    result = np.stack([precision, recall, f1], axis=-1)
    result[total == 0] = np.nan
    return result


@lru_cache(maxsize=1)  # many runs are of one set
def arrays_of(annotations: tuple[Annotation, ...]) -> AnnotationArrays:
    return AnnotationArrays(annotations)


B = TypeVar("B")

EVENT_BUCKETS = ((2, "<=2"), (4, "3-4"), (6, "5-6"), (8, "7-8"), (None, ">=9"))
ELEMENT_BUCKETS = ((15, "<=15"), (20, "16-20"), (25, "21-25"), (30, "26-30"), (None, ">=31"))


def _bucket(count: int, buckets: Sequence[tuple[int | None, str]]) -> tuple[str]:
    """Return the bucket that a count falls in.

    >>> _bucket(16, ELEMENT_BUCKETS), _bucket(31, ELEMENT_BUCKETS)
    (('16-20',), ('>=31',))
    """
    return (next(name for top, name in buckets if top is None or count <= top),)


@dataclass(frozen=True)
class Way:
    """A way to group videos, or elements by type, and its names.

    Attributes
    ----------
    plural : the name of its figure
    groups : in their order; empty if the data name them
    unit : the unit of the numbers in the groups' names, if they are numbers
    """

    title: str
    heading: str
    plural: str
    groups: tuple[str, ...]
    tags_of: Callable[[Annotation], Sequence[str]] = lambda _: ()
    unit: str = ""


WAYS: Mapping[str, Way] = {
    "type": Way("type of element", "Type", "types", ELEMENT_TYPES),
    "visual_characteristic": Way(
        "visual characteristic",
        "Characteristic",
        "characteristics",
        CHARACTERISTICS,
        lambda video: video.visual_characteristic,
    ),
    "domain": Way(
        "domain", "Domain", "domains", (), lambda video: (video.domain,) if video.domain else ()
    ),
    "events": Way(
        "number of events",
        "Events",
        "events",
        tuple(name for _, name in EVENT_BUCKETS),
        lambda video: _bucket(len(video.events), EVENT_BUCKETS),
        " events",
    ),
    "elements": Way(
        "number of elements",
        "Elements",
        "elements",
        tuple(name for _, name in ELEMENT_BUCKETS),
        lambda video: _bucket(video.element_count, ELEMENT_BUCKETS),
        " elements",
    ),
}
"""Every way, by its name in files; in the order of tables and figures."""

_OF_VIDEOS = [way for way in WAYS if way != "type"]


@dataclass(frozen=True)
class Membership:
    """One bucket of one way to group videos; `inside` (videos,) is true for those in it."""

    way: str
    name: str
    inside: NDArray[np.bool_]


def memberships(videos: Sequence[Annotation]) -> list[Membership]:
    """Return every bucket that holds a video, way by way, each in its order."""
    result = []
    for way in _OF_VIDEOS:
        tags = [WAYS[way].tags_of(video) for video in videos]
        for name in WAYS[way].groups or sorted({tag for of_video in tags for tag in of_video}):
            inside = np.array([name in of_video for of_video in tags], dtype=bool)
            if inside.any():
                result.append(Membership(way, name, inside))
    return result


def by_way(members: Sequence[Membership], buckets: Sequence[B]) -> dict[str, dict[str, B]]:
    """Return one value for each bucket by way, then by the bucket's name."""
    grouped: dict[str, dict[str, B]] = {way: {} for way in _OF_VIDEOS}
    for member, bucket in zip(members, buckets, strict=True):
        grouped[member.way][member.name] = bucket
    return grouped
