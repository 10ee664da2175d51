"""Two judges compared on the runs that both have judged: a description, no way to convert labels.

How often the old judge says "entailment" where the new one says "lack" depends on how good the
captions are. The matrix therefore describes these runs, and is no rule for others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from capeval.schema import RELATIONS, Relation
from capeval.scoring import GROUPS, MEASURES, Estimate
from capeval.scoring.comparison import flips
from capeval.scoring.comparison_result import Transitions
from capeval.scoring.result import ByType, ResultModel
from capeval.stats import difference_intervals
from capeval.stats.values import Floats, Mask
from capeval.trust.bridge_pairs import RunPair


class Agreement(ResultModel):
    """How often two judges give an element the same label; None if no element has the type.

    `kappa` corrects for agreement by chance (Cohen, 1960); None where both always give one label.
    """

    elements: int
    same: int
    share: float | None
    kappa: float | None
    transitions: Transitions
    """Counts by the old judge's label, then the new judge's."""


class Shift(ResultModel):
    """One measure of one run on the videos that both judges scored; `shift` is old - new."""

    old: float | None
    new: float | None
    shift: Estimate
    n: int


class ShiftsOfType(ResultModel):
    """The shifts of one type of elements."""

    precision: Shift
    recall: Shift
    f1: Shift


class RunShifts(ResultModel):
    """One run: how many videos both judges scored, and its shifts."""

    run: str
    both: int
    random: bool
    """Whether the videos were drawn at random, or are all of the run's."""
    shifts: ByType[ShiftsOfType]


class PairOfRuns(ResultModel):
    """The difference of two runs in overall F1, first - second, by each judge.

    `change` is the difference by the old judge less that by the new one, over the shared videos.
    """

    first: str
    second: str
    old: Estimate
    new: Estimate
    change: Estimate
    kept: bool
    """Whether both judges put the same run first."""


class JudgedDifferently(ResultModel):
    """One element with different labels."""

    run: str
    index: str
    element_id: str
    type: str
    weight: int
    content: str
    old: Relation
    new: Relation


class VideoGap(ResultModel):
    """One video of one run: its F1 by both judges, and its elements with different labels."""

    run: str
    index: str
    old: float
    new: float
    elements: int


class JudgesCompared(ResultModel):
    """How two judges compare; videos and elements with different labels, the largest gaps first."""

    old: str
    new: str
    baseline: bool
    """Whether one of them is a baseline."""
    shared: int
    """Videos that both judges scored in every run; differences of runs are over these."""
    agreement: ByType[Agreement]
    runs: tuple[RunShifts, ...]
    pairs: tuple[PairOfRuns, ...]
    videos: tuple[VideoGap, ...]
    elements: tuple[JudgedDifferently, ...]


def compare_judges(pairs: Sequence[RunPair]) -> JudgesCompared:
    """Compare two judges on runs of one data set, in each of which both have scored a video."""
    counts = {g: {a: dict.fromkeys(RELATIONS, 0) for a in RELATIONS} for g in GROUPS}
    elements: list[JudgedDifferently] = []
    gaps: list[VideoGap] = []
    for pair in pairs:
        if pair.old is None:
            continue
        annotated = pair.reference.annotations
        rows = np.flatnonzero(pair.both)
        chosen = [annotated[row] for row in rows]
        old, new = pair.old.judged.scored, pair.new.judged.scored
        found = flips(chosen, [(old[one.index], new[one.index]) for one in chosen])
        for g in GROUPS:
            for a in RELATIONS:
                for b in RELATIONS:
                    counts[g][a][b] += found.counts[g][a][b]
        differing: dict[str, int] = {}
        for flip in found.elements:
            differing[flip.index] = differing.get(flip.index, 0) + 1
            elements.append(
                JudgedDifferently(
                    run=pair.run.name,
                    index=flip.index,
                    element_id=flip.element_id,
                    type=flip.type,
                    weight=flip.weight,
                    content=flip.content,
                    old=flip.first,
                    new=flip.second,
                )
            )
        gaps += [
            VideoGap(
                run=pair.run.name,
                index=annotated[row].index,
                old=float(pair.old.values[row, 0, 2]),
                new=float(pair.new.values[row, 0, 2]),
                elements=differing[annotated[row].index],
            )
            for row in rows
            if annotated[row].index in differing
        ]
    gaps.sort(key=lambda gap: (-abs(gap.old - gap.new), -gap.elements, gap.run, gap.index))
    place = {(gap.run, gap.index): at for at, gap in enumerate(gaps)}
    elements.sort(key=lambda one: (place[one.run, one.index], -one.weight))
    first = next(pair for pair in pairs if pair.old is not None)
    shared = np.all([pair.both for pair in pairs], axis=0)
    return JudgesCompared(
        old=first.old.folder.path.name if first.old else "",
        new=first.new.folder.path.name,
        baseline=bool(first.new.identity.baseline or (first.old and first.old.identity.baseline)),
        shared=int(shared.sum()),
        agreement=ByType[Agreement](**{group: _agreement(counts[group]) for group in GROUPS}),
        runs=tuple(_shifts(pair) for pair in pairs),
        pairs=tuple(
            _pair(one, other, shared) for one, other in combinations(pairs, 2) if shared.any()
        ),
        videos=tuple(gaps),
        elements=tuple(elements),
    )


def _agreement(counts: Mapping[Relation, Mapping[Relation, int]]) -> Agreement:
    table = np.array([[counts[a][b] for b in RELATIONS] for a in RELATIONS], dtype=np.float64)
    total, same = float(table.sum()), float(np.trace(table))
    chance = float(table.sum(axis=1) @ table.sum(axis=0)) / total**2 if total else 1.0
    return Agreement(
        elements=int(total),
        same=int(same),
        share=same / total if total else None,
        kappa=(same / total - chance) / (1 - chance) if total and chance < 1 else None,
        transitions={a: dict(counts[a]) for a in RELATIONS},
    )


def _shifts(pair: RunPair) -> RunShifts:
    def of(g: int, m: int) -> Shift:
        if pair.old is None:
            raise ValueError(f"{pair.run.name} has no verdicts of the old judge")
        old, new = (side.values[pair.both, g, m] for side in (pair.old, pair.new))
        there = np.isfinite(old) & np.isfinite(new)
        old, new = old[there], new[there]
        n = len(old)
        return Shift(
            old=float(old.mean()) if n else None,
            new=float(new.mean()) if n else None,
            shift=_estimate(old - new),
            n=n,
        )

    return RunShifts(
        run=pair.run.name,
        both=int(pair.both.sum()),
        random=pair.is_whole or pair.drawn is not None,
        shifts=ByType[ShiftsOfType](
            **{
                group: ShiftsOfType(**{name: of(g, m) for m, name in enumerate(MEASURES)})
                for g, group in enumerate(GROUPS)
            }
        ),
    )


def _pair(one: RunPair, other: RunPair, shared: Mask) -> PairOfRuns:
    gaps = [
        mine.values[shared, 0, 2] - theirs.values[shared, 0, 2]
        for mine, theirs in ((one.old, other.old), (one.new, other.new))
        if mine is not None and theirs is not None
    ]
    old, new = gaps
    return PairOfRuns(
        first=one.run.name,
        second=other.run.name,
        old=_estimate(old),
        new=_estimate(new),
        change=_estimate(old - new),
        kept=bool(np.sign(_rounded(old.mean())) == np.sign(_rounded(new.mean()))),
    )


def _rounded(value: float) -> float:
    # Sums in another order differ in the last digit: a tie must remain a tie.
    return 0.0 if abs(value) < 1e-9 else float(value)


def _estimate(values: Floats) -> Estimate:
    """Return a mean difference over videos with its interval."""
    if not len(values):
        return Estimate(value=None, low=None, high=None)
    low, high = (
        None if np.isnan(end) else float(end[0]) for end in difference_intervals(values[:, None])
    )
    return Estimate(value=float(values.mean()), low=low, high=high)
