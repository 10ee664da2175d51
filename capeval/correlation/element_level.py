"""Agreement on labels of elements: human raters and judges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from capeval.correlation.fields import ClassResult, Elements, ElementTable, Notice
from capeval.correlation.joining import ElementKey, ElementLabels, unmatched
from capeval.errors import InputError
from capeval.files.ratings import IfMissing, Key, LabelTable, numbered
from capeval.schema import (
    COVERAGES,
    ELEMENT_TYPES,
    RELATIONS,
    Annotation,
    LabelScale,
    VisualElement,
)
from capeval.stats.agreement import class_scores, cohen_kappa, confusion_by_video
from capeval.stats.values import number_of

_SCORES = ("precision", "recall", "f1")


def compared_elements(
    table: LabelTable,
    judges: Mapping[str, ElementLabels],
    reasons: Mapping[str, Mapping[Key, str]],
    annotations: Sequence[Annotation],
    *,
    each: bool,
    missing: IfMissing,
) -> tuple[Elements, list[Notice]]:
    """Compare the verdicts of judges with human labels, of all elements and of each type.

    Raises `InputError` if a labelled caption has no verdict and `missing` is "error", or no caption
    is left.

    Parameters
    ----------
    reasons : why captions have no verdict, by judge and caption
    each : compare with every rater's labels instead of the majority label of each element
    """
    lost, notices = _unjudged(table, judges, reasons, missing)
    human, tied = _human_labels(table, each=each, without=lost)
    if tied:
        notices.append(Notice(kind="evenly_divided", values={"elements": len(tied)}))
    elements = {annotation.index: annotation.elements for annotation in annotations}
    return Elements(
        scale=table.scale,
        labels=len(table.labels),
        tied=len(tied),
        unjudged=sum(lost.values()),
        tables=tuple(_tables(human, tied, judges, elements, table.scale)),
    ), notices


def _unjudged(
    table: LabelTable,
    judges: Mapping[str, ElementLabels],
    reasons: Mapping[str, Mapping[Key, str]],
    missing: IfMissing,
) -> tuple[dict[Key, int], list[Notice]]:
    """Return the number of elements of labelled captions without a verdict, and notices.

    They are left out for all judges, so that all judges are compared with the same labels.
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


def _human_labels(
    table: LabelTable, *, each: bool, without: Collection[Key]
) -> tuple[dict[str, ElementLabels], set[ElementKey]]:
    """Return the labels by rater, or of "human" the majority label of each element.

    Also return the elements without a majority, because raters are evenly divided on them.
    """
    by_rater: dict[str, ElementLabels] = {name: {} for name in table.raters}
    counts: dict[ElementKey, Counter[str]] = {}
    rows = zip(table.keys, table.elements, table.rater, table.labels, strict=True)
    for key, element, rater, label in rows:
        if key not in without:
            by_rater[table.raters[rater]][key, element] = label
            counts.setdefault((key, element), Counter())[label] += 1
    if each:
        return by_rater, set()
    ranked = {place: count.most_common(2) for place, count in counts.items()}
    tied = {place for place, top in ranked.items() if len(top) > 1 and top[0][1] == top[1][1]}
    majority = {place: top[0][0] for place, top in ranked.items() if place not in tied}
    return {"human": majority}, tied


def _tables(
    human: Mapping[str, ElementLabels],
    left_out: Collection[ElementKey],
    judges: Mapping[str, ElementLabels],
    elements: Mapping[str, Mapping[str, VisualElement]],
    scale: LabelScale,
) -> list[ElementTable]:
    """Return tables of each judge and the human labels.

    `left_out` are the elements without a human label, `elements` by video and id.
    """

    def type_of(place: ElementKey) -> str:
        (video, _), element = place
        return elements[video][element].type

    tied = Counter(map(type_of, left_out))
    tables: list[ElementTable] = []
    for truth, expected in human.items():
        for given, verdicts in judges.items():
            rows = [
                (place, label, _on_scale(verdicts[place], scale))
                for place, label in expected.items()
                if place in verdicts
            ]
            for by in ("all", *ELEMENT_TYPES):
                some = [row for row in rows if by in ("all", type_of(row[0]))]
                if some:
                    count = tied.total() if by == "all" else tied[by]
                    tables.append(_table(truth, given, by, some, scale, count))
    return tables


def _on_scale(verdict: str, scale: LabelScale) -> str:
    if scale == "binary":
        return COVERAGES[0] if verdict == "entailment" else COVERAGES[1]
    return verdict


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
    video = numbered(key[0] for key, _ in places)
    matrices = confusion_by_video(expected, verdicts, labels, video)
    whole = matrices.sum(axis=0)
    supports = whole.sum(axis=1).tolist()
    classes = {
        label: ClassResult(
            **{name: number_of(of) for name, of in zip(_SCORES, scores, strict=True)},
            support=support,
        )
        for label, scores, support in zip(labels, class_scores(whole).T, supports, strict=True)
    }
    return ElementTable(
        truth=truth,
        given=given,
        by=by,
        labels=tuple(labels),
        n=len(rows),
        videos=len(matrices),
        confusion=tuple(tuple(map(float, row)) for row in whole),
        kappa=cohen_kappa(matrices),
        classes=classes,
        tied=tied,
    )
