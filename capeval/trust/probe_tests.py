"""Two judges on the same probes: is one of them right more often, kind by kind?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from pydantic import BaseModel, ConfigDict

from capeval.stats.multiple_testing import holm
from capeval.stats.sign_flips import sign_flips
from capeval.stats.values import Missing, Value
from capeval.trust.probe import KINDS, Kind
from capeval.trust.probe_grading import Grade, Graded


class PairTest(BaseModel):
    """Two judges on one kind of probe, over the elements that both are graded on.

    `first_only` and `second_only` count the elements that one judge gets right and the other wrong.
    `p` is two-sided, of sign flips of whole videos, as elements of one video are not independent;
    where they are, this is McNemar's test. `p_holm` is adjusted for all kinds and pairs of judges.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    first: str
    second: str
    kind: Kind
    n: int
    first_correct: int
    second_correct: int
    first_only: int
    second_only: int
    p: float | None
    p_holm: float | None


def compare_judges(graded: Mapping[str, Graded], *, seed: int) -> tuple[PairTest, ...]:
    """Test every pair of judges on every kind of probe; none where they share no element.

    Parameters
    ----------
    graded : by the name of the judge, on the same probes
    """
    found: list[PairTest] = []
    for (first, one), (second, other) in combinations(graded.items(), 2):
        ours, theirs = _by_element(one), _by_element(other)
        shared = [key for key in ours if key in theirs]
        for kind in KINDS:
            of = [(ours[key], theirs[key]) for key in shared if ours[key].kind == kind]
            if of:
                found.append(_test(first, second, kind, of, seed))
    adjusted = holm([Missing("no p") if one.p is None else one.p for one in found])
    return tuple(
        one.model_copy(update={"p_holm": _number(p)})
        for one, p in zip(found, adjusted, strict=True)
    )


def _number(value: Value) -> float | None:
    return None if isinstance(value, Missing) else float(value)


def _by_element(graded: Graded) -> dict[tuple[str, tuple[int, int]], Grade]:
    return {
        (grade.probe, grade.element): grade
        for grade in graded.grades
        if grade.tested and grade.counts
    }


def _test(
    first: str, second: str, kind: Kind, pairs: Sequence[tuple[Grade, Grade]], seed: int
) -> PairTest:
    by_video: dict[str, int] = {}
    for one, other in pairs:
        by_video[one.video] = by_video.get(one.video, 0) + one.correct - other.correct
    gaps = np.array([list(by_video.values())], dtype=np.float64).T
    return PairTest(
        first=first,
        second=second,
        kind=kind,
        n=len(pairs),
        first_correct=sum(one.correct for one, _ in pairs),
        second_correct=sum(other.correct for _, other in pairs),
        first_only=sum(one.correct and not other.correct for one, other in pairs),
        second_only=sum(other.correct and not one.correct for one, other in pairs),
        p=float(sign_flips(gaps, seed=seed)[0]),
        p_holm=None,
    )
