"""Labels of elements against labels: people and judges, judge and judge, one pass and another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from capeval.correlation.human_scores import Element
from capeval.correlation.result import ClassResult, ElementTable, Estimate
from capeval.files.ratings import Key, LabelTable
from capeval.schema import COVERAGES, ELEMENT_TYPES, RELATIONS, LabelScale, Relation
from capeval.stats.agreement import (
    class_scores,
    coefficient_intervals,
    coefficients,
    confusion_by_video,
)
from capeval.stats.intervals import Kind
from capeval.stats.values import Missing, Value

__all__ = ["Verdicts", "element_tables", "people"]

Labels = dict[tuple[Key, str], str]
"""A label by caption and element."""


@dataclass
class Verdicts:
    """What one judge said of each element, whole, and in each of its passes."""

    name: str
    labels: Labels = field(default_factory=dict)
    passes: list[Labels] = field(default_factory=list)

    def add(
        self,
        key: Key,
        relations: Sequence[Sequence[Relation]],
        passes: Sequence[Sequence[Sequence[Relation]]] = (),
    ) -> None:
        """Add the verdicts on one caption."""
        _fill(self.labels, key, relations)
        for number, relations_of in enumerate(passes):
            if number == len(self.passes):
                self.passes.append({})
            _fill(self.passes[number], key, relations_of)


def _fill(labels: Labels, key: Key, relations: Sequence[Sequence[Relation]]) -> None:
    for event, told in enumerate(relations, start=1):
        for place, relation in enumerate(told, start=1):
            labels[key, f"{event}.{place}"] = relation


def people(table: LabelTable, *, each: bool = False) -> tuple[dict[str, Labels], int]:
    """Return people's labels by name, and how many elements they were evenly divided on.

    Several raters' labels are made one by majority; an even division is left out, not guessed.
    With `each`, raters are kept apart.
    """
    by_rater: dict[str, Labels] = {name: {} for name in table.names}
    for row, (key, element) in enumerate(zip(table.keys, table.elements, strict=True)):
        by_rater[table.names[table.raters[row]]][key, element] = table.labels[row]
    if each or len(by_rater) == 1:
        return (by_rater if each else {"human": next(iter(by_rater.values()))}), 0
    counts: dict[tuple[Key, str], Counter[str]] = {}
    for labels in by_rater.values():
        for place, label in labels.items():
            counts.setdefault(place, Counter())[label] += 1
    found: Labels = {}
    for place, count in counts.items():
        ranked = count.most_common(2)
        if len(ranked) == 1 or ranked[0][1] > ranked[1][1]:
            found[place] = ranked[0][0]
    return {"human": found}, len(counts) - len(found)


def element_tables(
    truths: Mapping[str, Labels],
    judges: Sequence[Verdicts],
    elements: Mapping[str, Mapping[str, Element]],
    scale: LabelScale,
    *,
    ci: Kind | None = None,
    draws: int | None = None,
    seed: int = 0,
) -> list[ElementTable]:
    """Return the tables of people against judges, judges among themselves, and their passes.

    Each is of all elements and of each type, plain and weighted.

    Parameters
    ----------
    truths : people's labels by name; empty for judges alone
    elements : of each video by id
    scale : "binary" collapses the judges' verdicts to covered (entailed) or not
    """
    pairs: list[tuple[str, Labels, str, Labels]] = [
        (name, labels, judge.name, judge.labels)
        for name, labels in truths.items()
        for judge in judges
    ]
    rated = {place for labels in truths.values() for place in labels}
    for one, two in combinations(judges, 2):
        pairs.append((one.name, _only(one.labels, rated), two.name, two.labels))
    for judge in judges:
        for (a, first), (b, second) in combinations(enumerate(judge.passes, start=1), 2):
            names = (f"{judge.name} pass {a}", f"{judge.name} pass {b}")
            pairs.append((names[0], _only(first, rated), names[1], second))
    tables: list[ElementTable] = []
    for truth, expected, given, labels in pairs:
        between = [place for place in expected if place in labels]
        known = [place for place in between if place[1] in elements.get(place[0][0], {})]
        if known:
            tables += _tables(
                (truth, given),
                known,
                [_on(expected[place], scale) for place in known],
                [_on(labels[place], scale) for place in known],
                [elements[key[0]][element] for key, element in known],
                COVERAGES if scale == "binary" else RELATIONS,
                ci,
                draws,
                seed,
            )
    return tables


def _only(labels: Labels, rated: set[tuple[Key, str]]) -> Labels:
    return {place: label for place, label in labels.items() if place in rated or not rated}


def _on(label: str, scale: LabelScale) -> str:
    if scale == "binary" and label in RELATIONS:
        return COVERAGES[0] if label == "entailment" else COVERAGES[1]
    return label


def _tables(
    names: tuple[str, str],
    places: Sequence[tuple[Key, str]],
    truth: Sequence[str],
    given: Sequence[str],
    elements: Sequence[Element],
    labels: Sequence[str],
    ci: Kind | None,
    draws: int | None,
    seed: int,
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
            bounds = (
                {}
                if ci == "none"
                else coefficient_intervals(
                    matrices, seed=seed, **({} if draws is None else {"draws": draws})
                )
            )
            estimates = {}
            for name, value in coefficients(whole).items():
                bound = bounds.get(name)
                there = bound is not None and not isinstance(bound, Missing)
                estimates[name] = Estimate(
                    value=_value(value),
                    low=bound.low if there else None,  # type: ignore[union-attr]
                    high=bound.high if there else None,  # type: ignore[union-attr]
                    reason=value.reason if isinstance(value, Missing) else None,
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
                    coefficients=estimates,
                    classes={
                        label: ClassResult(
                            precision=_value(found.precision),
                            recall=_value(found.recall),
                            f1=_value(found.f1),
                            support=found.support,
                        )
                        for label, found in zip(labels, class_scores(whole), strict=True)
                    },
                )
            )
    return result


def _value(value: Value) -> float | None:
    return None if isinstance(value, Missing) else value
