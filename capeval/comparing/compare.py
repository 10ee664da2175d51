"""`capeval compare`: judged runs over the videos scored in all of them; gates for CI."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from capeval.comparing.comparison import (
    Compared,
    Comparison,
    Contender,
    GateResult,
    LeftOut,
    Matrix,
    Side,
)
from capeval.comparing.differences import RESAMPLES, differences, flips, measured, moves, ranked
from capeval.errors import UsageError
from capeval.files.outputs import check_json, check_output
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
    out_option,
    resamples_option,
    runs_option,
    seed_option,
    takes,
)
from capeval.scoring import GROUPS, MEASURES
from capeval.scoring.counts import Membership, memberships
from capeval.scoring.judged_run import JudgedRun, files_behind, load_judged_runs
from capeval.scoring.signature import unlikeness
from capeval.show.numbers import beside_limit, plain_number, thousands
from capeval.show.result import write
from capeval.text import both_ends, one_line

_GATE = re.compile(r"(?:(?P<group>[a-z]+)\.)?(?P<measure>[a-z0-9]+)=(?P<points>[^=]*)")
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
    # More need more memory than a CI machine has, and change no digit that is shown.
    resamples: int | None = resamples_option(max=100_000)
    seed: int = seed_option()
    out: FilePath | None = out_option()
    runs: FilePath = runs_option()


# ---- The comparison ----------------------------------------------------------------------------


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
    resamples : resamples of the permutations
    anyway : compare runs whose signatures differ, and mark the result
    """
    unlike = unlikeness({name: run.signature for name, run in runs.items()})
    *others, last = (both_ends(name, 60) for name in runs)
    names = f"{', '.join(others)} and {last}"
    if unlike and not anyway:
        raise UsageError(
            f"{names} cannot be compared because they differ: {'; '.join(unlike)}; judge "
            "them in the same way, or compare them nevertheless with --allow-mismatch"
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
    values = [measured(*of) for of in zip(annotations, verdicts, strict=True)]
    if len(runs) > 2:
        means, clusters, pairs = ranked([*runs], values, resamples=resamples, seed=seed)
        contenders = [
            Contender(**dict(side), **mean, cluster=cluster)
            for side, mean, cluster in zip(sides, means, clusters, strict=True)
        ]
        return Matrix(**shared, runs=tuple(contenders), pairs=tuple(pairs))
    first, second = values
    members = _members(*(memberships(of) for of in annotations))
    overall, by, detectable = differences(first, second, members, resamples=resamples, seed=seed)
    # Elements flip only where both annotations have them.
    same = [
        (one, (before, after))
        for one, other, before, after in zip(*annotations, *verdicts, strict=True)
        if one.events == other.events
    ]
    return Comparison(
        **shared,
        first=sides[0],
        second=sides[1],
        overall=overall,
        by=by,
        detectable=detectable,
        videos=moves(annotations[0], first, second),
        flips=flips([one for one, _ in same], [pair for _, pair in same]),
    )


def _members(first: Sequence[Membership], second: Sequence[Membership]) -> list[Membership]:
    """Return the buckets; a video is in one if it is by the annotations of both runs."""
    insides = {(of.way, of.name): of.inside for of in second}
    both = [
        Membership(of.way, of.name, of.inside & insides[of.way, of.name])
        for of in first
        if (of.way, of.name) in insides
    ]
    return [of for of in both if of.inside.any()]


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


# ---- Gates: how far the second run may fall below the first ------------------------------------


@dataclass(frozen=True)
class Gate:
    """The least difference, second − first, in `points`: negative if a loss is allowed.

    `group` is "all" or a type of element.
    """

    group: str
    measure: str
    points: float

    @property
    def name(self) -> str:
        return self.measure if self.group == "all" else f"{self.group}.{self.measure}"

    def result(self, found: Comparison) -> GateResult:
        """Check a comparison; a missing value fails."""
        difference = getattr(getattr(found.overall, self.group), self.measure).value
        value = None if difference is None else 100 * difference
        measure = "F1" if self.measure == "f1" else self.measure
        what = measure if self.group == "all" else f"{measure} of {self.group} elements"
        first, second = one_line(found.first.name), one_line(found.second.name)
        if value is None:
            sentence = f"{second} has no {what} to compare"
        else:
            size = beside_limit(abs(value), abs(self.points))
            way = "below" if value < 0 else "above"
            sentence = f"{what} of {second} is {size} points {way} {first}"
        return GateResult(
            gate=self.name,
            value=value,
            at_least=self.points,
            passed=value is not None and value >= self.points - _SLACK,
            message=f"{sentence}; {self._allowed()}",
        )

    def _allowed(self) -> str:
        size = plain_number(abs(self.points))
        points = f"{size} point" if size == "1" else f"{size} points"
        typed = f"{self.name}={plain_number(self.points)}"
        if not self.points:
            return f"{typed} allows no loss"
        allows = "allows at most" if self.points < 0 else "requires at least"
        return f"{typed} {allows} {points} {'below' if self.points < 0 else 'above'}"


def read_gates(texts: Sequence[str]) -> list[Gate]:
    """Read `f1=-0.5` or `action.recall=-1`, in points.

    >>> read_gates(["action.f1=-1"])[0].name
    'action.f1'
    """
    gates: list[Gate] = []
    for text in texts:
        found = _GATE.fullmatch(text.strip().lower())
        if found is None:
            raise UsageError(f"--fail-under: {text!r} must be like f1=-0.5 or action.recall=-1")
        group, measure = found["group"] or "all", found["measure"]
        if measure not in MEASURES or group not in GROUPS:
            raise UsageError(
                f"--fail-under: {text!r} names no measure; use {', '.join(MEASURES)}, "
                f"alone or after one of {', '.join(f'{group}.' for group in GROUPS)}"
            )
        points = decimal_of(found["points"])
        if points is None or abs(points) > 100:
            raise UsageError(
                f"--fail-under: {text!r} must end in points from -100 to 100, such as -0.5"
            )
        gate = Gate(group, measure, float(points))
        if any(gate.name == other.name for other in gates):
            raise UsageError(f"--fail-under: {gate.name} is named twice")
        gates.append(gate)
    return gates


def coverage_gate(found: Compared, least: CountOrShare) -> GateResult:
    """Check how many of the annotated videos are compared."""
    number = float(least.number)
    percentage = 100 * found.paired / found.annotated
    required = f"{plain_number(number)}%" if least.is_share else thousands(number)
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


# ---- The command -------------------------------------------------------------------------------


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
        A run cannot be loaded, the runs cannot be compared, or `out` cannot be written.
    """
    gates = read_gates(o.fail_under)
    least = None if o.min_coverage is None else CountOrShare.read(o.min_coverage, "--min-coverage")
    if len(o.judged_runs) < 2:
        raise UsageError("name at least two runs")
    if gates and len(o.judged_runs) > 2:
        raise UsageError("--fail-under compares two runs; name two")
    loaded = load_judged_runs(
        o.judged_runs, runs=Path(o.runs), judge=o.judge, annotations=o.annotations
    )
    if o.out is not None:
        check_output(Path(o.out), files_behind(loaded.values()))
        check_json(Path(o.out))
    resamples = RESAMPLES if o.resamples is None else o.resamples
    found = compare_judged(loaded, resamples=resamples, seed=o.seed, anyway=o.allow_mismatch)
    results = [] if least is None else [coverage_gate(found, least)]
    if isinstance(found, Comparison):
        results += [gate.result(found) for gate in gates]
    found = found.model_copy(update={"gates": tuple(results)})
    if o.out is not None:
        write(found, o.out)
    return found
