"""The differences of several runs, over the videos that all of them scored, as the page has them.

They are those of `capeval compare`, with the same draws; only what is shown is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from capeval.reporting.report.data import Shown
from capeval.runs.comparing import unlikeness
from capeval.schema import ELEMENT_TYPES, Annotation, Scored
from capeval.scoring.comparison import Measured, differences, measured, ranked
from capeval.scoring.comparison_result import Difference, PairDifference
from capeval.scoring.counts import MEASURES

_NAMES = {"precision": "Precision", "recall": "Recall", "f1": "F1"}


@dataclass(frozen=True)
class Gap:
    """A row of the table of two runs: a measure or a type, of `n` videos."""

    name: str
    of: Difference
    n: int


@dataclass(frozen=True)
class Rank:
    """One of three runs or more; those of one `cluster`, from 1, cannot be told apart."""

    cluster: int
    letter: str
    name: str
    f1: float


@dataclass(frozen=True)
class Paired:
    """What several runs differ in; `why` says why there is nothing to show.

    Two runs have `measures` and `types` (F1 by type), three or more `ranks`, best first, and
    `pairs`, by letter. Every difference is the run typed later less the one typed earlier.
    """

    videos: int
    why: str = ""
    measures: tuple[Gap, ...] = ()
    types: tuple[Gap, ...] = ()
    ranks: tuple[Rank, ...] = ()
    pairs: tuple[PairDifference, ...] = ()

    @property
    def few(self) -> bool:
        """Whether a difference has no interval, for which there are too few videos."""
        gaps: list[Difference | PairDifference] = [
            *(row.of for row in (*self.measures, *self.types)),
            *self.pairs,
        ]
        return any(gap.value is not None and gap.low is None for gap in gaps)


def paired(shown: Sequence[Shown]) -> Paired | None:
    """Return the differences of runs of the same annotations; None of a single run."""
    if len(shown) < 2:
        return None
    common = [
        annotation
        for annotation in shown[0].run.annotations
        if all(isinstance(one.run.judgments.get(annotation.index), Scored) for one in shown)
    ]
    unlike = unlikeness({one.letter: one.run.signature for one in shown})
    if unlike:
        return Paired(len(common), f"they were not measured alike: {'; '.join(unlike)}")
    if not common:
        return Paired(0, "no video was scored in all of them")
    runs = [_measured(one, common) for one in shown]
    seed = shown[0].run.seed
    if len(runs) > 2:
        return _of_many(shown, runs, len(common), seed)
    overall, _ = differences(runs[0], runs[1], [], seed=seed)
    types = [(name, getattr(overall, name)) for name in ELEMENT_TYPES]
    return Paired(
        len(common),
        measures=tuple(
            Gap(_NAMES[name], getattr(overall.all, name), overall.all.n) for name in MEASURES
        ),
        types=tuple(Gap(name, one.f1, one.n) for name, one in types if one.n),
    )


def _measured(one: Shown, common: Sequence[Annotation]) -> Measured:
    found = (one.run.judgments[annotation.index] for annotation in common)
    return measured(common, [judgment for judgment in found if isinstance(judgment, Scored)])


def _of_many(shown: Sequence[Shown], runs: Sequence[Measured], videos: int, seed: int) -> Paired:
    means, clusters, pairs = ranked([one.letter for one in shown], runs, seed=seed)
    ranks = [
        Rank(cluster, one.letter, one.name, mean)
        for one, mean, cluster in zip(shown, means, clusters, strict=True)
    ]
    # A stable sort: of equals, the one that was typed first.
    ranks.sort(key=lambda rank: -rank.f1)
    return Paired(videos, ranks=tuple(ranks), pairs=tuple(pairs))
