"""p-values and comparisons: exchangeable units, published values, corrections and clusters."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from capeval.stats import comparison, jackknife, sign_flips, significance, video_bootstrap
from capeval.stats.comparison import leave_one_system_out, williams
from capeval.stats.design import Design
from capeval.stats.estimate import Estimate
from capeval.stats.groupings import GROUPINGS
from capeval.stats.multiple_testing import holm, rank_clusters
from capeval.stats.pair import Pair
from capeval.stats.percentiles import percentiles
from capeval.stats.sign_flips import sign_flip
from capeval.stats.significance import p_value
from capeval.stats.statistic import STATISTICS
from capeval.stats.values import Floats, GroupingName, Interval, Missing, PValue, Value
from capeval.stats.video_bootstrap import bootstrap_values
from tests.stats.making import compared


def scores(videos: int, systems: int, seed: int = 0) -> tuple[Floats, Floats, Floats, Design]:
    """Return a good metric, a poor one, the human scores and the design."""
    rng = np.random.default_rng(seed)
    design = Design(np.repeat(np.arange(videos), systems), np.tile(np.arange(systems), videos))
    human = rng.normal(size=videos)[design.video] + rng.normal(size=design.rows) + design.system
    good = human + rng.normal(size=design.rows) / 3
    return good.round(1), human + 5 * rng.normal(size=design.rows), human.round(1), design


@pytest.mark.parametrize("statistic", list(STATISTICS))
@pytest.mark.parametrize("grouping", GROUPINGS)
def test_a_good_metric_is_no_accident_and_noise_is(statistic: str, grouping: GroupingName) -> None:
    good, _, human, design = scores(30, 6)
    found = p_value(Pair.of(good, human, design).by(statistic, grouping), draws=499)
    assert isinstance(found, PValue)
    assert 0 < found.p <= 0.01
    noise = np.random.default_rng(9).random(180)
    found = p_value(Pair.of(noise, human, design).by(statistic, grouping), draws=499)
    assert isinstance(found, PValue)
    assert 0.01 < found.p <= 1


def test_p_within_system_permutes_whole_videos_of_a_grid() -> None:
    good, _, human, design = scores(4, 2, seed=4)
    x, y = good.reshape(4, 2), human.reshape(4, 2)

    def mean(rows: list[int]) -> float:
        return float(np.mean([np.corrcoef(x[rows, s], y[:, s])[0, 1] for s in range(2)]))

    every = [abs(mean(list(order))) for order in itertools.permutations(range(4))]
    exact = np.mean([value >= abs(mean([0, 1, 2, 3])) - 1e-12 for value in every])
    found = p_value(Pair.of(good, human, design).by("pearson", "within_system"), draws=20_000)
    assert isinstance(found, PValue)
    assert found.method == "permutation of videos"
    assert found.p == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize("statistic", list(STATISTICS))
@pytest.mark.parametrize("balanced", [True, False])
def test_p_pooled_is_where_the_interval_ends_at_zero(statistic: str, balanced: bool) -> None:
    rng = np.random.default_rng(3)
    design = Design(np.repeat(np.arange(20), 4), np.tile(np.arange(4), 20))
    rows = np.ones(80, dtype=np.bool_) if balanced else rng.random(80) < 0.8
    x = rng.normal(size=80)
    y = 0.2 * x + rng.normal(size=80)
    x, y, design = x[rows], y[rows], design.take(rows)
    found = p_value(Pair.of(x, y, design).by(statistic, "pooled"))
    assert isinstance(found, PValue)
    assert found.method == "bootstrap of videos"
    assert 0.005 < found.p < 0.5
    # acc_eq has no zero: what is tested is whether pairs are ordered with people or against.
    shown: str = "kendall_b" if statistic == "acc_eq" else statistic
    for share, holds in ((found.p * 1.15, False), (found.p * 0.85, True)):
        values = bootstrap_values(Pair.of(x, y, design).by(shown, "pooled"))
        assert not isinstance(values, Missing)
        bounds = percentiles(values, 1 - share, units=design.videos)
        assert isinstance(bounds, Interval)
        assert (bounds.low <= 0 <= bounds.high) is holds


def test_one_missing_caption_changes_p_but_little() -> None:
    _, poor, human, design = scores(30, 3, seed=1)
    rest = np.arange(90) != 44
    groupings: tuple[GroupingName, ...] = ("pooled", "within_system")
    for grouping in groupings:
        whole = p_value(Pair.of(poor, human, design).by("kendall_b", grouping))
        less = p_value(
            Pair.of(poor[rest], human[rest], design.take(rest)).by("kendall_b", grouping)
        )
        assert isinstance(whole, PValue)
        assert isinstance(less, PValue)
        assert whole.p == pytest.approx(less.p, abs=0.1)


@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("repeats", [True, False])
def test_draws_do_not_change_the_method(grouping: GroupingName, repeats: bool) -> None:
    good, poor, human, design = scores(12, 8)
    if not repeats:
        design = Design(np.arange(96), design.system)
    for statistic in STATISTICS:
        methods = set()
        for draws in (9, 150, 3_000):
            found = p_value(Pair.of(good, human, design).by(statistic, grouping), draws=draws)
            assert isinstance(found, PValue) or (grouping == "item" and not repeats)
            methods.add(found.method if isinstance(found, PValue) else found)
            test = compared(good, poor, human, design, statistic, grouping, draws=draws)
            methods.add(test.method)
        assert len(methods) == 2


def test_too_few_videos_have_no_bootstrap() -> None:
    good, _, human, design = scores(4, 3)
    assert p_value(Pair.of(good, human, design).by("kendall_b", "pooled")) == Missing(
        "4 videos are too few to resample: at least 5"
    )


def test_few_systems_are_permuted_in_every_way() -> None:
    good, _, human, design = scores(30, 4)
    found = p_value(Pair.of(good, human, design).by("kendall_b", "system"))
    assert found == PValue(2 / 24, "exact permutation of systems")


@pytest.mark.parametrize("grouping", ["pooled", "item", "within_system"])
def test_unbalanced_designs_have_a_p_too(grouping: GroupingName) -> None:
    good, _, human, design = scores(40, 4)
    rows = np.random.default_rng(0).random(160) < 0.6
    found = p_value(
        Pair.of(good[rows], human[rows], design.take(rows)).by("kendall_b", grouping), draws=499
    )
    assert isinstance(found, PValue)
    assert found.p <= 0.01
    assert (
        found.method
        == {
            "item": "sign flips of videos",
            "pooled": "bootstrap of videos",
            "within_system": "permutation of videos",
        }[grouping]
    )


def test_p_of_many_captions_is_the_jackknifes_and_not_zero() -> None:
    rng = np.random.default_rng(0)
    x = rng.random(150_000)
    design = Design(np.arange(150_000), np.zeros(150_000, dtype=np.int64))
    found = p_value(Pair.of(x, x + rng.random(150_000), design).by("spearman", "pooled"))
    assert isinstance(found, PValue)
    assert found.method == "jackknife of videos"
    assert 0 < found.p < 1e-100


@pytest.mark.parametrize("grouping", ["item", "within_system", "pooled"])
@pytest.mark.parametrize("strength", [0.0, 0.05])
def test_analytic_p_is_about_the_permutations(
    grouping: GroupingName, strength: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    design = Design(np.repeat(np.arange(500), 4), np.tile(np.arange(4), 500))
    x = rng.normal(size=2_000)
    y = strength * x + rng.normal(size=2_000)
    permuted = p_value(Pair.of(x, y, design).by("kendall_b", grouping), draws=999)
    monkeypatch.setattr(significance, "_WORK", 0)
    monkeypatch.setattr(video_bootstrap, "LARGEST", 0)
    monkeypatch.setattr(sign_flips, "MANY", 0)
    analytic = p_value(Pair.of(x, y, design).by("kendall_b", grouping))
    assert isinstance(permuted, PValue)
    assert isinstance(analytic, PValue)
    assert analytic.method == (
        "normal sign flips of videos" if grouping == "item" else "jackknife of videos"
    )
    assert analytic.p == pytest.approx(permuted.p, abs=0.06)


def test_p_by_item_reverses_the_human_order_of_whole_videos_in_every_way() -> None:
    # Five videos of three systems; of the third video the metric orders one pair wrongly.
    design = Design(np.repeat(np.arange(5), 3), np.tile(np.arange(3), 5))
    human = np.tile([1.0, 2.0, 3.0], 5)
    metric = human + design.video
    metric[6:9] = [2.0, 1.0, 3.0]
    for statistic in STATISTICS:
        turned: list[float] = []
        for signs in itertools.product([1, -1], repeat=5):
            value = Pair.of(metric, human * np.repeat(signs, 3), design).by(statistic, "item").value
            assert isinstance(value, float)
            turned.append(value)
        values = np.array(turned)
        middle = values.mean()
        extreme = np.abs(values - middle) >= abs(values[0] - middle) - 1e-9
        found = p_value(Pair.of(metric, human, design).by(statistic, "item"))
        assert found == PValue(extreme.mean(), "exact sign flips of videos")
        assert found.p == 2 / 32


def test_p_by_item_is_not_bound_by_few_systems() -> None:
    human = np.tile([1.0, 2.0, 3.0], 40)
    design = Design(np.repeat(np.arange(40), 3), np.tile(np.arange(3), 40))
    found = p_value(Pair.of(human, human, design).by("kendall_b", "item"), draws=999)
    assert found == PValue(0.001, "sign flips of videos")


def test_p_by_item_is_of_the_groups_that_are_shown() -> None:
    design = Design(np.repeat(np.arange(3), 2), np.tile(np.arange(2), 3))
    x, y = np.array([1.0, 2, 1, 2, 2, 1]), np.tile([1.0, 2.0], 3)
    only = np.array([True, True, False])
    assert p_value(Pair.of(x, y, design).by("kendall_b", "item")) == PValue(
        1.0, "exact sign flips of videos"
    )
    found = p_value(Pair.of(x, y, design).by("kendall_b", "item", only=only))
    assert found == PValue(0.5, "exact sign flips of videos")


def test_no_value_has_no_p() -> None:
    _, _, human, design = scores(10, 2)
    for grouping in GROUPINGS:
        assert isinstance(
            p_value(Pair.of(np.ones(20), human, design).by("kendall_b", grouping)), Missing
        )


@pytest.mark.parametrize("statistic", list(STATISTICS))
@pytest.mark.parametrize("grouping", GROUPINGS)
def test_a_better_metric_is_told_from_a_poor_one(statistic: str, grouping: GroupingName) -> None:
    good, poor, human, design = scores(60, 5)
    found = compared(good, poor, human, design, statistic, grouping, draws=499)
    back = compared(poor, good, human, design, statistic, grouping, draws=499)
    assert isinstance(found.difference, float)
    assert isinstance(back.difference, float)
    assert found.difference == pytest.approx(-back.difference)
    assert found.p == back.p
    if grouping != "system":
        assert isinstance(found.p, float)
        assert found.p <= 0.002


@pytest.mark.parametrize("statistic", list(STATISTICS))
@pytest.mark.parametrize("grouping", GROUPINGS)
def test_a_metric_is_not_better_than_itself(statistic: str, grouping: GroupingName) -> None:
    good, _, human, design = scores(20, 4)
    found = compared(good, good, human, design, statistic, grouping, draws=99)
    assert (found.difference, found.p) == (0.0, 1.0)
    if statistic != "pearson" and grouping != "system":
        cubed = compared(good, good**3, human, design, statistic, grouping, draws=99)
        assert (cubed.difference, cubed.p) == (0.0, 1.0)


@pytest.mark.parametrize("statistic", list(STATISTICS))
def test_metrics_by_item_are_swapped_in_every_way_in_few_videos(statistic: str) -> None:
    first, second, human, design = scores(6, 5, seed=3)
    found = compared(first, second, human, design, statistic, "item", draws=99)
    one, two = (Pair.of(x, human, design).values(statistic, "item") for x in (first, second))
    sums = [abs(np.dot(signs, one - two)) for signs in itertools.product([1, -1], repeat=6)]
    assert found.p == np.mean([value >= sums[0] - 1e-12 for value in sums])


@pytest.mark.parametrize("statistic", list(STATISTICS))
@pytest.mark.parametrize("grouping", ["pooled", "within_system"])
def test_the_difference_is_compared_with_its_error_without_one_and_two_videos(
    statistic: str, grouping: GroupingName
) -> None:
    first, second, human, design = scores(12, 4, seed=3)
    found = compared(first, second, human, design, statistic, grouping)

    def fisher(*without: int) -> float:
        rows = ~np.isin(design.video, without)
        ends = []
        for x in (first, second):
            value = Pair.of(x[rows], human[rows], design.take(rows)).by(statistic, grouping).value
            assert isinstance(value, float)
            ends.append(np.arctanh(2 * value - 1 if statistic == "acc_eq" else value))
        return float(ends[0] - ends[1])

    n, whole = 12, fisher()
    each = np.array([fisher(video) for video in range(n)])
    moved = each - each.mean()
    pairs = np.array(
        [
            n * whole - (n - 1) * (each[a] + each[b]) + (n - 2) * fisher(a, b)
            for a, b in itertools.combinations(range(n), 2)
        ]
    )
    plain = (n - 1) / n * (moved**2).sum()
    variance = max(plain - ((pairs - pairs.mean()) ** 2).sum() / (n * (n - 1)), plain / 2)
    freedom = (3 * (moved**2).sum() ** 2 / (moved**4).sum() - 2) * (variance / plain) ** 2
    expected = 2 * stats.t.sf(abs(whole) / np.sqrt(variance), np.clip(freedom, 1, n - 1))
    # The classes of tau-c stay those of the whole sample.
    loose = 0.01 if statistic == "kendall_c" else 1e-6
    assert found.p == pytest.approx(expected, abs=loose)
    assert found.method == "jackknife"


@pytest.mark.parametrize("videos", [80, 120])
def test_larger_groups_are_compared_by_other_ways_to_the_same_p(
    videos: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(2)
    design = Design(np.repeat(np.arange(videos), 4), np.tile(np.arange(4), videos))
    human = rng.normal(size=4 * videos)
    first, second = (human + noise * rng.normal(size=4 * videos) for noise in (2, 2.3))

    def two(estimate: Estimate) -> Floats | None:
        with monkeypatch.context() as before:
            before.setattr(jackknife, "LARGEST", 1_500)
            return jackknife.without_two_videos(estimate)

    for statistic in STATISTICS:
        few = compared(first, second, human, design, statistic, "pooled")
        monkeypatch.setattr(jackknife, "LARGEST", 0)
        monkeypatch.setattr(comparison, "without_two_videos", two)
        many = compared(first, second, human, design, statistic, "pooled")
        monkeypatch.setattr(comparison, "without_two_videos", jackknife.without_two_videos)
        without = compared(first, second, human, design, statistic, "pooled")
        monkeypatch.undo()
        assert many.p == pytest.approx(few.p, abs=1e-6 if videos == 80 else 0.02)
        assert without.p == pytest.approx(few.p, abs=0.02)


def test_sign_flip_is_exact_in_the_limit() -> None:
    gaps = np.array([0.3, -0.1, 0.2, 0.4])
    sums = [abs(np.dot(signs, gaps)) for signs in itertools.product([1, -1], repeat=4)]
    exact = np.mean([value >= abs(gaps.sum()) - 1e-12 for value in sums])
    p = sign_flip(gaps, draws=20_000).p
    assert p == pytest.approx(exact, abs=0.02)


def test_comparison_takes_groups_where_both_have_a_value() -> None:
    good, poor, human, design = scores(10, 3)
    gap = good.copy()
    gap[:3] = 1.0
    found = compared(gap, poor, human, design, "kendall_b", "item", draws=99)
    assert (found.used, found.dropped, found.n) == (9, 1, 27)
    missing = compared(np.ones(30), poor, human, design, "kendall_b", "pooled")
    assert isinstance(missing.difference, Missing)
    assert isinstance(missing.p, Missing)


def test_thresholds_are_not_swapped_between_means_of_systems() -> None:
    good, poor, human, design = scores(10, 3)
    by_system = compared(good, poor, human, design, "acc_eq", "system", thresholds=[0.1, 0.2])
    assert isinstance(by_system.p, Missing)
    for grouping in ("pooled", "item", "within_system"):
        found = compared(good, poor, human, design, "acc_eq", grouping, thresholds=[0.1, 0.2])
        assert isinstance(found.p, float)


def test_williams_is_the_published_t() -> None:
    # Steiger (1980, p. 248): r12 = .4, r13 = .5 (against the same third), r23 = .1, n = 103
    # gives T2 = -0.89 for the first pair; the data are built to have exactly these r.
    n = 103
    rng = np.random.default_rng(0)
    raw = rng.normal(size=(n, 3))
    raw -= raw.mean(axis=0)
    basis = np.linalg.qr(raw)[0]
    wanted = np.array([[1, 0.4, 0.5], [0.4, 1, 0.1], [0.5, 0.1, 1]])
    data = basis @ np.linalg.cholesky(wanted).T
    found = williams(data[:, 1], data[:, 2], data[:, 0], Design.of(range(n)))
    assert found.difference == pytest.approx(-0.1)
    assert found.p == pytest.approx(2 * stats.t.sf(0.8901, n - 3), abs=2e-3)


def test_williams_needs_independent_captions() -> None:
    good, poor, human, design = scores(10, 2)
    found = williams(good, poor, human, design)
    assert isinstance(found.p, Missing)
    alone = Design.of(range(20))
    assert isinstance(williams(good, 2 * good + 1, human, alone).p, Missing)
    assert isinstance(williams(np.ones(20), poor, human, alone).p, Missing)


@pytest.fixture(scope="module")
def nothing_old_to_collect() -> Iterator[None]:
    """statsmodels collects garbage at every call: what stands already is not looked through."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("nothing_old_to_collect")
@given(values=st.lists(st.floats(0, 1), min_size=1, max_size=8))
@settings(deadline=None, max_examples=40)
def test_holm_is_statsmodels(values: list[float]) -> None:
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    expected = multitest.multipletests(values, method="holm")[1]
    assert holm(values) == pytest.approx(list(expected))


def test_holm_does_not_count_missing_tests() -> None:
    gap = Missing("constant")
    assert holm([0.01, gap, 0.04]) == [0.02, gap, 0.04]


def test_clusters_open_below_every_member_above() -> None:
    far, near = 0.001, 0.5
    p: list[list[Value]] = [
        [1, near, far, far],
        [near, 1, near, far],
        [far, near, 1, far],
        [far, far, far, 1],
    ]
    assert rank_clusters([0.9, 0.8, 0.7, 0.6], p) == [1, 1, 1, 2]
    p[2][1] = far
    assert rank_clusters([0.9, 0.8, 0.7, 0.6], p) == [1, 1, 2, 3]
    p[2][0] = Missing("not tested")
    assert rank_clusters([0.9, 0.8, 0.7, 0.6], p) == [1, 1, 1, 2]
    assert rank_clusters([0.9, Missing("constant"), 0.7, 0.6], p) == [1, None, 1, 2]


def test_leaving_one_system_out_takes_the_rest() -> None:
    good, _, human, design = scores(10, 3)
    found = leave_one_system_out(Pair.of(good, human, design).by("kendall_b", "system"))
    for system, one in enumerate(found):
        rest = design.system != system
        direct = Pair.of(good[rest], human[rest], design.take(rest)).by("kendall_b", "system")
        assert one == direct.value
    alone = Design.of(range(30))
    assert isinstance(
        leave_one_system_out(Pair.of(good, human, alone).by("pearson", "pooled"))[0], Missing
    )
