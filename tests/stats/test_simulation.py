"""Simulations: intervals cover and tests reject as often as they say.

The scores are like TUNA's: shares of the 10 to 29 elements of a video that a caption has, for the
metric and for people, from a quality of the caption, a difficulty of the video, and noise of which
a part is shared by all captions of the video. They are bounded and tied, and not normal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest

from capeval.stats.comparison import compare, williams
from capeval.stats.design import Design
from capeval.stats.intervals import interval
from capeval.stats.pair import Pair
from capeval.stats.significance import p_value
from capeval.stats.values import Floats, GroupingName, Interval, PValue

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Small matrices gain nothing by threads, and lose much where cores are shared."""
    if find_spec("threadpoolctl") is None:
        yield
        return
    with import_module("threadpoolctl").threadpool_limits(1):
        yield


def simulate(
    runs: int,
    videos: int,
    systems: int,
    *,
    seed: int,
    metrics: int = 1,
    related: bool = True,
    told_apart: float = 0.3,
) -> tuple[Floats, Floats]:
    """Return (metrics, runs, captions) scores of metrics and (runs, captions) of people.

    `told_apart` is how much systems differ: by the same in all runs, as intervals take them.
    Metrics that are not related to people see a quality of their own, of videos, captions and
    systems.
    """
    rng = np.random.default_rng(seed)
    per_video, per_caption = (runs, videos, 1), (runs, videos, systems)
    elements = rng.integers(10, 30, size=per_video)

    def quality() -> Floats:
        made = 0.6 * rng.normal(size=per_video) + 0.5 * rng.normal(size=per_caption)
        if related:
            return np.asarray(made + np.linspace(-told_apart, told_apart, systems))
        return np.asarray(made + told_apart * rng.normal(size=(runs, 1, systems)))

    def score(true: Floats, ease: float) -> Floats:
        noise = 0.2 * rng.normal(size=per_video) + 0.3 * rng.normal(size=per_caption)
        share = 1 / (1 + np.exp(-(true + noise + ease)))
        return np.asarray((rng.binomial(elements, share) / elements).reshape(runs, -1))

    true = quality()
    people = score(true, -0.2)
    return np.stack([score(true if related else quality(), 0.1) for _ in range(metrics)]), people


def design_of(videos: int, systems: int) -> Design:
    return Design(np.repeat(np.arange(videos), systems), np.tile(np.arange(systems), videos))


def coverage(
    statistics: Sequence[str], grouping: GroupingName, systems: int, runs: int
) -> dict[str, float]:
    """Return how often the default intervals of 40 videos hold the statistics of very many."""
    many = 1_200
    (far,), near = simulate(120, many, systems, seed=1)
    whole = design_of(many, systems)
    found: dict[str, list[float]] = {statistic: [] for statistic in statistics}
    for x, y in zip(far, near, strict=True):
        pair = Pair.of(x, y, whole)
        for statistic in statistics:
            value = pair.by(statistic, grouping).value
            found[statistic] += [value] if isinstance(value, float) else []
    truth = {statistic: float(np.mean(values)) for statistic, values in found.items()}
    (metric,), people = simulate(runs, 40, systems, seed=2)
    design = design_of(40, systems)
    held = dict.fromkeys(statistics, 0)
    for run in range(runs):
        x, y = metric[run], people[run]
        pair = Pair.of(x, y, design)
        for one in statistics:
            bounds = interval(pair.by(one, grouping), draws=1_000, seed=run)
            assert isinstance(bounds, Interval)
            held[one] += bounds.low <= truth[one] <= bounds.high
    return {statistic: count / runs for statistic, count in held.items()}


def outside(shares: dict[str, float], low: float, high: float) -> dict[str, float]:
    return {name: share for name, share in shares.items() if not low <= share <= high}


# Statistics that rest on the same counts are simulated together: they share them as in a command,
# which tests/stats/test_pair.py shows to change no number.


@pytest.mark.parametrize(
    "statistics", [("kendall_b", "kendall_c"), ("spearman", "pearson"), ("acc_eq",)]
)
def test_intervals_of_40_videos_cover(statistics: tuple[str, ...]) -> None:
    assert outside(coverage(statistics, "pooled", 1, 3_000), 0.93, 0.98) == {}


@pytest.mark.parametrize("grouping", ["pooled", "item", "within_system"])
def test_intervals_cover_where_videos_repeat(grouping: GroupingName) -> None:
    assert outside(coverage(("kendall_b", "pearson"), grouping, 3, 1_000), 0.93, 0.98) == {}


@pytest.mark.parametrize("grouping", ["pooled", "item", "within_system", "system"])
def test_comparisons_reject_equals_as_often_as_it_says(grouping: GroupingName) -> None:
    # Of the means of few systems tau and rho take few values, and the test seldom rejects equals.
    runs, systems = 600, 12 if grouping == "system" else 4
    metrics, people = simulate(runs, 20, systems, seed=3, metrics=2, told_apart=0.1)
    design = design_of(20, systems)
    ordinal: list[str] = ["kendall_b", "spearman", "acc_eq"]
    linear: list[str] = ["pearson"]
    rejected = dict.fromkeys(ordinal + linear, 0)
    for run in range(runs):
        one = Pair.of(metrics[0, run], people[run], design)
        # Another unit and, for ranks, another shape: the test must not see it.
        unit = metrics[1, run] * 5
        shape = unit if grouping == "system" else unit**2
        for second, statistics in ((shape, ordinal), (unit, linear)):
            two = Pair.of(second, people[run], design)
            tests = compare([one, two], statistics, grouping, draws=99, seed=run)
            for statistic, (found,) in tests.items():
                rejected[statistic] += isinstance(found.p, float) and found.p <= 0.05
    least = 0.0 if grouping == "system" else 0.025
    assert outside({name: count / runs for name, count in rejected.items()}, least, 0.07) == {}


@pytest.mark.parametrize("errors", ["shared", "failing"])
def test_comparisons_reject_equals_that_err_differently_as_often_as_they_say(errors: str) -> None:
    # The errors of one metric are alike within a video, or large in three videos in ten.
    runs, videos, systems = 1_500, 20, 4
    rng = np.random.default_rng(11)
    design, shape = design_of(videos, systems), (videos, systems)
    large = 1.65
    small = np.sqrt((1 - 0.3 * large**2) / 0.7)
    rejected = 0
    for _ in range(runs):
        true = 0.8 * rng.normal(size=(videos, 1)) + rng.normal(size=shape)
        people, first = true + 0.3 * rng.normal(size=shape), true + rng.normal(size=shape)
        if errors == "shared":
            noise = np.sqrt(0.8) * rng.normal(size=(videos, 1)) + np.sqrt(0.2) * rng.normal(
                size=shape
            )
        else:
            failing = rng.random((videos, 1)) < 0.3
            noise = np.where(failing, large, small) * rng.normal(size=shape)
        second = true + noise
        two = [Pair.of(x.ravel(), people.ravel(), design) for x in (first, second)]
        found = compare(two, ["pearson"], "pooled")["pearson"][0]
        rejected += isinstance(found.p, float) and found.p <= 0.05
    assert 0.035 <= rejected / runs <= 0.072


def test_williams_rejects_equals_as_often_as_it_says() -> None:
    runs = 3_000
    metrics, people = simulate(runs, 40, 1, seed=4, metrics=2)
    design = design_of(40, 1)
    found = [williams(metrics[0, n], metrics[1, n], people[n], design).p for n in range(runs)]
    rejected = np.mean([isinstance(p, float) and p <= 0.05 for p in found])
    assert 0.025 <= rejected <= 0.07


@pytest.mark.parametrize("grouping", ["pooled", "item", "within_system"])
@pytest.mark.parametrize("balanced", [True, False])
def test_p_rejects_unrelated_scores_as_often_as_it_says(
    grouping: GroupingName, balanced: bool
) -> None:
    runs, systems = 1_000, 5
    # Systems are alike: those that differ are, to these tests, no chance but what is given.
    (metric,), people = simulate(runs, 40, systems, seed=5, related=False, told_apart=0.0)
    design = design_of(40, systems)
    keep = np.ones(design.rows, dtype=np.bool_)
    if not balanced:
        # As many captions of a video as chance will have, but each video some.
        keep = (np.random.default_rng(0).random(design.rows) < 0.6) | (design.system == 0)
    some = design.take(keep)
    # Of 99 arrangements and the observed one, 5 are 5%: a permutation test is exact with so few.
    # The pooled p is where an interval's end is, which wants a finer tail.
    draws = 199 if grouping == "pooled" else 99
    rejected: dict[str, int] = dict.fromkeys(("kendall_b", "spearman", "acc_eq", "pearson"), 0)
    for run in range(runs):
        x, y = metric[run][keep], people[run][keep]
        pair = Pair.of(x, y, some)
        for statistic in rejected:
            # One seed, so that the draws are made once; the scores are new in each run.
            found = p_value(pair.by(statistic, grouping), draws=draws)
            assert isinstance(found, PValue)
            rejected[statistic] += found.p <= 0.05
    assert outside({name: count / runs for name, count in rejected.items()}, 0.025, 0.07) == {}
