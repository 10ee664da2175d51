"""Simulations: intervals cover and tests reject as often as they say.

The scores are like TUNA's: shares of the 10 to 29 elements of a video that a caption has, for the
metric and for people, from a quality of the caption, a difficulty of the video, and noise of which
a part is shared by all captions of the video. They are bounded and tied, and not normal.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest

from capeval.stats import comparison
from capeval.stats.comparison import paired_permutation, williams
from capeval.stats.design import Design
from capeval.stats.grouping import grouped
from capeval.stats.intervals import interval
from capeval.stats.significance import PValue, p_value
from capeval.stats.values import Floats, Grouping, Interval, Statistic

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


def coverage(statistic: Statistic, grouping: Grouping, systems: int, runs: int) -> float:
    """Return how often the default interval of 40 videos holds the statistic of very many."""
    many = 1_200
    (far,), near = simulate(120, many, systems, seed=1)
    whole = design_of(many, systems)
    values = [
        grouped(x, y, whole, statistic, grouping).value for x, y in zip(far, near, strict=True)
    ]
    truth = float(np.mean([value for value in values if isinstance(value, float)]))
    (metric,), people = simulate(runs, 40, systems, seed=2)
    design = design_of(40, systems)
    held = 0
    for run in range(runs):
        found = interval(
            metric[run], people[run], design, statistic, grouping, draws=1_000, seed=run
        )
        assert isinstance(found, Interval)
        held += found.low <= truth <= found.high
    return held / runs


@pytest.mark.parametrize("statistic", ["kendall_b", "kendall_c", "spearman", "pearson", "acc_eq"])
def test_intervals_of_40_videos_cover(statistic: Statistic) -> None:
    assert 0.93 <= coverage(statistic, "pooled", 1, 3_000) <= 0.98


@pytest.mark.parametrize("grouping", ["pooled", "item", "within_system"])
@pytest.mark.parametrize("statistic", ["kendall_b", "pearson"])
def test_intervals_cover_where_videos_repeat(statistic: Statistic, grouping: Grouping) -> None:
    assert 0.93 <= coverage(statistic, grouping, 3, 1_000) <= 0.98


@pytest.mark.parametrize("grouping", ["pooled", "item", "within_system", "system"])
@pytest.mark.parametrize("statistic", ["kendall_b", "spearman", "pearson", "acc_eq"])
def test_paired_permutation_rejects_equals_as_often_as_it_says(
    statistic: Statistic, grouping: Grouping
) -> None:
    # Of the means of 4 systems tau takes few values, and the test rejects equals 1% of the time.
    runs, systems = 1_000, 12 if grouping == "system" else 4
    metrics, people = simulate(runs, 20, systems, seed=3, metrics=2, told_apart=0.1)
    design = design_of(20, systems)
    rejected = 0
    for run in range(runs):
        # Another unit and, for ranks, another shape: the test must not see it.
        first, second = metrics[0, run], metrics[1, run] * 5
        if statistic != "pearson" and grouping != "system":
            second = second**2
        found = paired_permutation(
            first, second, people[run], design, statistic, grouping, draws=99, seed=run
        )
        rejected += isinstance(found.p, float) and found.p <= 0.05
    assert 0.025 <= rejected / runs <= 0.07


def test_williams_rejects_equals_as_often_as_it_says() -> None:
    runs = 3_000
    metrics, people = simulate(runs, 40, 1, seed=4, metrics=2)
    design = design_of(40, 1)
    found = [williams(metrics[0, n], metrics[1, n], people[n], design).p for n in range(runs)]
    rejected = np.mean([isinstance(p, float) and p <= 0.05 for p in found])
    assert 0.025 <= rejected <= 0.07


@pytest.mark.parametrize("statistic", ["kendall_b", "spearman", "pearson", "acc_eq"])
@pytest.mark.parametrize("grouping", ["pooled", "item", "within_system"])
@pytest.mark.parametrize("balanced", [True, False])
def test_p_rejects_unrelated_scores_as_often_as_it_says(
    statistic: Statistic, grouping: Grouping, balanced: bool
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
    rejected = 0
    for run in range(runs):
        # One seed, so that the draws are made once; the scores are new in each run.
        found = p_value(metric[run][keep], people[run][keep], some, statistic, grouping, draws=199)
        assert isinstance(found, PValue)
        rejected += found.p <= 0.05
    assert 0.025 <= rejected / runs <= 0.07


@pytest.mark.parametrize("grouping", ["pooled", "within_system"])
@pytest.mark.parametrize("statistic", ["kendall_b", "acc_eq"])
def test_jackknife_comparisons_reject_equals_as_often_as_they_say(
    statistic: Statistic, grouping: Grouping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "_PRODUCTS", 0)
    runs, systems = 1_000, 4
    metrics, people = simulate(runs, 100, systems, seed=6, metrics=2, told_apart=0.1)
    design = design_of(100, systems)
    rejected = 0
    for run in range(runs):
        first, second = metrics[0, run], metrics[1, run] ** 2
        found = paired_permutation(first, second, people[run], design, statistic, grouping)
        assert found.method == "jackknife"
        rejected += isinstance(found.p, float) and found.p <= 0.05
    assert 0.025 <= rejected / runs <= 0.07
