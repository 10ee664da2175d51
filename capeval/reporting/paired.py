"""Differences of several runs over the videos scored in all of them, and warnings about numbers.

The differences are those of `capeval compare`, with the same resamples; only those shown are
computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from capeval.comparing.differences import (
    Difference,
    Measured,
    PairDifference,
    differences,
    measured,
    ranked,
)
from capeval.comparing.sections import LEAST_SCORED
from capeval.reporting.page_data import ReportedRun
from capeval.schema import ELEMENT_TYPES, Scored
from capeval.scoring.counts import MEASURES, AnnotationArrays
from capeval.scoring.judged_run import JudgedRun
from capeval.scoring.scores import is_narrow
from capeval.scoring.signature import unlikeness
from capeval.show.numbers import percent, plain_number, thousands

_NAMES = {"precision": "Precision", "recall": "Recall", "f1": "F1"}


@dataclass(frozen=True)
class Gap:
    """A row of the table of two runs: a measure or a type, over `n` videos."""

    name: str
    of: Difference
    n: int


@dataclass(frozen=True)
class Rank:
    """One of three runs or more; runs of one `cluster`, from 1, do not differ significantly."""

    cluster: int
    letter: str
    name: str
    f1: float


@dataclass(frozen=True)
class Paired:
    """The differences of several runs; `why` says why there are none.

    Two runs have `measures` and `types` (F1 by type), three or more `ranks`, best first, and
    `pairs`, by letter. Every difference is the later run − the earlier one.
    """

    videos: int
    why: str = ""
    measures: tuple[Gap, ...] = ()
    types: tuple[Gap, ...] = ()
    ranks: tuple[Rank, ...] = ()
    pairs: tuple[PairDifference, ...] = ()

    @property
    def few(self) -> bool:
        """Whether a difference has no interval because there are too few videos."""
        gaps: list[Difference | PairDifference] = [
            *(row.of for row in (*self.measures, *self.types)),
            *self.pairs,
        ]
        return any(gap.value is not None and gap.low is None for gap in gaps)

    @property
    def narrow(self) -> bool:
        """Whether a difference has an interval of few videos."""
        rows = (*self.measures, *self.types)
        return any(is_narrow(row.of, row.n) for row in rows) or any(
            is_narrow(pair, self.videos) for pair in self.pairs
        )


def paired(shown: Sequence[ReportedRun]) -> Paired | None:
    """Return the differences of runs of the same annotations; None for a single run."""
    if len(shown) < 2:
        return None
    common = [
        annotation
        for annotation in shown[0].run.annotations
        if all(isinstance(one.run.judgments.get(annotation.index), Scored) for one in shown)
    ]
    unlike = unlikeness({one.letter: one.run.signature for one in shown})
    if unlike:
        return Paired(len(common), f"they were not measured in the same way: {'; '.join(unlike)}")
    if not common:
        return Paired(0, "no video is scored in all of them")
    arrays = AnnotationArrays(common)
    runs = [_measured(one, arrays) for one in shown]
    seed = shown[0].run.seed
    if len(runs) > 2:
        return _of_many(shown, runs, len(common), seed)
    overall, _, _ = differences(runs[0], runs[1], [], seed=seed)
    types = [(name, getattr(overall, name)) for name in ELEMENT_TYPES]
    return Paired(
        len(common),
        measures=tuple(
            Gap(_NAMES[name], getattr(overall.all, name), overall.all.n) for name in MEASURES
        ),
        types=tuple(Gap(name, one.f1, one.n) for name, one in types if one.n),
    )


def _measured(one: ReportedRun, common: AnnotationArrays) -> Measured:
    found = (one.run.judgments[annotation.index] for annotation in common.annotations)
    return measured(common, [judgment for judgment in found if isinstance(judgment, Scored)])


def _of_many(
    shown: Sequence[ReportedRun], runs: Sequence[Measured], videos: int, seed: int
) -> Paired:
    means, clusters, pairs = ranked([one.letter for one in shown], runs, seed=seed)
    ranks = [
        Rank(cluster, one.letter, one.name, mean["f1"])
        for one, mean, cluster in zip(shown, means, clusters, strict=True)
    ]
    # A stable sort: of equals, the one named first.
    ranks.sort(key=lambda rank: -rank.f1)
    return Paired(videos, ranks=tuple(ranks), pairs=tuple(pairs))


def notices(shown: Sequence[ReportedRun]) -> list[str]:
    """Return a sentence for each thing that a reader must know before the numbers."""
    several = len(shown) > 1
    found = []
    scored = {one.letter: _scored(one.run) for one in shown}
    if len({frozenset(indexes) for indexes in scored.values()}) > 1:
        each = ", ".join(f"{letter} {thousands(len(of))}" for letter, of in scored.items())
        common = len(set.intersection(*scored.values()))
        found.append(
            f"The runs were scored on different sets of videos ({each}; {thousands(common)} in all "
            "of them): only the paired differences are over the same videos, not the scores, "
            "charts and findings."
        )
    for one in shown:
        counts = one.run.scores.counts
        who = f"{one.letter} is" if several else "This run is"
        if counts.annotated and counts.scored < LEAST_SCORED * counts.annotated:
            found.append(
                f"{who} scored on {thousands(counts.scored)} of {thousands(counts.annotated)} "
                f"annotated videos ({percent(counts.scored / counts.annotated)}%), less than "
                f"{plain_number(100 * LEAST_SCORED)}%: this is not a score of the whole set."
            )
    return found


def _scored(run: JudgedRun) -> set[str]:
    known = {annotation.index for annotation in run.annotations}
    return {j.index for j in run.judgments.values() if isinstance(j, Scored)} & known
