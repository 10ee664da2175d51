"""Agreement on labels of elements: human raters and judges, two judges, repeats of a judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import Any, NamedTuple

from capeval.correlation.joining import caption_names
from capeval.correlation.result import ClassResult, Coefficient, ElementTable, number_of
from capeval.correlation.video_level import Settings
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
from capeval.stats.agreement import (
    class_scores,
    coefficient_intervals,
    coefficients,
    confusion_by_video,
    confusion_matrix,
)
from capeval.stats.values import Interval, Missing

Place = tuple[Key, str]
Labels = dict[Place, str]
"""A label by caption and element."""

# With more raters, a table of each rater's coefficients is too long to read.
_MOST_RATERS = 20


@dataclass
class Verdicts:
    """The verdicts of one judge on each element: the final ones, and those of each repeat."""

    name: str
    labels: Labels = field(default_factory=dict)
    repeats: list[Labels] = field(default_factory=list)

    def add(
        self,
        key: Key,
        relations: Sequence[Sequence[Relation]],
        repeats: Sequence[Sequence[Sequence[Relation]]] = (),
    ) -> None:
        """Add the verdicts on one caption."""
        self.labels |= _by_place(key, relations)
        self.repeats += [{} for _ in repeats[len(self.repeats) :]]
        for labels, repeated in zip(self.repeats, repeats, strict=False):
            labels.update(_by_place(key, repeated))


def _by_place(key: Key, relations: Sequence[Sequence[Relation]]) -> Labels:
    ids = element_ids(map(len, relations))
    return {(key, of): label for of, label in zip(ids, chain(*relations), strict=True)}


@dataclass(frozen=True)
class HumanLabels:
    """Human labels of elements.

    Attributes
    ----------
    truths : the labels that judges are compared with, by name
    tied : elements without a label because raters were evenly divided on them
    raters : each rater's own labels, if `truths` aggregates several; empty for more than 20 raters
    """

    truths: Mapping[str, Labels]
    tied: frozenset[Place] = frozenset()
    raters: Mapping[str, Labels] = field(default_factory=dict)


def human_labels(
    table: LabelTable, *, each: bool = False, without: Collection[Key] = ()
) -> HumanLabels:
    """Return the majority label of each element, or with `each` every rater's labels.

    An element on which raters are evenly divided has no label. `without` are captions to leave out.
    """
    by_rater: dict[str, Labels] = {name: {} for name in table.raters}
    for row, (key, element) in enumerate(zip(table.keys, table.elements, strict=True)):
        if key not in without:
            by_rater[table.raters[table.rater[row]]][key, element] = table.labels[row]
    if each:
        return HumanLabels(by_rater)
    if len(by_rater) == 1:
        return HumanLabels({"human": next(iter(by_rater.values()))})
    counts: dict[Place, Counter[str]] = {}
    for labels in by_rater.values():
        for place, label in labels.items():
            counts.setdefault(place, Counter())[label] += 1
    majority: Labels = {}
    for place, count in counts.items():
        ranked = count.most_common(2)
        if len(ranked) == 1 or ranked[0][1] > ranked[1][1]:
            majority[place] = ranked[0][0]
    tied = frozenset(counts.keys() - majority.keys())
    return HumanLabels({"human": majority}, tied, by_rater if len(by_rater) <= _MOST_RATERS else {})


def unjudged(
    table: LabelTable,
    judges: Sequence[Verdicts],
    reasons: Mapping[str, Mapping[Key, str]],
    missing: IfMissing = "error",
) -> tuple[dict[Key, int], list[str]]:
    """Return the number of elements of labelled captions without a verdict, and warnings.

    They are left out for all judges, so that all judges are compared with the same labels.
    `reasons` why there is no verdict are by judge and caption. InputError if there are such
    captions and `missing` is "error", or if no caption is left.
    """
    places = dict.fromkeys(zip(table.keys, table.elements, strict=True))
    elements = Counter(key for key, _ in places)
    lost: dict[Key, int] = {}
    warnings = []
    for judge in judges:
        there = {key for key, _ in judge.labels}
        lacking = [key for key in elements if key not in there]
        if not lacking:
            continue
        matched = len(places) - sum(elements[key] for key in lacking)
        captions = f"{len(lacking)} caption{'' if len(lacking) == 1 else 's'}"
        warning = (
            f"{judge.name}: {matched} of {len(places)} labelled elements matched; no verdict on "
            f"{captions}: {caption_names(lacking, reasons.get(judge.name, {}))}"
        )
        if missing == "error":
            raise InputError(
                f"{warning}; leave such captions out with --missing drop", file=table.file
            )
        warnings.append(warning)
        lost |= {key: elements[key] for key in lacking}
    if len(lost) == len(elements) and lost:
        raise InputError("no labelled caption has a verdict of every judge", file=table.file)
    return lost, warnings


def element_tables(
    human: HumanLabels,
    judges: Sequence[Verdicts],
    elements: Mapping[str, Mapping[str, VisualElement]],
    scale: LabelScale,
    settings: Settings,
) -> list[ElementTable]:
    """Return tables of judges and human raters, of pairs of judges, and of a judge's repeats.

    Each pair has tables for all elements and for each type, unweighted and weighted. Judges are
    compared with each other on the elements with human labels, including tied ones. `elements` are
    by video and id; the scale "binary" reduces verdicts to covered (entailed) or not.
    """
    pairs: list[tuple[str, Labels, str, Labels]] = [
        (name, labels, judge.name, judge.labels)
        for name, labels in human.truths.items()
        for judge in judges
    ]
    with_humans = len(pairs)
    rated = {place for labels in human.truths.values() for place in labels} | human.tied
    for one, two in combinations(judges, 2):
        pairs.append((one.name, _only(one.labels, rated), two.name, two.labels))
    for judge in judges:
        for (a, first), (b, second) in combinations(enumerate(judge.repeats, start=1), 2):
            names = (f"{judge.name} repeat {a}", f"{judge.name} repeat {b}")
            pairs.append((names[0], _only(first, rated), names[1], second))
    label_names = COVERAGES if scale == "binary" else RELATIONS

    def rows_of(expected: Labels, given: Labels) -> list[_Row]:
        return [
            _Row(place[0], element, _on(label, scale), _on(given[place], scale))
            for place, label in expected.items()
            if place in given and (element := elements.get(place[0][0], {}).get(place[1]))
        ]

    tables: list[ElementTable] = []
    for number, (truth, expected, given, labels) in enumerate(pairs):
        rows = rows_of(expected, labels)
        if not rows:
            continue
        tied: list[str] = []
        each: dict[str, dict[str, float | None]] = {}
        if number < with_humans:
            tied = [elements[key[0]][element].type for key, element in human.tied]
            for name, own in human.raters.items():
                of_rater = rows_of(own, labels)
                matrix = confusion_matrix(
                    [row.truth for row in of_rater], [row.given for row in of_rater], label_names
                )
                found = coefficients(matrix)
                each[name] = {of: number_of(value) for of, value in found.items()}
        for by in ("all", *ELEMENT_TYPES):
            some = [row for row in rows if by in ("all", row.element.type)]
            for weighted in (False, True) if some else ():
                table = _table((truth, given), some, by, weighted, label_names, settings)
                added = {
                    "tied": sum(by in ("all", of) for of in tied),
                    "each": each if by == "all" and not weighted else {},
                }
                tables.append(table.model_copy(update=added))
    return tables


def _only(labels: Labels, rated: set[Place]) -> Labels:
    return {place: label for place, label in labels.items() if place in rated or not rated}


def _on(label: str, scale: LabelScale) -> str:
    if scale == "binary" and label in RELATIONS:
        return COVERAGES[0] if label == "entailment" else COVERAGES[1]
    return label


class _Row(NamedTuple):
    """An element that both sides labelled, with both labels."""

    caption: Key
    element: VisualElement
    truth: str
    given: str


def _table(
    names: tuple[str, str],
    rows: Sequence[_Row],
    by: str,
    weighted: bool,
    labels: Sequence[str],
    settings: Settings,
) -> ElementTable:
    video = Keys([row.caption[0] for row in rows], None).video
    matrices = confusion_by_video(
        [row.truth for row in rows],
        [row.given for row in rows],
        labels,
        video,
        weights=[float(row.element.weight) for row in rows] if weighted else None,
    )
    whole = matrices.sum(axis=0)
    bounds: dict[Any, Interval | Missing] = {}
    if settings.ci != "none":
        draws = settings.bootstrap_resamples
        bounds.update(coefficient_intervals(matrices, seed=settings.seed, draws=draws))
    return ElementTable(
        truth=names[0],
        given=names[1],
        by=by,
        weighted=weighted,
        labels=tuple(labels),
        n=len(rows),
        videos=len(matrices),
        confusion=tuple(tuple(map(float, row)) for row in whole),
        coefficients={
            name: Coefficient.of(value, bounds.get(name))
            for name, value in coefficients(whole).items()
        },
        classes={
            label: ClassResult(
                precision=number_of(found.precision),
                recall=number_of(found.recall),
                f1=number_of(found.f1),
                support=found.support,
            )
            for label, found in zip(labels, class_scores(whole), strict=True)
        },
    )
