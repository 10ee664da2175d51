"""People's score of a caption: as they rated it, or made of their labels of its elements."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from capeval.errors import InputError
from capeval.files.ratings import Key, Keys, LabelTable, RatingTable
from capeval.schema import Annotation, ElementType
from capeval.scoring import measures
from capeval.stats.values import Floats
from capeval.text import nearest, shown

_TOLD = 5


@dataclass(frozen=True)
class HumanScores:
    """One kind of human score; `ratings` is (raters, captions), NaN where a rater gave none."""

    name: str
    file: Path
    keys: Keys
    raters: tuple[str, ...]
    ratings: Floats
    metrics: dict[str, Floats] = field(default_factory=dict)


def meets(human: str, measure: str | None) -> bool:
    """Say whether a kind of human score is held against a judge's measure or another metric.

    A share of elements covered is a recall; F1 is what is reported, so it is held against both.

    >>> meets("covered", "f1"), meets("covered", "precision"), meets("precision", None)
    (True, False, False)
    """
    if human == "score":
        return True
    if human == "precision":
        return measure == "precision"
    if human == "f1":
        return measure in (None, "f1")
    return measure in (None, "recall", "f1")


@dataclass(frozen=True, slots=True)
class Element:
    """An annotated element's type, weight and text."""

    type: ElementType
    weight: int


def elements_of(annotation: Annotation) -> dict[str, Element]:
    """Return the elements of a video by their id, EVENT.ELEMENT, in order."""
    return {
        f"{event}.{place}": Element(element.type, element.weight)
        for event, told in enumerate(annotation.events, start=1)
        for place, element in enumerate(told.visual_elements, start=1)
    }


def from_ratings(table: RatingTable) -> HumanScores:
    """Return ratings as they are; every caption needs one.

    Raises
    ------
    InputError
        Nobody rated a caption.
    """
    unrated = np.flatnonzero(np.isnan(table.ratings).all(axis=0))
    if len(unrated):
        video, system = table.keys[int(unrated[0])]
        told = video + (f" of {system}" if system else "")
        raise InputError("nobody rated this caption", file=table.file, where=shown(told))
    return HumanScores("score", table.file, table.keys, table.raters, table.ratings, table.metrics)


def annotated(table: LabelTable, annotations: Collection[str]) -> tuple[LabelTable, list[str]]:
    """Return the labels of annotated videos alone, and a warning of those left out.

    Raises
    ------
    InputError
        No labelled video has an annotation.
    """
    rows = [row for row, video in enumerate(table.keys.videos) if video in annotations]
    if len(rows) == len(table.lines):
        return table, []
    if not rows:
        raise InputError(
            "none of its videos has an annotation; name theirs with --annotations", file=table.file
        )
    left = sorted(set(table.keys.videos).difference(annotations))
    numbers = sorted({table.raters[row] for row in rows})
    kept = replace(
        table,
        keys=table.keys.take(rows),
        elements=[table.elements[row] for row in rows],
        raters=[numbers.index(table.raters[row]) for row in rows],
        names=tuple(table.names[number] for number in numbers),
        labels=[table.labels[row] for row in rows],
        lines=[table.lines[row] for row in rows],
    )
    named = ", ".join(left[:_TOLD]) + (f" and {len(left) - _TOLD} more" if left[_TOLD:] else "")
    lost = len(table.lines) - len(rows)
    warning = f"{lost} labels are of videos without an annotation, and are left out: {named}"
    return kept, [warning]


def from_labels(
    table: LabelTable, annotations: Mapping[str, Annotation], *, binary: bool = False
) -> tuple[list[HumanScores], list[str]]:
    """Return the scores that labels make, by the judge's own rule, and warnings.

    Covered or not: the weighted share of elements covered. Three-way labels: precision, recall
    (the weighted share entailed) and F1. A rater's labels of a caption make a score where they
    are complete.

    Parameters
    ----------
    binary : three-way labels are taken as covered (entailed) or not

    Raises
    ------
    InputError
        A label is of an element that the annotations lack, or no caption is labelled in full.
    """
    known = {index: elements_of(annotation) for index, annotation in annotations.items()}
    captions: dict[Key, int] = {}
    counts: dict[tuple[int, int], list[int]] = {}
    for row, (key, element) in enumerate(zip(table.keys, table.elements, strict=True)):
        told = known.get(key[0], {}).get(element)
        if told is None:
            raise _unknown(table, row, known)
        place = captions.setdefault(key, len(captions))
        count = counts.setdefault((table.raters[row], place), [0, 0, 0, 0])
        label = table.labels[row]
        count[0] += told.weight * (label in ("entailment", "covered"))
        count[1] += told.weight * (label == "contradiction")
        count[2] += told.weight
        count[3] += 1
    keys = list(captions)
    values = np.full((len(table.names), len(keys), 3), np.nan)
    partial = 0
    for (rater, place), (entailed, contradicted, total, labels) in counts.items():
        if labels < len(known[keys[place][0]]):
            partial += 1
            continue
        # Rounded, so that an F1 reached by different weights is the same number.
        values[rater, place] = measures(np.array([entailed, contradicted, total])).round(12)
    scored = ~np.isnan(values[:, :, 1]).all(axis=0)
    warnings = []
    if partial:
        warnings.append(
            f"{partial} captions are not labelled in full by a rater; "
            "such labels count for elements and make no score of a caption"
        )
    if not scored.any():
        return [], warnings
    kept = Keys.of(key for key, there in zip(keys, scored, strict=True) if there)
    names = ("covered",) if binary or table.scale == "binary" else ("f1", "recall", "precision")
    column = {"precision": 0, "recall": 1, "covered": 1, "f1": 2}
    return [
        HumanScores(name, table.file, kept, table.names, values[:, scored, column[name]])
        for name in names
    ], warnings


def _unknown(table: LabelTable, row: int, known: Mapping[str, Mapping[str, Element]]) -> InputError:
    video, element = table.keys[row][0], table.elements[row]
    where = f"line {table.lines[row]}"
    if video not in known:
        labelled = set(table.keys.videos)
        # What people labelled too is no other spelling of this.
        near = nearest(video, [name for name in known if name not in labelled])
        others = len(labelled - known.keys()) - 1
        also = (
            ""
            if others < 1
            else ", nor has 1 other"
            if others == 1
            else f", nor have {others} others"
        )
        way = (
            "; name a file that has it with --annotations, "
            "or leave such captions out with --missing drop"
        )
        return InputError(
            f"{shown(video)} has no annotation{also}{near or way}",
            file=table.file,
            where=where,
            field="video_id",
        )
    names = list(known[video])
    return InputError(
        f"{video} has no element {shown(element)}; they are EVENT.ELEMENT, "
        f"from {names[0]} to {names[-1]}",
        file=table.file,
        where=where,
        field="element_id",
    )
