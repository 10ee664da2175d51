"""Agreement on labels of elements: human raters and judges, two judges, repeats of a judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from capeval.correlation.joining import IfMissing, caption_names
from capeval.correlation.result import ClassResult, ElementTable, Estimate, number_of
from capeval.correlation.video_level import Settings
from capeval.errors import InputError
from capeval.files.ratings import Key, LabelTable
from capeval.schema import COVERAGES, ELEMENT_TYPES, RELATIONS, LabelScale, Relation, VisualElement
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
        _fill(self.labels, key, relations)
        for number, repeated in enumerate(repeats):
            if number == len(self.repeats):
                self.repeats.append({})
            _fill(self.repeats[number], key, repeated)


def _fill(labels: Labels, key: Key, relations: Sequence[Sequence[Relation]]) -> None:
    for event, of_event in enumerate(relations, start=1):
        for place, relation in enumerate(of_event, start=1):
            labels[key, f"{event}.{place}"] = relation


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

    def without(self, captions: Collection[Key]) -> HumanLabels:
        """Return the labels without those of some captions."""
        if not captions:
            return self

        def rest(of: Mapping[str, Labels]) -> dict[str, Labels]:
            return {
                name: {place: label for place, label in labels.items() if place[0] not in captions}
                for name, labels in of.items()
            }

        tied = frozenset(place for place in self.tied if place[0] not in captions)
        return HumanLabels(rest(self.truths), tied, rest(self.raters))


def human_labels(table: LabelTable, *, each: bool = False) -> HumanLabels:
    """Return the majority label of each element, or with `each` every rater's labels.

    An element on which raters are evenly divided has no label.
    """
    by_rater: dict[str, Labels] = {name: {} for name in table.raters}
    for row, (key, element) in enumerate(zip(table.keys, table.elements, strict=True)):
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
    """Return labelled captions without a verdict of some judge, and warnings.

    They are left out for all judges, so that all judges are compared with the same labels.

    Parameters
    ----------
    reasons : by judge and caption, why there is no verdict
    missing : "drop" to leave such captions out

    Returns
    -------
    The number of elements of each such caption, and a warning for each judge that lacks some.

    Raises
    ------
    InputError
        There are such captions and `missing` is "error", or no caption is left.
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
    compared with each other on the elements with human labels, including tied ones.

    Parameters
    ----------
    human : the human labels; without any, only judges are compared
    elements : by video and id
    scale : "binary" reduces the judges' verdicts to covered (entailed) or not
    """
    pairs: list[tuple[str, Labels, str, Labels]] = [
        (name, labels, judge.name, judge.labels)
        for name, labels in human.truths.items()
        for judge in judges
    ]
    rated = {place for labels in human.truths.values() for place in labels} | human.tied
    for one, two in combinations(judges, 2):
        pairs.append((one.name, _only(one.labels, rated), two.name, two.labels))
    for judge in judges:
        for (a, first), (b, second) in combinations(enumerate(judge.repeats, start=1), 2):
            names = (f"{judge.name} pass {a}", f"{judge.name} pass {b}")
            pairs.append((names[0], _only(first, rated), names[1], second))
    label_names = COVERAGES if scale == "binary" else RELATIONS
    tables: list[ElementTable] = []
    for truth, expected, given, labels in pairs:
        known = _known(expected, labels, elements)
        if not known:
            continue
        made = _tables(
            (truth, given),
            known,
            [_on(expected[place], scale) for place in known],
            [_on(labels[place], scale) for place in known],
            [elements[key[0]][element] for key, element in known],
            label_names,
            settings,
        )
        if human.truths.get(truth) is expected:
            tied = [elements[key[0]][element].type for key, element in human.tied]
            each = {
                name: _coefficients(own, labels, elements, scale)
                for name, own in human.raters.items()
            }
            made = [
                table.model_copy(
                    update={
                        "tied": sum(table.by in ("all", of) for of in tied),
                        "each": each if table.by == "all" and not table.weighted else {},
                    }
                )
                for table in made
            ]
        tables += made
    return tables


def _known(
    expected: Labels, given: Labels, elements: Mapping[str, Mapping[str, VisualElement]]
) -> list[Place]:
    """Return the elements that both sides labelled and the annotations have."""
    between = [place for place in expected if place in given]
    return [place for place in between if place[1] in elements.get(place[0][0], {})]


def _coefficients(
    truth: Labels,
    given: Labels,
    elements: Mapping[str, Mapping[str, VisualElement]],
    scale: LabelScale,
) -> dict[str, float | None]:
    known = _known(truth, given, elements)
    matrix = confusion_matrix(
        [_on(truth[place], scale) for place in known],
        [_on(given[place], scale) for place in known],
        COVERAGES if scale == "binary" else RELATIONS,
    )
    return {name: number_of(value) for name, value in coefficients(matrix).items()}


def _only(labels: Labels, rated: set[Place]) -> Labels:
    return {place: label for place, label in labels.items() if place in rated or not rated}


def _on(label: str, scale: LabelScale) -> str:
    if scale == "binary" and label in RELATIONS:
        return COVERAGES[0] if label == "entailment" else COVERAGES[1]
    return label


def _tables(
    names: tuple[str, str],
    places: Sequence[Place],
    truth: Sequence[str],
    given: Sequence[str],
    elements: Sequence[VisualElement],
    labels: Sequence[str],
    settings: Settings,
) -> list[ElementTable]:
    result = []
    for by in ("all", *ELEMENT_TYPES):
        rows = [n for n, element in enumerate(elements) if by in ("all", element.type)]
        if not rows:
            continue
        numbers: dict[str, int] = {}
        video = np.array([numbers.setdefault(places[n][0][0], len(numbers)) for n in rows])
        for weighted in (False, True):
            weights = [float(elements[n].weight) for n in rows] if weighted else None
            matrices = confusion_by_video(
                [truth[n] for n in rows], [given[n] for n in rows], labels, video, weights=weights
            )
            whole = matrices.sum(axis=0)
            bounds: dict[Any, Interval | Missing] = (
                {}
                if settings.ci == "none"
                else coefficient_intervals(
                    matrices, seed=settings.seed, draws=settings.bootstrap_resamples
                )
            )
            result.append(
                ElementTable(
                    truth=names[0],
                    given=names[1],
                    by=by,
                    weighted=weighted,
                    labels=tuple(labels),
                    n=len(rows),
                    videos=len(numbers),
                    confusion=tuple(tuple(map(float, row)) for row in whole),
                    coefficients={
                        name: Estimate.of(value, bounds.get(name))
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
            )
    return result
