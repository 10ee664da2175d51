"""Judged runs in memory, and comparisons of eight videos with one number set by hand."""

from collections.abc import Sequence
from typing import Any

from capeval.comparing.compare import compare_judged
from capeval.comparing.comparison import Compared, Comparison, LeftOut, Matrix
from capeval.schema import Annotation, Scored
from tests.reporting.making import run
from tests.scoring.making import annotation, scored

VIDEOS = [annotation(index, "c1 s1", "a1") for index in "abcdefgh"]
RUNS = [
    [scored(index, row) for index, row in zip("abcdefgh", labels, strict=True)]
    for labels in (
        ("+0 0", "++ 0", "+- 0", "+0 +", *["0+ 0"] * 4),
        ("++ 0", "+0 0", "++ -", "++ +", *["0+ 0"] * 4),
    )
]


def compared(
    videos: Sequence[Annotation],
    *runs: Sequence[Scored],
    names: Sequence[str] = "ABC",
    resamples: int = 99,
    seed: int = 0,
) -> Compared:
    judged = {
        name: run([*of], name=name, captions={}, videos=tuple(videos))
        for name, of in zip(names, runs, strict=False)
    }
    return compare_judged(judged, resamples=resamples, seed=seed, anyway=True)


def comparison(*names: str, **changed: Any) -> Comparison:
    """Two runs whose overall F1 has some numbers set by hand."""
    found = compared(VIDEOS, *RUNS, names=names or "AB")
    assert isinstance(found, Comparison)
    f1 = found.overall.all.f1.model_copy(update=changed)
    of_all = found.overall.all.model_copy(update={"f1": f1})
    return found.model_copy(
        update={"notes": (), "overall": found.overall.model_copy(update={"all": of_all})}
    )


def matrix(*names: str) -> Matrix:
    """Three runs, of which the first and the last are the same."""
    found = compared(VIDEOS, *RUNS, RUNS[0], names=names or "ABC")
    assert isinstance(found, Matrix)
    return found.model_copy(update={"notes": ()})


def example() -> Comparison:
    """Two runs of unlike data, one of which lacks a video."""
    found = comparison("base", "[b]new[/b] & <x>", value=0.0123, low=-0.0345)
    left = LeftOut(index="d", reason="unscored in base: the judge refused")
    return found.model_copy(
        update={
            "comparable": False,
            "unlike": ("data 0a1b2c@3 vs. 0a1b2d@3",),
            "notes": ("nothing says who judged base",),
            "second": found.second.model_copy(
                update={"left_out": (left,), "scored": 4, "signature": "capeval:other"}
            ),
        }
    )
