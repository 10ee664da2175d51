"""Human scores of captions: ratings as they are, or scores computed from labels of elements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from itertools import islice

import numpy as np

from capeval.errors import InputError
from capeval.files.ratings import Key, Keys, LabelTable, RatingTable, caption_name
from capeval.schema import Annotation, Relation, VisualElement
from capeval.scoring import AnnotationArrays, measures
from capeval.text import counted, listed, nearest, shown


def is_comparable(human: str, measure: str | None) -> bool:
    """Return whether a kind of human score is compared with a judge's measure or another metric.

    A share of covered elements is a recall. F1 is the reported measure, so it is compared with
    both. `measure` is None for metrics other than a judge's.

    >>> is_comparable("covered", "f1"), is_comparable("covered", "precision")
    (True, False)
    """
    alike = {"precision": ("precision",), "f1": (None, "f1")}
    return human == "score" or measure in alike.get(human, (None, "recall", "f1"))


def check_rated(table: RatingTable) -> RatingTable:
    """Return ratings as they are; every caption needs one."""
    unrated = np.flatnonzero(np.isnan(table.ratings).all(axis=0))
    if len(unrated):
        name = caption_name(table.keys[int(unrated[0])])
        raise InputError("no rater rated this caption", file=table.file, where=shown(name))
    return table


def as_relation(label: str) -> Relation:
    """Return a label on the scale of the judge's relations: covered is entailed, else lacking."""
    if label in {"entailment", "covered"}:
        return "entailment"
    return "contradiction" if label == "contradiction" else "lack"


def annotated(table: LabelTable, annotations: Collection[str]) -> tuple[LabelTable, list[str]]:
    """Return the labels of annotated videos, and a warning about the others."""
    rows = [row for row, video in enumerate(table.keys.videos) if video in annotations]
    if len(rows) == len(table.places):
        return table, []
    if not rows:
        raise InputError(
            "none of its videos has an annotation; name theirs with --annotations", file=table.file
        )
    videos = sorted(set(table.keys.videos).difference(annotations))
    warning = (
        f"{len(table.places) - len(rows)} labels are of videos without an annotation, and are left "
        f"out: {listed(videos)}"
    )
    return table.take(rows), [warning]


def from_labels(
    table: LabelTable, annotations: Mapping[str, Annotation], *, binary: bool = False
) -> tuple[list[RatingTable], list[str]]:
    """Return the scores computed from labels with the judge's formula, and warnings.

    Binary labels (covered or not) give the weighted share of covered elements, and with `binary` so
    do three-way labels (entailed or not). Otherwise three-way labels give precision, recall (the
    weighted share of entailed elements) and F1. A rater's labels of a caption give a score only if
    they are complete.
    """
    known = {index: annotation.elements for index, annotation in annotations.items()}
    captions: dict[Key, int] = {}
    given: dict[tuple[int, int], dict[str, Relation]] = defaultdict(dict)
    for row, (key, element) in enumerate(zip(table.keys, table.elements, strict=True)):
        if element not in known.get(key[0], {}):
            raise unknown_element(table, row, known)
        place = captions.setdefault(key, len(captions))
        given[table.rater[row], place][element] = as_relation(table.labels[row])
    keys = list(captions)
    values = np.full((len(table.raters), len(keys), 3), np.nan)
    partial = 0
    reference = AnnotationArrays(list(annotations.values()))
    whole: list[tuple[int, int]] = []
    rows: list[int] = []
    relations: list[list[list[Relation]]] = []
    for (rater, place), labels in given.items():
        annotation = annotations[keys[place][0]]
        if len(labels) < len(known[annotation.index]):
            partial += 1
            continue
        ordered = (labels[element] for element in known[annotation.index])
        relations.append([list(islice(ordered, size)) for size in annotation.sizes])
        rows.append(reference.rows[annotation.index])
        whole.append((rater, place))
    if whole:
        # Rounded, so that an F1 computed from different weights is the same number.
        found = measures(reference.counts(rows, relations)[:, 0]).round(12)
        values[tuple(zip(*whole, strict=True))] = found
    scored = ~np.isnan(values[:, :, 1]).all(axis=0)
    warnings = []
    if partial:
        warnings.append(
            f"{counted(partial, 'caption')} {'is' if partial == 1 else 'are'} not fully labelled "
            "by a rater; these labels count for elements but give no score of the caption"
        )
    if not scored.any():
        return [], warnings
    kept = Keys.of(key for key, is_scored in zip(keys, scored, strict=True) if is_scored)
    names = ("covered",) if binary or table.scale == "binary" else ("f1", "recall", "precision")
    column = {"precision": 0, "recall": 1, "covered": 1, "f1": 2}
    return [
        RatingTable(table.file, kept, table.raters, values[:, scored, column[name]], name=name)
        for name in names
    ], warnings


def unknown_element(
    table: LabelTable, row: int, known: Mapping[str, Mapping[str, VisualElement]]
) -> InputError:
    """Return the error of a label whose video or element is not in the annotations."""
    video, element = table.keys[row][0], table.elements[row]
    where = table.places[row]
    if video not in known:
        labelled = set(table.keys.videos)
        # A video that has labels of its own is not a misspelling of this one.
        near = nearest(video, [name for name in known if name not in labelled])
        others = len(labelled - known.keys()) - 1
        plural = "" if others == 1 else "s"
        also = f" (and {others} other labelled video{plural})" if others > 0 else ""
        action = (
            "; name a file that has it with --annotations, "
            "or leave such captions out with --missing drop"
        )
        return InputError(
            f"{shown(video)} has no annotation{also}{near or action}",
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
