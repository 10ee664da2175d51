"""Comparing judged runs over the videos scored in all of them, if their signatures allow it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from capeval.errors import UsageError
from capeval.schema import Annotation, Scored
from capeval.scoring.buckets import Membership, memberships
from capeval.scoring.comparison import (
    RESAMPLES,
    Measured,
    differences,
    flips,
    measured,
    moves,
    ranked,
)
from capeval.scoring.comparison_result import (
    Compared,
    Comparison,
    Contender,
    LeftOut,
    Matrix,
    Side,
)
from capeval.scoring.judged_run import JudgedRun
from capeval.scoring.signature import unlikeness
from capeval.text import both_ends


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
    signatures = {name: run.signature for name, run in runs.items()}
    unlike = unlikeness(signatures)
    *others, last = (both_ends(name, 60) for name in runs)
    names = f"{', '.join(others)} and {last}"
    if unlike and not anyway:
        raise UsageError(
            f"{names} cannot be compared because they differ: {'; '.join(unlike)}; judge "
            "them in the same way, or compare them nevertheless with --allow-mismatch"
        )
    common = _Common(runs)
    if not common.videos:
        raise UsageError(f"no video is scored in all of these runs: {names}")
    shared: dict[str, Any] = {
        "comparable": not unlike,
        "unlike": tuple(unlike),
        "notes": tuple(line for run in runs.values() for line in run.notices),
        "annotated": len({index for run in runs.values() for index in run.annotated}),
        "paired": len(common.videos),
        "settings": _settings(runs, resamples, seed),
    }
    sides = {name: common.side(name, signatures[name]) for name in runs}
    if len(runs) == 2:
        first, second = common.measured.values()
        (name, other) = sides
        overall, by, detectable = differences(
            first, second, common.members, resamples=resamples, seed=seed
        )
        same, pairs = common.same_annotations
        return Comparison(
            **shared,
            first=sides[name],
            second=sides[other],
            overall=overall,
            by=by,
            detectable=detectable,
            videos=moves(common.of(name), first, second),
            flips=flips(same, pairs),
        )
    means, clusters, pairs_of = ranked(
        list(runs), list(common.measured.values()), resamples=resamples, seed=seed
    )
    contenders = [
        Contender(**dict(side), **mean, cluster=cluster)
        for side, mean, cluster in zip(sides.values(), means, clusters, strict=True)
    ]
    return Matrix(**shared, runs=tuple(contenders), pairs=tuple(pairs_of))


class _Common:
    """The videos scored in all runs, in the order of the first run's annotations."""

    def __init__(self, runs: Mapping[str, JudgedRun]) -> None:
        self.runs = runs
        first = next(iter(runs.values()))
        self.videos = [
            annotation.index
            for annotation in first.annotations
            if all(annotation.index in of for r in runs.values() for of in (r.scored, r.annotated))
        ]

    def of(self, name: str) -> list[Annotation]:
        """Return a run's own annotations of the videos."""
        return [self.runs[name].annotated[index] for index in self.videos]

    def judged(self, name: str) -> list[Scored]:
        """Return a run's judgments of the videos."""
        return [self.runs[name].scored[index] for index in self.videos]

    @cached_property
    def measured(self) -> dict[str, Measured]:
        """The measures of every run."""
        return {name: measured(self.of(name), self.judged(name)) for name in self.runs}

    @property
    def members(self) -> list[Membership]:
        """The buckets; a video is in one if it is by the annotations of all runs."""
        first, *others = (memberships(self.of(name)) for name in self.runs)
        for other in others:
            insides = {(of.way, of.name): of.inside for of in other}
            both = [
                Membership(of.way, of.name, of.inside & insides[of.way, of.name])
                for of in first
                if (of.way, of.name) in insides
            ]
            first = [of for of in both if of.inside.any()]
        return first

    @property
    def same_annotations(self) -> tuple[list[Annotation], list[tuple[Scored, Scored]]]:
        """The annotations that are the same in both of two runs, and the verdicts on them."""
        one, other = self.runs
        kept = [
            (annotation, pair)
            for annotation, theirs, pair in zip(
                self.of(one),
                self.of(other),
                zip(self.judged(one), self.judged(other), strict=True),
                strict=True,
            )
            if annotation.events == theirs.events
        ]
        return [annotation for annotation, _ in kept], [pair for _, pair in kept]

    def side(self, name: str, signature: str) -> Side:
        """Return a run's coverage."""
        run = self.runs[name]
        paired = set(self.videos)
        scored = [one.index for one in run.annotations if one.index in run.scored]
        return Side(
            name=name,
            signature=signature,
            model=run.model,
            baseline=run.identity.baseline,
            annotated=len(run.annotations),
            captioned=run.captioned,
            scored=len(scored),
            left_out=tuple(
                LeftOut(index=index, reason=self._why(name, index))
                for index in scored
                if index not in paired
            ),
        )

    def _why(self, name: str, index: str) -> str:
        for other, run in self.runs.items():
            if other == name or index in run.scored:
                continue
            if index not in run.annotated:
                return f"not annotated in {other}"
            if index in run.unscored:
                return f"unscored in {other}: {run.unscored[index]}"
            if index in run.captions:
                return f"not judged yet in {other}"
            return f"no caption in {other}" if run.run else f"no verdict in {other}"
        raise AssertionError(index)


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
