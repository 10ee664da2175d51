"""How far annotators agree: on events, on elements, and on the type and weight of elements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from capeval.construct.alignment import Alignment, align
from capeval.construct.drafts import Draft, DraftElement
from capeval.judging.lexical import content_words, relation
from capeval.schema import ELEMENT_TYPES
from capeval.stats.agreement import krippendorff_alpha
from capeval.stats.values import Coefficient
from capeval.stats.video_ratios import VideoRatios

Compared = tuple[Draft, Draft, Alignment]
Pair = tuple[DraftElement, DraftElement]


@dataclass(frozen=True)
class AnnotatorAgreement:
    """How far two annotators agree, or all pairs of several, on the videos that both annotated.

    Attributes
    ----------
    drafted : of how many of the `videos` a model's draft was reviewed
    unfinished : videos that one of two annotators has not finished; they are left out
    events, elements : F1: matched ones, divided by half of those of both together; elements that
        contradict each other are not matched
    matched : the number of elements that both have
    type, weight : Krippendorff's alpha over the matched elements, nominal and ordinal
    """

    annotators: tuple[str, ...]
    videos: int
    drafted: int
    unfinished: int
    events: Coefficient
    elements: Coefficient
    matched: int
    type: Coefficient
    weight: Coefficient


def annotation_agreement(drafts: Iterable[Draft]) -> list[AnnotatorAgreement]:
    """Return the agreement of all pairs of annotators together, then of each.

    It is empty if no two annotators finished the same video.
    """
    by: dict[str, dict[str, Draft]] = {}
    for draft in drafts:
        by.setdefault(str(draft.annotator), {})[draft.index] = draft
    found: dict[tuple[str, ...], list[Compared]] = {}
    unfinished = Counter[tuple[str, ...]]()
    for names in combinations(sorted(by), 2):
        first, second = (by[name] for name in names)
        for index in sorted(first.keys() & second.keys()):
            one, other = first[index], second[index]
            if one.open or other.open:
                unfinished[names] += 1
            else:
                found.setdefault(names, []).append((one, other, align(one, other)))
    if not found:
        return []
    everyone = tuple(sorted({name for names in found for name in names}))
    together = [one for compared in found.values() for one in compared]
    pairs = [_agreement(names, of, unfinished[names]) for names, of in found.items()]
    return [_agreement(everyone, together, unfinished.total()), *pairs]


def _consistent(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs that do not contradict each other by the rules of the lexical judge.

    "The camera zooms in" and "zooms out" share most of their words, but they disagree.
    """
    return [
        (one, other)
        for one, other in pairs
        if relation(content_words(one.content), [content_words(other.content)]) != "contradiction"
    ]


def _agreement(
    annotators: tuple[str, ...], compared: Sequence[Compared], unfinished: int
) -> AnnotatorAgreement:
    indexes, video = np.unique([one.index for one, _, _ in compared], return_inverse=True)
    upper, lower = np.zeros((2, len(indexes), 2))
    matched, of = [], []
    for at, (first, second, found) in zip(video, compared, strict=True):
        pairs = [
            (first.element(one), second.element(other))
            for one, other in found.elements
            if one and other
        ]
        pairs = _consistent(pairs)
        upper[at] += sum(None not in pair for pair in found.events), len(pairs)
        # A matched pair is one observation, although F1 counts it for both sides.
        for one in (first, second):
            lower[at] += len(one.events) / 2, len(one.elements) / 2
        matched += pairs
        of += [at] * len(pairs)
    # An interval by resampled videos, which a perfect agreement has, too; the jackknife has none.
    ratios = VideoRatios(upper, lower)
    shares = upper.sum(axis=0) / lower.sum(axis=0)
    events, elements = (Coefficient.of(float(shares[at]), ratios.share(at)) for at in (0, 1))
    codes = np.array(
        [[(ELEMENT_TYPES.index(e.type), e.weight) for e in pair] for pair in matched], float
    ).reshape(-1, 2, 2)
    return AnnotatorAgreement(
        annotators=annotators,
        videos=len(indexes),
        drafted=len({one.index for one, _, _ in compared if one.drafted_by}),
        unfinished=unfinished,
        events=events,
        elements=elements,
        matched=len(matched),
        type=krippendorff_alpha(codes[:, :, 0].T, np.array(of, int), "nominal"),
        weight=krippendorff_alpha(codes[:, :, 1].T, np.array(of, int), "ordinal"),
    )
