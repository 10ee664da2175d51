"""Labels of elements against labels: people and judges, judge and judge, one pass and another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from capeval.correlation.joining import Missing as IfMissing
from capeval.correlation.joining import caption_names
from capeval.correlation.result import ClassResult, ElementTable, Estimate
from capeval.errors import InputError
from capeval.files.ratings import Key, LabelTable
from capeval.rating.human_scores import Element
from capeval.schema import COVERAGES, ELEMENT_TYPES, RELATIONS, LabelScale, Relation
from capeval.stats.agreement import (
    class_scores,
    coefficient_intervals,
    coefficients,
    confusion_by_video,
    confusion_matrix,
)
from capeval.stats.intervals import Kind
from capeval.stats.values import Missing, Value

Place = tuple[Key, str]
Labels = dict[Place, str]
"""A label by caption and element."""

_EACH = 20


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


@dataclass(frozen=True)
class People:
    """What people said of each element.

    Attributes
    ----------
    truths : labels by name, as judges are held against them
    tied : elements without a label, because raters were evenly divided on them
    raters : each rater's own, where `truths` are made of several; none above 20 raters
    """

    truths: Mapping[str, Labels]
    tied: frozenset[Place] = frozenset()
    raters: Mapping[str, Labels] = field(default_factory=dict)

    def without(self, captions: Collection[Key]) -> People:
        """Return the same with some captions left out."""
        if not captions:
            return self

        def rest(of: Mapping[str, Labels]) -> dict[str, Labels]:
            return {
                name: {place: label for place, label in labels.items() if place[0] not in captions}
                for name, labels in of.items()
            }

        tied = frozenset(place for place in self.tied if place[0] not in captions)
        return People(rest(self.truths), tied, rest(self.raters))


def people(table: LabelTable, *, each: bool = False) -> People:
    """Return people's labels.

    Several raters' labels are made one by majority; an even division is left out, not guessed.
    With `each`, raters are kept apart.
    """
    by_rater: dict[str, Labels] = {name: {} for name in table.names}
    for row, (key, element) in enumerate(zip(table.keys, table.elements, strict=True)):
        by_rater[table.names[table.raters[row]]][key, element] = table.labels[row]
    if each:
        return People(by_rater)
    if len(by_rater) == 1:
        return People({"human": next(iter(by_rater.values()))})
    counts: dict[Place, Counter[str]] = {}
    for labels in by_rater.values():
        for place, label in labels.items():
            counts.setdefault(place, Counter())[label] += 1
    found: Labels = {}
    for place, count in counts.items():
        ranked = count.most_common(2)
        if len(ranked) == 1 or ranked[0][1] > ranked[1][1]:
            found[place] = ranked[0][0]
    tied = frozenset(counts.keys() - found.keys())
    return People({"human": found}, tied, by_rater if len(by_rater) <= _EACH else {})


def unjudged(
    table: LabelTable,
    judges: Sequence[Verdicts],
    reasons: Mapping[str, Mapping[Key, str]],
    missing: IfMissing = "error",
) -> tuple[dict[Key, int], list[str]]:
    """Return captions that people labelled and a judge gave no verdict on, and warnings.

    They are left out for all judges, so that all are held against the same labels.

    Parameters
    ----------
    reasons : by judge and caption, why there is no verdict
    missing : "drop" to leave them out

    Returns
    -------
    The number of elements of each such caption, and a line for each judge that lacks some.

    Raises
    ------
    InputError
        There are such captions and `missing` is "error", or nothing is left.
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
        told = (
            f"{judge.name}: {matched} of {len(places)} labelled elements matched; no verdict on "
            f"{captions}: {caption_names(lacking, reasons.get(judge.name, {}))}"
        )
        if missing == "error":
            raise InputError(
                f"{told}; leave such captions out with --missing drop", file=table.file
            )
        warnings.append(told)
        lost |= {key: elements[key] for key in lacking}
    if len(lost) == len(elements) and lost:
        raise InputError("no labelled caption has a verdict of every judge", file=table.file)
    return lost, warnings


def element_tables(
    told: People,
    judges: Sequence[Verdicts],
    elements: Mapping[str, Mapping[str, Element]],
    scale: LabelScale,
    *,
    ci: Kind | None = None,
    draws: int | None = None,
    seed: int = 0,
) -> list[ElementTable]:
    """Return the tables of people against judges, judges among themselves, and their passes.

    Each is of all elements and of each type, plain and weighted. Judges are held against each
    other on what people labelled, be they divided or not.

    Parameters
    ----------
    told : without truths for judges alone
    elements : of each video by id
    scale : "binary" collapses the judges' verdicts to covered (entailed) or not
    """
    pairs: list[tuple[str, Labels, str, Labels]] = [
        (name, labels, judge.name, judge.labels)
        for name, labels in told.truths.items()
        for judge in judges
    ]
    rated = {place for labels in told.truths.values() for place in labels} | told.tied
    for one, two in combinations(judges, 2):
        pairs.append((one.name, _only(one.labels, rated), two.name, two.labels))
    for judge in judges:
        for (a, first), (b, second) in combinations(enumerate(judge.passes, start=1), 2):
            names = (f"{judge.name} pass {a}", f"{judge.name} pass {b}")
            pairs.append((names[0], _only(first, rated), names[1], second))
    labels_of = COVERAGES if scale == "binary" else RELATIONS
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
            labels_of,
            ci,
            draws,
            seed,
        )
        if told.truths.get(truth) is expected:
            tied = [elements[key[0]][element].type for key, element in told.tied]
            each = {
                name: _coefficients(own, labels, elements, scale)
                for name, own in told.raters.items()
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
    expected: Labels, given: Labels, elements: Mapping[str, Mapping[str, Element]]
) -> list[Place]:
    """Return what both sides labelled and the annotations have."""
    between = [place for place in expected if place in given]
    return [place for place in between if place[1] in elements.get(place[0][0], {})]


def _coefficients(
    truth: Labels,
    given: Labels,
    elements: Mapping[str, Mapping[str, Element]],
    scale: LabelScale,
) -> dict[str, float | None]:
    known = _known(truth, given, elements)
    matrix = confusion_matrix(
        [_on(truth[place], scale) for place in known],
        [_on(given[place], scale) for place in known],
        COVERAGES if scale == "binary" else RELATIONS,
    )
    return {name: _value(value) for name, value in coefficients(matrix).items()}


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
                missing = value if isinstance(value, Missing) else bound
                if isinstance(missing, Missing):
                    estimates[name] = Estimate(value=_value(value), reason=missing.reason)
                elif bound is None:
                    estimates[name] = Estimate(value=_value(value))
                else:
                    estimates[name] = Estimate(
                        value=_value(value),
                        low=bound.low,  # type: ignore[union-attr]
                        high=bound.high,  # type: ignore[union-attr]
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
