"""Agreement on labels of elements: human raters and judges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import chain

from capeval.correlation.fields import ClassResult, ElementTable, Notice
from capeval.correlation.joining import unmatched
from capeval.errors import InputError
from capeval.files.ratings import IfMissing, Key, Keys, LabelTable
from capeval.schema import (
    COVERAGES,
    ELEMENT_TYPES,
    RELATIONS,
    LabelScale,
    Relation,
    VisualElement,
    element_ids,
)
from capeval.stats.agreement import class_scores, cohen_kappa, confusion_by_video
from capeval.stats.values import number_of

ElementKey = tuple[Key, str]
ElementLabels = dict[ElementKey, str]
"""A label by caption and element."""


def verdicts_on(key: Key, relations: Sequence[Sequence[Relation]]) -> ElementLabels:
    """Return a judge's verdicts on one caption."""
    ids = element_ids(map(len, relations))
    return {(key, of): label for of, label in zip(ids, chain(*relations), strict=True)}


def human_labels(
    table: LabelTable, *, each: bool = False, without: Collection[Key] = ()
) -> tuple[dict[str, ElementLabels], frozenset[ElementKey]]:
    """Return the majority label of each element, or with `each` every rater's labels, by name.

    Also return the elements without a label, because raters are evenly divided on them. `without`
    are captions to leave out.
    """
    by_rater: dict[str, ElementLabels] = {name: {} for name in table.raters}
    for row, (key, element) in enumerate(zip(table.keys, table.elements, strict=True)):
        if key not in without:
            by_rater[table.raters[table.rater[row]]][key, element] = table.labels[row]
    if each:
        return by_rater, frozenset()
    counts: dict[ElementKey, Counter[str]] = {}
    for labels in by_rater.values():
        for place, label in labels.items():
            counts.setdefault(place, Counter())[label] += 1
    majority: ElementLabels = {}
    for place, count in counts.items():
        ranked = count.most_common(2)
        if len(ranked) == 1 or ranked[0][1] > ranked[1][1]:
            majority[place] = ranked[0][0]
    return {"human": majority}, frozenset(counts.keys() - majority.keys())


def unjudged(
    table: LabelTable,
    judges: Mapping[str, ElementLabels],
    reasons: Mapping[str, Mapping[Key, str]],
    missing: IfMissing = "error",
) -> tuple[dict[Key, int], list[Notice]]:
    """Return the number of elements of labelled captions without a verdict, and notices.

    They are left out for all judges, so that all judges are compared with the same labels.
    `reasons` why there is no verdict are by judge and caption. InputError if there are such
    captions and `missing` is "error", or if no caption is left.
    """
    elements = Counter(key for key, _ in set(zip(table.keys, table.elements, strict=True)))
    captions = list(dict.fromkeys(table.keys))
    lost: dict[Key, int] = {}
    notices = []
    for name, labels in judges.items():
        there = {key for key, _ in labels}
        lacking = [key for key in captions if key not in there]
        if lacking:
            notices.append(
                unmatched(name, len(captions), lacking, reasons.get(name, {}), table.file, missing)
            )
            lost |= {key: elements[key] for key in lacking}
    if lost and len(lost) == len(captions):
        raise InputError("no labelled caption has a verdict of every judge", file=table.file)
    return lost, notices


def element_tables(
    human: Mapping[str, ElementLabels],
    left_out: Collection[ElementKey],
    judges: Mapping[str, ElementLabels],
    elements: Mapping[str, Mapping[str, VisualElement]],
    scale: LabelScale,
) -> list[ElementTable]:
    """Return tables of each judge and the human labels: of all elements, and of each type.

    `left_out` are the elements without a human label. `elements` are by video and id; the scale
    "binary" reduces labels to covered (entailed) or not.
    """
    tied: Counter[str] = Counter(elements[key[0]][element].type for key, element in left_out)
    tables: list[ElementTable] = []
    for truth, expected in human.items():
        for given, verdicts in judges.items():
            rows = [
                (place, _on(label, scale), _on(verdicts[place], scale))
                for place, label in expected.items()
                if place in verdicts
            ]
            for by in ("all", *ELEMENT_TYPES):
                some = [
                    row for row in rows if by in ("all", elements[row[0][0][0]][row[0][1]].type)
                ]
                if some:
                    count = tied.total() if by == "all" else tied[by]
                    tables.append(_table(truth, given, by, some, scale, count))
    return tables


def _on(label: str, scale: LabelScale) -> str:
    if scale == "binary" and label in RELATIONS:
        return COVERAGES[0] if label == "entailment" else COVERAGES[1]
    return label


def _table(
    truth: str,
    given: str,
    by: str,
    rows: Sequence[tuple[ElementKey, str, str]],
    scale: LabelScale,
    tied: int,
) -> ElementTable:
    labels = COVERAGES if scale == "binary" else RELATIONS
    places, expected, verdicts = zip(*rows, strict=True)
    video = Keys([key[0] for key, _ in places], None).video
    matrices = confusion_by_video(expected, verdicts, labels, video)
    whole = matrices.sum(axis=0)
    classes = zip(labels, class_scores(whole).T, whole.sum(axis=1), strict=True)
    return ElementTable(
        truth=truth,
        given=given,
        by=by,
        labels=tuple(labels),
        n=len(rows),
        videos=len(matrices),
        confusion=tuple(tuple(map(float, row)) for row in whole),
        kappa=cohen_kappa(matrices),
        classes={
            label: ClassResult(
                precision=number_of(precision),
                recall=number_of(recall),
                f1=number_of(f1),
                support=float(support),
            )
            for label, (precision, recall, f1), support in classes
        },
        tied=tied,
    )
