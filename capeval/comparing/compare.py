"""`capeval compare`: judged runs over the videos scored in all of them; gates for CI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from capeval.comparing.comparison import (
    FEWEST_FOR_POWER,
    BucketDifference,
    Compared,
    Comparison,
    Contender,
    Difference,
    Differences,
    Flip,
    Flips,
    GateResult,
    LeftOut,
    Matrix,
    Move,
    PairDifference,
    Side,
    TypeDifference,
    VideoMove,
)
from capeval.errors import UsageError
from capeval.options import (
    FRACTION,
    CountOrShare,
    FilePath,
    annotations_option,
    command,
    decimal_of,
    declares,
    judge_option,
    judged_runs_argument,
    option,
    resamples_option,
    runs_option,
    seed_option,
    takes,
)
from capeval.schema import RELATIONS, Annotation, Scored, Verdict
from capeval.scoring.counts import (
    GROUPS,
    MEASURES,
    Membership,
    arrays_of,
    by_way,
    measures,
    memberships,
)
from capeval.scoring.judged_run import JudgedRun, load_judged_runs
from capeval.scoring.scores import by_type
from capeval.scoring.verdicts import unlikeness
from capeval.show.numbers import beside_limit, plain_number, thousands
from capeval.stats.sign_flips import detectable_difference, holm, rank_clusters, sign_flips
from capeval.stats.values import Floats, Value, difference_intervals, number_of
from capeval.text import both_ends, counted, one_line

RESAMPLES = 10_000
"""Random sign flips of a test, which give p down to 0.0001."""

_F1 = MEASURES.index("f1")
# A difference of exactly -0.5 points must not fail f1=-0.5 by the last bit of its mean.
_SLACK = 1e-9


@declares
class CompareOptions:
    """The arguments of `capeval.compare`.

    Parameters
    ----------
    allow_mismatch : Compare runs that differ in judge, prompts, repeats or data, and say so.
    fail_under : The smallest difference to accept: f1=-0.5, action.recall=-1.
    min_coverage : How many annotated videos must be compared: a number, or a share such as 99%.
    resamples : Sign flips for p-values. By default 10,000.
    """

    judged_runs: Sequence[FilePath] = judged_runs_argument()
    _: KW_ONLY
    judge: str | None = judge_option()
    annotations: FilePath | None = annotations_option()
    allow_mismatch: bool = False
    fail_under: Sequence[str] = option((), metavar="MEASURE=POINTS")
    min_coverage: str | int | float | None = option(None, note=FRACTION, metavar="SHARE")
    # More would exceed a CI machine's memory and change no digit shown.
    resamples: int | None = resamples_option(max=100_000)
    seed: int = seed_option()
    runs: FilePath = runs_option()


# ---- The comparison -----------------------------------------------------------------------------


def compare_judged(
    runs: Mapping[str, JudgedRun],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    anyway: bool = False,
) -> Compared:
    """Compare runs by name: two by every measure (second − first), more by overall F1.

    Parameters
    ----------
    runs : at least two
    resamples : random sign flips of the tests
    anyway : compare runs whose signatures differ, and mark the result
    """
    unlike = unlikeness({name: run.signature for name, run in runs.items()})
    *others, last = (both_ends(name, 60) for name in runs)
    names = f"{', '.join(others)} and {last}"
    if unlike and not anyway:
        raise UsageError(
            f"{names} cannot be compared because they differ: {'; '.join(unlike)}; judge "
            "them in the same way, or compare them anyway with --allow-mismatch"
        )
    judged = list(runs.values())
    # In the order of the first run's annotations.
    videos = [
        one.index
        for one in judged[0].annotations
        if all(one.index in of for run in judged for of in (run.scored, run.annotated))
    ]
    if not videos:
        raise UsageError(f"no video is scored in all of these runs: {names}")
    shared: dict[str, Any] = {
        "comparable": not unlike,
        "unlike": tuple(unlike),
        "notes": tuple(line for run in judged for line in run.notices),
        "annotated": len({index for run in judged for index in run.annotated}),
        "paired": len(videos),
        "settings": _settings(runs, resamples, seed),
    }
    sides = [_side(name, runs, videos) for name in runs]
    # A run's own annotations of the videos, and its verdicts on them.
    annotations = [[run.annotated[index] for index in videos] for run in judged]
    verdicts = [[run.scored[index] for index in videos] for run in judged]
    values = [_measured(run, videos) for run in judged]
    if len(runs) > 2:
        return Matrix(**shared, **_ranked(sides, values, resamples, seed))
    first, second = values
    members = _members(*(memberships(of) for of in annotations))
    overall, by = _differences(first, second, members, resamples, seed)
    gaps = (second.values - first.values)[:, 0, _F1]
    many = len(videos) >= FEWEST_FOR_POWER
    return Comparison(
        **shared,
        first=sides[0],
        second=sides[1],
        overall=overall,
        by=by,
        detectable=detectable_difference(gaps.std(ddof=1), len(gaps)) if many else None,
        videos=dict(zip(videos, _moves(first, second), strict=True)),
        flips=_flips(*zip(annotations, verdicts, strict=True)),
    )


def _side(name: str, runs: Mapping[str, JudgedRun], videos: Sequence[str]) -> Side:
    run, paired = runs[name], set(videos)
    scored = [one.index for one in run.annotations if one.index in run.scored]
    left_out = [
        LeftOut(index=index, reason=_why_left_out(name, index, runs))
        for index in scored
        if index not in paired
    ]
    return Side(
        name=name,
        signature=run.signature,
        model=run.model,
        baseline=run.identity.baseline,
        annotated=len(run.annotations),
        captioned=run.captioned,
        scored=len(scored),
        mean_words=run.mean_words(videos),
        left_out=tuple(left_out),
    )


def _why_left_out(name: str, index: str, runs: Mapping[str, JudgedRun]) -> str:
    other, run = next(
        (other, run)
        for other, run in runs.items()
        if other != name and index not in {*run.scored} & {*run.annotated}
    )
    if index not in run.annotated:
        return f"not annotated in {other}"
    if index in run.unscored:
        return f"unscored in {other}: {run.unscored[index]}"
    if index in run.captions:
        return f"not judged yet in {other}"
    return f"no caption in {other}" if run.run else f"no verdict in {other}"


def _settings(runs: Mapping[str, JudgedRun], resamples: int, seed: int) -> dict[str, object]:
    repeats = max(run.identity.repeats for run in runs.values())
    what = "videos and repeats of the judge" if repeats > 1 else "videos"
    return {
        "interval": {
            "level": 0.95,
            "method": f"paired t intervals over {what}, with and without a correction for "
            "skewness (Hall, 1992); at each end the wider of the two",
        },
        "test": {
            "method": "paired permutation test (sign flips), exact if there are no more "
            "permutations than resamples",
            "resamples": resamples,
            "seed": seed,
            "adjusted": "Holm",
        },
        "power": {"alpha": 0.05, "power": 0.8, "method": "normal approximation"},
        "repeats": {name: run.identity.repeats for name, run in runs.items()},
    }


# ---- Numbers ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _RunMeasures:
    """Measures of one run's videos.

    `values` (videos, 5 groups, 3 measures) belong to the final labels (with repeats, the
    majority), `repeats` (repeats, videos, 5, 3) to each repeat of the judge; with one repeat, they
    are the `values`. NaN means that a video has no element of the type.
    """

    values: Floats
    repeats: Floats


def _measured(run: JudgedRun, videos: Sequence[str]) -> _RunMeasures:
    """Return the measures; a video with fewer repeats than another cycles through its own."""
    arrays = arrays_of(run.annotations)
    rows = [arrays.rows[index] for index in videos]

    def of(verdicts: Sequence[Scored | Verdict]) -> Floats:
        return measures(arrays.counts(rows, [verdict.relations for verdict in verdicts]))

    judgments = [run.scored[index] for index in videos]
    values = of(judgments)
    each = [judgment.repeats or (judgment,) for judgment in judgments]
    most = max(map(len, each))
    if most == 1:
        return _RunMeasures(values, values[None])
    repeats = [of([mine[k % len(mine)] for mine in each]) for k in range(most)]
    return _RunMeasures(values, np.stack(repeats))


def _members(first: Sequence[Membership], second: Sequence[Membership]) -> list[Membership]:
    """Return the buckets; a video is in one if the annotations of both runs agree."""
    insides = {(of.way, of.name): of.inside for of in second}
    both = [
        Membership(of.way, of.name, of.inside & insides[of.way, of.name])
        for of in first
        if (of.way, of.name) in insides
    ]
    return [of for of in both if of.inside.any()]


def _differences(
    first: _RunMeasures,
    second: _RunMeasures,
    members: Sequence[Membership],
    resamples: int,
    seed: int,
) -> tuple[BucketDifference, Differences]:
    """Return the differences, second − first, over all videos and in every bucket.

    The estimate is the mean over videos of the difference between the final labels, with the
    interval of `difference_intervals` over the rows of `_gaps_by_repeat`. p comes from flipping the
    signs of videos.
    """
    gaps = second.values - first.values
    videos = len(gaps)
    inside = np.array([np.ones(videos, dtype=bool), *(member.inside for member in members)]).T

    def spread(values: Floats) -> Floats:
        # (rows, buckets x groups x measures): NaN if the video is not in the bucket, or if either
        # run has no element of the type.
        mask = np.tile(inside, (len(values) // videos, 1))
        return np.where(mask[:, :, None, None], values[:, None], np.nan).reshape(len(values), -1)

    flat, neither = spread(gaps), np.isnan(gaps)
    most = max(len(first.repeats), len(second.repeats))
    rows = spread(_gaps_by_repeat(first, second, most))
    low, high = difference_intervals(rows, rows_per_video=most)
    n = (~np.isnan(flat)).sum(axis=0)
    one, other = (spread(np.where(neither, np.nan, run.values)) for run in (first, second))
    columns = {
        "first": _means(one),
        "second": _means(other),
        "value": _means(flat),
        "low": low,
        "high": high,
        "p": sign_flips(flat, resamples=resamples, seed=seed),
    }
    table = np.stack([*columns.values()], axis=-1)
    table = table.reshape(-1, len(GROUPS), len(MEASURES), len(columns))
    n = n.reshape(table.shape[:3])
    tests: list[Value] = table[1:, 0, _F1, -1].tolist()

    of_types = partial(by_type, TypeDifference, Difference, [*columns])
    whole, *buckets = [
        BucketDifference(**of_types(*one), p_adjusted=None if p is None else number_of(p))
        for *one, p in zip(table, n[:, :, 0], [None, *holm(tests)], strict=True)
    ]
    return whole, Differences(**by_way(members, buckets))


def _gaps_by_repeat(first: _RunMeasures, second: _RunMeasures, most: int) -> Floats:
    """Return the (`most` x videos, 5, 3) differences whose mean has an interval.

    With repeats, each repeat of the judge counts as a row of its video: the deviation of that
    repeat's difference from the video's mean over repeats is added to the video's difference. The
    interval therefore belongs to the estimate and is as wide as that of runs judged once, which is
    conservative for a majority.
    """
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


def _moves(first: _RunMeasures, second: _RunMeasures) -> list[VideoMove]:
    pairs = zip(first.values[:, 0].tolist(), second.values[:, 0].tolist(), strict=True)
    return [
        VideoMove(
            **{
                measure: Move(first=before, second=after, value=after - before)
                for measure, before, after in zip(MEASURES, *pair, strict=True)
            }
        )
        for pair in pairs
    ]


def _flips(*runs: tuple[Sequence[Annotation], Sequence[Scored]]) -> Flips:
    """Count changed verdicts; elements flip only if both annotations have them."""
    counts = {g: {a: dict.fromkeys(RELATIONS, 0) for a in RELATIONS} for g in GROUPS}
    found: list[Flip] = []
    videos = 0
    pairs = (zip(*run, strict=True) for run in runs)
    for (annotation, one), (other, two) in zip(*pairs, strict=True):
        if annotation.events != other.events:
            continue
        videos += 1
        for e, event in enumerate(annotation.events):
            for at, element in enumerate(event.visual_elements):
                before, after = one.relations[e][at], two.relations[e][at]
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
    return Flips(videos=videos, counts=counts, elements=tuple(found))


def _ranked(
    sides: Sequence[Side], runs: Sequence[_RunMeasures], resamples: int, seed: int
) -> dict[str, Any]:
    pairs = list(combinations(range(len(runs)), 2))
    most = max(len(run.repeats) for run in runs)
    table = np.stack([_gaps_by_repeat(runs[i], runs[j], most)[:, 0, _F1] for i, j in pairs], axis=1)
    low, high = difference_intervals(table, rows_per_video=most)
    gaps = np.stack([(runs[j].values - runs[i].values)[:, 0, _F1] for i, j in pairs], axis=1)
    p = sign_flips(gaps, resamples=resamples, seed=seed).tolist()
    adjusted = holm(p)
    means = [
        dict(zip(MEASURES, run.values[:, 0].mean(axis=0).tolist(), strict=True)) for run in runs
    ]
    clusters = rank_clusters([mean["f1"] for mean in means], adjusted)
    contenders = [
        Contender(**dict(side), **mean, cluster=cluster)
        for side, mean, cluster in zip(sides, means, clusters, strict=True)
    ]
    found = [
        PairDifference(
            first=sides[i].name,
            second=sides[j].name,
            value=gaps[:, k].mean(),
            low=number_of(low[k]),
            high=number_of(high[k]),
            p=p[k],
            p_adjusted=adjusted[k],
        )
        for k, (i, j) in enumerate(pairs)
    ]
    return {"runs": tuple(contenders), "pairs": tuple(found)}


# ---- Gates: how far the second run may fall below the first -------------------------------------

_Gate = tuple[str, str, float]
"""A group ("all" or a type), a measure, and its least difference, second − first, in points."""


def _read_gates(texts: Sequence[str]) -> list[_Gate]:
    gates: list[_Gate] = []
    for text in texts:
        name, _, typed = text.strip().lower().partition("=")
        group, _, measure = name.rpartition(".")
        group, points = group or "all", decimal_of(typed)
        if group not in GROUPS or measure not in MEASURES or points is None or abs(points) > 100:
            raise UsageError(
                f"--fail-under: {text!r} must be like f1=-0.5 or action.recall=-1: one of "
                f"{', '.join(MEASURES)}, alone or after one of "
                f"{', '.join(f'{one}.' for one in GROUPS)}, and points from -100 to 100"
            )
        gates.append((group, measure, float(points)))
    return gates


def _gate_result(found: Comparison, group: str, measure: str, least: float) -> GateResult:
    difference = getattr(getattr(found.overall, group), measure).value
    value = None if difference is None else 100 * difference
    what = "F1" if measure == "f1" else measure
    what += "" if group == "all" else f" of {group} elements"
    first, second = one_line(found.first.name), one_line(found.second.name)
    sentence = f"{second} has no {what} to compare"
    if value is not None:
        size = beside_limit(abs(value), abs(least))
        way = "below" if value < 0 else "above"
        sentence = f"{what} of {second} is {size} points {way} {first}"
    name = measure if group == "all" else f"{group}.{measure}"
    return GateResult(
        gate=name,
        value=value,
        at_least=least,
        passed=value is not None and value >= least - _SLACK,
        message=f"{sentence}; --fail-under is {name}={plain_number(least)}",
    )


def _coverage_gate(found: Compared, least: CountOrShare) -> GateResult:
    number = float(least.number)
    percentage = 100 * found.paired / found.annotated
    required = f"{plain_number(number)}%" if least.is_share else counted(int(number), "video")
    runs = "both runs" if len(found.sides) == 2 else "all runs"
    return GateResult(
        gate="coverage",
        value=percentage if least.is_share else float(found.paired),
        at_least=number,
        passed=found.paired >= least.of(found.annotated),
        message=f"{thousands(found.paired)} of {thousands(found.annotated)} annotated videos "
        f"({beside_limit(percentage, number)}%) are scored in {runs}; --min-coverage requires at "
        f"least {required}",
    )


# ---- The command --------------------------------------------------------------------------------


@command("compare", "as_json", "form", "full")
@takes(CompareOptions)
def compare(o: CompareOptions) -> Compared:
    """Compare judged runs over the videos scored in all of them: is B better than A?

    Differences are second − first, in points: `capeval compare OLD NEW` shows what NEW gained. More
    than two runs make a matrix with ranks.

    `--fail-under f1=-0.5` exits with 4 if the second run is more than half a point below the first.

    Raises
    ------
    InputError, UsageError
        A run cannot be loaded, or the runs cannot be compared.
    """
    gates = _read_gates(o.fail_under)
    least = None if o.min_coverage is None else CountOrShare.read(o.min_coverage, "--min-coverage")
    if len(o.judged_runs) < 2:
        raise UsageError("name at least two runs")
    if gates and len(o.judged_runs) > 2:
        raise UsageError("--fail-under compares two runs; name two")
    loaded = load_judged_runs(
        o.judged_runs, runs=Path(o.runs), judge=o.judge, annotations=o.annotations
    )
    resamples = RESAMPLES if o.resamples is None else o.resamples
    found = compare_judged(loaded, resamples=resamples, seed=o.seed, anyway=o.allow_mismatch)
    results = [] if least is None else [_coverage_gate(found, least)]
    if isinstance(found, Comparison):
        results += [_gate_result(found, *gate) for gate in gates]
    return found.model_copy(update={"gates": tuple(results)})
