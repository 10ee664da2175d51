"""Sufficient statistics: per video and type, the weights entailed, contradicted and in total.

Every score, interval and comparison is a resampling of this one small array.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from capeval.schema import ELEMENT_TYPES, Annotation, Relation, Scored, Verdict

GROUPS = ("all", *ELEMENT_TYPES)
COUNTS = ("entailed", "contradicted", "total")
MEASURES = ("precision", "recall", "f1")


def fits(annotation: Annotation, relations: Sequence[Sequence[Relation]]) -> bool:
    """Say whether the relations have the annotation's shape: (events, elements of the event)."""
    shape = [len(event.visual_elements) for event in annotation.events]
    return [len(event) for event in relations] == shape


def flaw_of(annotation: Annotation, judgment: Scored) -> str | None:
    """Return why stored verdicts cannot be those of any judge on this annotation, or None."""
    verdicts: tuple[Scored | Verdict, ...] = (judgment, *judgment.repeats)
    for verdict in verdicts:
        numbers = [number for number in verdict.matches if number is not None]
        if not fits(annotation, verdict.relations):
            return "its verdicts do not fit the events and elements annotated"
        if len(verdict.matches) != len(verdict.candidate_events):
            return "it does not have one match per candidate event"
        if max(numbers, default=0) > len(annotation.events):
            return f"it matches reference event {max(numbers)} of {len(annotation.events)}"
        told = set(numbers)
        for number, relations in enumerate(verdict.relations, start=1):
            # With repeats the relations are the majority's, the matches those of the first.
            alone = verdict is not judgment or not judgment.repeats
            if alone and number not in told and set(relations) != {"lack"}:
                return f"it labels reference event {number}, which nothing matches"
    return None


def weight_counts(
    annotation: Annotation, relations: Sequence[Sequence[Relation]]
) -> NDArray[np.int64]:
    """Return the (5 groups, 3 counts) summed weights of one video.

    Raises
    ------
    ValueError
        The relations do not have the annotation's shape.
    """
    if not fits(annotation, relations):
        raise ValueError(f"relations of {annotation.index} do not fit its annotation")
    counts = np.zeros((len(GROUPS), len(COUNTS)), dtype=np.int64)
    for event, judged in zip(annotation.events, relations, strict=True):
        for element, relation in zip(event.visual_elements, judged, strict=True):
            for group in (0, GROUPS.index(element.type)):
                counts[group, 2] += element.weight
                if relation == "entailment":
                    counts[group, 0] += element.weight
                elif relation == "contradiction":
                    counts[group, 1] += element.weight
    return counts


def measures(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return precision, recall and F1 for counts of any leading shape.

    Precision = entailed / (entailed + contradicted), 0 when nothing is mentioned; recall =
    entailed / total; F1 their harmonic mean, 0 when both are 0. NaN where the total is 0: a type
    without elements in a video is left out there (TUNA, section 3.2.2).

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
