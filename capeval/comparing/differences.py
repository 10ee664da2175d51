"""Differences between runs: overall, by type, by bucket, by video and by element.

All are computed from the sufficient statistics of each video; every one is second − first, positive
if the second run is better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capeval.schema import RELATIONS, Annotation, ElementType, Relation, Scored, Verdict
from capeval.scoring.counts import (
    GROUPS,
    MEASURES,
    AnnotationArrays,
    Membership,
    as_arrays,
    by_way,
    measures,
)
from capeval.scoring.score_parts import ByType, ByWay, ResultModel
from capeval.stats import Value, difference_intervals
from capeval.stats.sign_flips import detectable_difference, holm, rank_clusters, sign_flips
from capeval.stats.values import Floats

FEWEST_FOR_POWER = 10
"""Fewer videos estimate the standard deviation too roughly for a statement on power."""

RESAMPLES = 10_000
"""Random sign flips of a test, which give p down to 0.0001."""

_F1 = MEASURES.index("f1")


class Difference(ResultModel):
    """The means of two runs over the same videos, and their difference, second − first.

    `low` and `high` are the 95% interval of `value`; `p` is two-sided and not adjusted. A value
    that does not exist is None.
    """

    first: float | None
    second: float | None
    value: float | None
    low: float | None
    high: float | None
    p: float | None


class TypeDifference(ResultModel):
    """Differences of one type in one bucket, over `n` videos."""

    precision: Difference
    recall: Difference
    f1: Difference
    n: int


class BucketDifference(ByType[TypeDifference]):
    """One bucket of videos: all elements pooled, and each type.

    `p_adjusted` is the p of F1 (all elements), adjusted by Holm over all buckets; None for the
    whole set, whose p is not adjusted.
    """

    p_adjusted: float | None


class Differences(ByWay[BucketDifference]):
    """The buckets of every way to group videos; empty buckets are left out."""


class Move(ResultModel):
    """One measure of one video in both runs."""

    first: float
    second: float
    value: float


class VideoMove(ResultModel):
    """One video in both runs, all elements pooled."""

    precision: Move
    recall: Move
    f1: Move


class Flip(ResultModel):
    """An element whose verdicts differ between the two runs."""

    index: str
    element_id: str
    type: ElementType
    weight: int
    content: str
    first: Relation
    second: Relation


Transitions = dict[Relation, dict[Relation, int]]
"""Counts by the first run's verdict, then the second's; the diagonal is unchanged verdicts."""


class Flips(ResultModel):
    """How verdicts changed, over the elements of `videos` paired videos with the same annotation.

    `counts` are by "all" and by type of element.
    """

    videos: int
    counts: dict[str, Transitions]
    elements: tuple[Flip, ...]


class PairDifference(ResultModel):
    """Two of several runs: the difference of overall F1; `p_adjusted` by Holm over all pairs."""

    first: str
    second: str
    value: float
    low: float | None
    high: float | None
    p: float
    p_adjusted: float


@dataclass(frozen=True)
class RunMeasures:
    """Measures of one run's videos.

    `values` (videos, 5 groups, 3 measures) are those of the final labels (with repeats, the
    majority); `repeats` (repeats, videos, 5, 3) those of each repeat of the judge, or the `values`
    if it judged once. NaN means that a video has no element of the type.
    """

    values: Floats
    repeats: Floats


def measured(
    annotations: Sequence[Annotation] | AnnotationArrays, judgments: Sequence[Scored]
) -> RunMeasures:
    """Return the measures of videos, in the order given; `AnnotationArrays` serve several runs.

    A video with fewer repeats than another cycles through its own.
    """
    arrays = as_arrays(annotations)

    def of(verdicts: Sequence[Scored | Verdict]) -> Floats:
        relations = [verdict.relations for verdict in verdicts]
        return measures(arrays.counts(range(len(arrays.annotations)), relations))

    values = of(judgments)
    most = max((len(judgment.repeats) for judgment in judgments), default=0)
    if most < 2:
        return RunMeasures(values, values[None])
    each = [judgment.repeats or (judgment,) for judgment in judgments]
    return RunMeasures(
        values, np.stack([of([mine[k % len(mine)] for mine in each]) for k in range(most)])
    )


def differences(
    first: RunMeasures,
    second: RunMeasures,
    members: Sequence[Membership],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[BucketDifference, Differences, float | None]:
    """Return the differences, second − first, over all videos and in every bucket.

    The third value is the smallest difference in F1 that so many videos can detect, if there are
    at least `FEWEST_FOR_POWER`.

    The estimate is the mean over videos of the difference between the final labels, and its
    interval that of `capeval.stats.difference_intervals`. With repeats, each repeat of the judge
    counts as a row of its video: the deviation of that repeat's difference from the video's mean
    over repeats is added to the video's difference. The interval therefore belongs to the estimate
    and is as wide as that of runs judged once, which is conservative for a majority. p comes from
    flipping the signs of videos.

    Parameters
    ----------
    first, second : of the same videos in the same order; at least one
    members : buckets of these videos
    resamples : random sign flips
    """
    table = _table(first, second, members, resamples=resamples, seed=seed)
    tests: list[Value] = [float(p) for p in table["p"][1:, 0, _F1]]
    adjusted = [None, *map(_number, holm(tests))]
    buckets = [_bucket(table, b, adjusted[b]) for b in range(len(members) + 1)]
    sd, n = _number(table["sd"][0, 0, _F1]), int(table["n"][0, 0, _F1])
    detectable = None if sd is None or n < FEWEST_FOR_POWER else detectable_difference(sd, n)
    return buckets[0], Differences(**by_way(members, buckets[1:])), detectable


_Table = Mapping[str, NDArray[Any]]
"""Arrays of (buckets, 5, 3), those of `Difference`, `n` and `sd`; first comes the whole set."""


def _bucket(table: _Table, b: int, p_adjusted: float | None) -> BucketDifference:
    def of(g: int, m: int) -> Difference:
        return Difference(
            **{name: _number(table[name][b, g, m]) for name in Difference.model_fields}
        )

    return BucketDifference(
        **{
            group: TypeDifference(
                **{measure: of(g, m) for m, measure in enumerate(MEASURES)},
                n=int(table["n"][b, g, 0]),
            )
            for g, group in enumerate(GROUPS)
        },
        p_adjusted=p_adjusted,
    )


def _table(
    first: RunMeasures,
    second: RunMeasures,
    members: Sequence[Membership],
    *,
    resamples: int,
    seed: int,
) -> _Table:
    gaps = second.values - first.values
    videos = len(gaps)
    inside = np.array([np.ones(videos, dtype=bool), *(member.inside for member in members)]).T
    shape = (inside.shape[1], len(GROUPS), len(MEASURES))

    def spread(values: Floats) -> Floats:
        # (rows, buckets x groups x measures): NaN if the video is not in the bucket, or if either
        # run has no element of the type.
        mask = np.tile(inside, (len(values) // videos, 1))
        return np.where(mask[:, :, None, None], values[:, None], np.nan).reshape(len(values), -1)

    flat = spread(gaps)
    most = max(len(first.repeats), len(second.repeats))
    rows = spread(_gaps_by_repeat(first, second, most))
    low, high = difference_intervals(rows, rows_per_video=most)
    n = (~np.isnan(flat)).sum(axis=0)
    mean = _means(flat)
    squares = np.nansum((flat - mean) ** 2, axis=0)
    sd = np.sqrt(np.divide(squares, n - 1, out=np.full(len(n), np.nan), where=n > 1))
    either = np.isnan(gaps)
    one, other = (_means(spread(np.where(either, np.nan, run.values))) for run in (first, second))
    p = sign_flips(flat, resamples=resamples, seed=seed)
    found = {"first": one, "second": other, "value": mean, "low": low, "high": high, "p": p}
    return {name: of.reshape(shape) for name, of in (found | {"n": n, "sd": sd}).items()}


def _gaps_by_repeat(first: RunMeasures, second: RunMeasures, most: int) -> Floats:
    """Return the (`most` x videos, 5, 3) differences to resample, centred on the majority's."""
    gaps: Floats = second.values - first.values
    if most == 1:
        return gaps
    # Fewer repeats are cycled through, so that all rows are equally likely.
    one, other = first.repeats, second.repeats
    each = np.stack([other[k % len(other)] - one[k % len(one)] for k in range(most)])
    centred = gaps + each - each.mean(axis=0)
    return np.asarray(centred.reshape(most * len(gaps), len(GROUPS), len(MEASURES)))


def _means(flat: Floats) -> Floats:
    n = (~np.isnan(flat)).sum(axis=0)
    none = np.full(len(n), np.nan)
    return np.asarray(np.divide(np.nansum(flat, axis=0), n, out=none, where=n > 0))


def _number(value: object) -> float | None:
    return None if not isinstance(value, float) or np.isnan(value) else float(value)


def moves(
    annotations: Sequence[Annotation], first: RunMeasures, second: RunMeasures
) -> dict[str, VideoMove]:
    """Return every video in both runs, all elements pooled."""
    one, other = first.values[:, 0].tolist(), second.values[:, 0].tolist()
    return {
        annotation.index: VideoMove(
            **{
                measure: Move(first=one[v][m], second=other[v][m], value=other[v][m] - one[v][m])
                for m, measure in enumerate(MEASURES)
            }
        )
        for v, annotation in enumerate(annotations)
    }


def flips(annotations: Sequence[Annotation], pairs: Sequence[tuple[Scored, Scored]]) -> Flips:
    """Return how the verdicts of elements changed from the first run to the second.

    Parameters
    ----------
    annotations : of the videos, the same for both runs
    pairs : the judgments of the first and of the second
    """
    counts = {g: {a: dict.fromkeys(RELATIONS, 0) for a in RELATIONS} for g in GROUPS}
    found: list[Flip] = []
    for annotation, (one, other) in zip(annotations, pairs, strict=True):
        for e, event in enumerate(annotation.events):
            for at, element in enumerate(event.visual_elements):
                before, after = one.relations[e][at], other.relations[e][at]
                for group in ("all", element.type):
                    counts[group][before][after] += 1
                if before != after:
                    flip = Flip(
                        index=annotation.index,
                        element_id=f"{e + 1}.{at + 1}",
                        type=element.type,
                        weight=element.weight,
                        content=element.content,
                        first=before,
                        second=after,
                    )
                    found.append(flip)
    return Flips(videos=len(pairs), counts=counts, elements=tuple(found))


def ranked(
    names: Sequence[str], runs: Sequence[RunMeasures], *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[list[dict[str, float]], list[int], list[PairDifference]]:
    """Compare the overall F1 of every pair of runs.

    Parameters
    ----------
    names, runs : of the same videos in the same order; at least one video

    Returns
    -------
    The means of each run by measure, its rank cluster (by p of F1 adjusted by Holm over all pairs,
    at 5%), and the pairs, each second − first in the order of the runs.
    """
    values = [run.values[:, 0, _F1] for run in runs]
    means = [
        dict(zip(MEASURES, run.values[:, 0].mean(axis=0).tolist(), strict=True)) for run in runs
    ]
    pairs = list(combinations(range(len(runs)), 2))
    most = max(len(run.repeats) for run in runs)
    table = np.stack([_gaps_by_repeat(runs[i], runs[j], most)[:, 0, _F1] for i, j in pairs], axis=1)
    low, high = difference_intervals(table, rows_per_video=most)
    gaps = np.stack([values[j] - values[i] for i, j in pairs], axis=1)
    p = [float(one) for one in sign_flips(gaps, resamples=resamples, seed=seed)]
    adjusted = [float(one) for one in holm(p) if isinstance(one, float)]
    square: list[list[Value]] = [[1.0] * len(runs) for _ in runs]
    for (i, j), one in zip(pairs, adjusted, strict=True):
        square[i][j] = square[j][i] = one
    clusters = [cluster or 0 for cluster in rank_clusters([mean["f1"] for mean in means], square)]
    found = [
        PairDifference(
            first=names[i],
            second=names[j],
            value=float(gaps[:, k].mean()),
            low=_number(float(low[k])),
            high=_number(float(high[k])),
            p=p[k],
            p_adjusted=adjusted[k],
        )
        for k, (i, j) in enumerate(pairs)
    ]
    return means, clusters, found
