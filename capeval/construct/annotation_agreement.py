"""How far annotators agree: on events, on elements, and on the type and weight of elements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from pydantic import BaseModel, ConfigDict

from capeval.construct.alignment import align
from capeval.construct.drafts import Draft, DraftElement
from capeval.schema import ELEMENT_TYPES
from capeval.stats.agreement import Level, krippendorff_alpha
from capeval.stats.jackknife import Inference
from capeval.stats.values import Interval, Missing, Value
from capeval.stats.video_ratios import VideoRatios


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Measure(_Part):
    """A value with its 95% interval over videos; `reason` says why one of them is missing."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None

    @classmethod
    def of(cls, value: Value, found: Interval | Inference | Missing) -> Measure:
        """Return a value and its interval."""
        if isinstance(value, Missing):
            return cls(reason=value.reason)
        if isinstance(found, Missing):
            return cls(value=value, reason=found.reason)
        return cls(value=value, low=found.low, high=found.high)


class Agreement(_Part):
    """How far two annotators agree on the videos that both annotated.

    Attributes
    ----------
    annotators : the two; of all pairs together, every annotator
    videos : how many; of all pairs together, those of any pair
    same_draft : videos of which a model drafted the annotation that both reviewed
    events, elements : F1: matched ones, twice, divided by all of both
    matched : elements that both have
    type, weight : Krippendorff's alpha over the matched elements, nominal and ordinal
    """

    annotators: tuple[str, ...]
    videos: int
    same_draft: int
    events: Measure
    elements: Measure
    matched: int
    type: Measure
    weight: Measure


class AnnotationAgreement(_Part):
    """The agreement of all pairs of annotators together, and of each.

    `unfinished` are the annotations by annotator that are not complete, and are left out.
    """

    overall: Agreement
    pairs: tuple[Agreement, ...]
    unfinished: dict[str, int]


@dataclass(frozen=True)
class _Compared:
    """One video by two annotators; `sizes` are the events and the elements of both together."""

    index: str
    drafted: bool
    sizes: tuple[int, int]
    events: int
    elements: Sequence[tuple[DraftElement, DraftElement]]


def annotation_agreement(drafts: Iterable[Draft]) -> AnnotationAgreement | None:
    """Return how far annotators agree; None if no two finished the same video.

    Intervals of F1 are those of a share of sums, whole videos resampled: a perfect agreement has
    one, too.
    """
    by: dict[str, dict[str, Draft]] = {}
    unfinished: Counter[str] = Counter()
    for draft in drafts:
        if draft.open:
            unfinished[str(draft.annotator)] += 1
        else:
            by.setdefault(str(draft.annotator), {})[draft.index] = draft
    pairs: dict[tuple[str, ...], list[_Compared]] = {}
    for names in combinations(sorted(by), 2):
        first, second = (by[name] for name in names)
        shared = sorted(first.keys() & second.keys())
        if shared:
            pairs[names] = [_compared(first[index], second[index]) for index in shared]
    if not pairs:
        return None
    everyone = tuple(sorted({name for names in pairs for name in names}))
    return AnnotationAgreement(
        overall=_agreement(everyone, [one for of in pairs.values() for one in of]),
        pairs=tuple(_agreement(names, of) for names, of in pairs.items()),
        unfinished=dict(sorted(unfinished.items())),
    )


def _compared(first: Draft, second: Draft) -> _Compared:
    found = align(first, second)
    return _Compared(
        index=first.index,
        drafted=bool(first.drafted_by and second.drafted_by),
        sizes=(
            len(first.events) + len(second.events),
            len(first.elements) + len(second.elements),
        ),
        events=sum(None not in pair for pair in found.events),
        elements=[
            (
                first.events[one[0]].visual_elements[one[1]],
                second.events[other[0]].visual_elements[other[1]],
            )
            for one, other in found.elements
            if one and other
        ],
    )


def _agreement(annotators: tuple[str, ...], compared: Sequence[_Compared]) -> Agreement:
    indexes = sorted({one.index for one in compared})
    place = {index: at for at, index in enumerate(indexes)}
    upper, lower = np.zeros((2, len(indexes), 2))
    for one in compared:
        upper[place[one.index]] += one.events, len(one.elements)
        # Halves: F1 counts a matched pair once for each side, but it is one observation.
        lower[place[one.index]] += np.array(one.sizes) / 2
    ratios, values = VideoRatios(upper, lower), upper.sum(axis=0) / lower.sum(axis=0)
    events, elements = (Measure.of(float(values[at]), ratios.share(at)) for at in (0, 1))
    matched = [pair for one in compared for pair in one.elements]
    video = np.array([place[one.index] for one in compared for _ in one.elements], int)

    def alpha(codes: Sequence[Sequence[float]], level: Level) -> Measure:
        found = krippendorff_alpha(np.array(codes, float).reshape(-1, 2).T, video, level)
        return Measure.of(found.value, found.interval)

    return Agreement(
        annotators=annotators,
        videos=len(indexes),
        same_draft=len({one.index for one in compared if one.drafted}),
        events=events,
        elements=elements,
        matched=len(matched),
        type=alpha([[ELEMENT_TYPES.index(e.type) for e in pair] for pair in matched], "nominal"),
        weight=alpha([[e.weight for e in pair] for pair in matched], "ordinal"),
    )
