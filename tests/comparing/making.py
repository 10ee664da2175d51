"""Comparisons of eight videos, with one number set by hand."""

from __future__ import annotations

from capeval.comparing.comparison import Comparison, Contender, Matrix, Side
from capeval.comparing.differences import differences, flips, measured, moves, ranked
from capeval.scoring.counts import memberships
from tests.scoring.making import annotation, scored

VIDEOS = [annotation(index, "c1 s1", "a1") for index in "abcdefgh"]
RUNS = [
    [scored(index, row) for index, row in zip("abcdefgh", labels, strict=True)]
    for labels in (
        ("+0 0", "++ 0", "+- 0", "+0 +", *["0+ 0"] * 4),
        ("++ 0", "+0 0", "++ -", "++ +", *["0+ 0"] * 4),
    )
]
_SETTINGS = {
    "interval": {"level": 0.95, "method": "paired t interval"},
    "test": {"method": "permutation", "resamples": 99, "seed": 0, "adjusted": "Holm"},
}


def _side(name: str) -> Side:
    return Side(
        name=name,
        signature="capeval:tuna-cap|judge:x",
        model=None,
        baseline=False,
        annotated=8,
        captioned=8,
        scored=8,
        left_out=(),
    )


def comparison(
    group: str = "all",
    measure: str = "f1",
    *,
    value: float | None = 0.0,
    low: float | None = 0.0,
    high: float | None = None,
    p: float | None = None,
    first: str = "A",
    second: str = "B",
) -> Comparison:
    """Two runs; one difference is as said."""
    one, other = (measured(VIDEOS, run) for run in RUNS)
    overall, by, detectable = differences(one, other, memberships(VIDEOS), resamples=99)
    of = getattr(overall, group)
    more = {name: given for name, given in (("high", high), ("p", p)) if given is not None}
    changed = getattr(of, measure).model_copy(update={"value": value, "low": low, **more})
    overall = overall.model_copy(update={group: of.model_copy(update={measure: changed})})
    return Comparison(
        comparable=True,
        unlike=(),
        notes=(),
        annotated=8,
        paired=8,
        settings=_SETTINGS,
        first=_side(first),
        second=_side(second),
        overall=overall,
        by=by,
        detectable=detectable,
        videos=moves(VIDEOS, one, other),
        flips=flips(VIDEOS, list(zip(*RUNS, strict=True))),
    )


def matrix(*names: str) -> Matrix:
    """Three runs, of which the first and the last are the same."""
    names = names or ("A", "B", "C")
    runs = [measured(VIDEOS, run) for run in (*RUNS, RUNS[0])]
    means, clusters, pairs = ranked(names, runs, resamples=99)
    return Matrix(
        comparable=True,
        unlike=(),
        notes=(),
        annotated=8,
        paired=8,
        settings=_SETTINGS,
        runs=tuple(
            Contender(**dict(_side(name)), **mean, cluster=cluster)
            for name, mean, cluster in zip(names, means, clusters, strict=True)
        ),
        pairs=tuple(pairs),
    )
