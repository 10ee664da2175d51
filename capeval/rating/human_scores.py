"""Human scores of captions: ratings as they are, or scores computed from labels of elements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from itertools import islice

import numpy as np

from capeval.errors import InputError
from capeval.files.ratings import Key, LabelTable, RatingTable
from capeval.schema import Annotation, Relation, Relations, VisualElement
from capeval.scoring.counts import AnnotationArrays, measures
from capeval.text import nearest, shown


def is_comparable(human: str, measure: str | None) -> bool:
    """Return whether a kind of human score is compared with a judge's measure or another metric.

    A share of covered elements is a recall. F1 is the reported measure, so it is compared with
    both. `measure` is None for metrics other than a judge's.

    >>> is_comparable("covered", "f1"), is_comparable("covered", "precision")
    (True, False)
    """
    alike = {"precision": ("precision",), "f1": (None, "f1")}
    return human == "score" or measure in alike.get(human, (None, "recall", "f1"))


def as_relation(label: str) -> Relation:
    """Return a label on the scale of the judge's relations: covered is entailed, else lacking."""
    if label in {"entailment", "covered"}:
        return "entailment"
    return "contradiction" if label == "contradiction" else "lack"


def annotated(table: LabelTable, annotations: Collection[str]) -> LabelTable:
    rows = [row for row, (video, _) in enumerate(table.keys) if video in annotations]
    if not rows:
        raise InputError(
            "none of its videos has an annotation; name theirs with --annotations", file=table.file
        )
    return table.take(rows)


def from_labels(
    table: LabelTable, annotations: Mapping[str, Annotation]
) -> tuple[list[RatingTable], int]:
    """Return the scores computed from labels with the judge's formula.

    Also return how many captions a rater has labelled in part.

    Binary labels (covered or not) give the weighted share of covered elements, three-way labels
    precision, recall (the weighted share of entailed elements) and F1. A rater's labels of a
    caption give a score only if they are complete.
    """
    given = relations_of(table, annotations)
    keys = list(dict.fromkeys(key for key, _ in given))
    places = {key: place for place, key in enumerate(keys)}
    values = np.full((len(table.raters), len(keys), 3), np.nan)
    reference = AnnotationArrays(list(annotations.values()))
    whole = {at: relations for at, relations in given.items() if relations is not None}
    partial = len(given) - len(whole)
    if whole:
        # Rounded, so that an F1 computed from different weights is the same number.
        rows = [reference.rows[key[0]] for key, _ in whole]
        found = measures(reference.counts(rows, list(whole.values()))[:, 0]).round(12)
        values[[rater for _, rater in whole], [places[key] for key, _ in whole]] = found
    scored = ~np.isnan(values[:, :, 1]).all(axis=0)
    if not scored.any():
        return [], partial
    kept = [key for key, is_scored in zip(keys, scored, strict=True) if is_scored]
    names = ("covered",) if table.scale == "binary" else ("f1", "recall", "precision")
    column = {"precision": 0, "recall": 1, "covered": 1, "f1": 2}
    return [
        RatingTable(table.file, kept, table.raters, values[:, scored, column[name]], name=name)
        for name in names
    ], partial


def relations_of(
    table: LabelTable, annotations: Mapping[str, Annotation]
) -> dict[tuple[Key, int], Relations | None]:
    """Return the labels of each caption by each rater, None if some elements lack a label.

    Raises `InputError` if a label is of a video or an element that is not annotated.
    """
    known = {index: annotation.elements for index, annotation in annotations.items()}
    given: dict[tuple[Key, int], dict[str, Relation]] = defaultdict(dict)
    for row, (key, element) in enumerate(zip(table.keys, table.elements, strict=True)):
        if element not in known.get(key[0], {}):
            raise _unknown_element(table, row, known)
        given[key, table.rater[row]][element] = as_relation(table.labels[row])
    found: dict[tuple[Key, int], Relations | None] = {}
    for (key, rater), labels in given.items():
        ordered = (labels[element] for element in known[key[0]])
        sizes = annotations[key[0]].sizes
        is_whole = len(labels) == sum(sizes)
        found[key, rater] = (
            tuple(tuple(islice(ordered, size)) for size in sizes) if is_whole else None
        )
    return found


def _unknown_element(
    table: LabelTable, row: int, known: Mapping[str, Mapping[str, VisualElement]]
) -> InputError:
    video, element = table.keys[row][0], table.elements[row]
    if video in known:
        names, field = list(known[video]), "element_id"
        message = (
            f"{video} has no element {shown(element)}; they are EVENT.ELEMENT, "
            f"from {names[0]} to {names[-1]}"
        )
    else:
        field = "video_id"
        message = (
            f"{shown(video)} has no annotation{nearest(video, [*known])}; name a file that has it "
            "with --annotations, or leave such captions out with --missing drop"
        )
    return InputError(message, file=table.file, where=table.places[row], field=field)
