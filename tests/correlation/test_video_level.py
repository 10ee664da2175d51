"""What `analyse` gives does not hang on the order of rows, on units or on the size of numbers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capeval.correlation import video_level
from capeval.correlation.joining import Joined
from capeval.correlation.protocols import EVERYTHING, for_design, protocol
from capeval.correlation.video_level import Settings, analyse
from capeval.files.ratings import Keys
from capeval.stats.design import Design
from capeval.stats.values import Floats

KEYS = [(f"v{n // 3}", f"s{n % 3}") for n in range(24)]


def joined(keys: list[tuple[str, str]], ratings: Floats, metrics: dict[str, Floats]) -> Joined:
    return Joined(
        human="score",
        keys=Keys.of(keys),
        raters=tuple(f"r{n}" for n in range(len(ratings))),
        ratings=ratings,
        metrics=metrics,
        design=Design.of([video for video, _ in keys], [system for _, system in keys]),
        warnings=(),
    )


def told(given: Joined, **chosen: Any) -> list[str]:
    results, comparisons, found = analyse(given, Settings(EVERYTHING, **chosen))
    return [one.model_dump_json() for one in [*results, *comparisons]] + found


@given(
    order=st.permutations(range(24)),
    seed=st.integers(0, 99),
    raters=st.sampled_from(["mean", "median", "zmean", "each"]),
)
@settings(deadline=None, max_examples=10)
def test_the_order_of_rows_changes_no_byte(order: list[int], seed: int, raters: str) -> None:
    rng = np.random.default_rng(seed)
    ratings = rng.integers(0, 5, (2, 24)) / 10
    metrics = {"a": rng.integers(0, 9, 24) / 10, "b": rng.random(24)}
    first = told(joined(KEYS, ratings, metrics), resamples=50, raters=raters)
    shuffled = joined(
        [KEYS[row] for row in order],
        ratings[:, order],
        {name: values[order] for name, values in metrics.items()},
    )
    assert told(shuffled, resamples=50, raters=raters) == first


@pytest.mark.parametrize("metrics", [1, 2])
def test_groupings_taken_at_once_find_the_same_bytes(
    metrics: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(metrics)
    keys = [(f"v{n // 3:03d}", f"s{n % 3}") for n in range(240)]
    ratings = rng.integers(0, 50, (1, 240)) / 10
    scores = {name: ratings[0] + rng.random(240) for name in "ab"[:metrics]}
    one_by_one = told(joined(keys, ratings, scores), resamples=100)
    monkeypatch.setattr(video_level, "_AT_ONCE", 0)
    for _ in range(3):
        assert told(joined(keys, ratings, scores), resamples=100) == one_by_one


@pytest.mark.parametrize("raters", ["mean", "zmean"])
def test_means_that_are_equal_as_typed_are_equal(raters: Any) -> None:
    # Every system has .1, .2 and .3 (or .2 thrice), and every caption all three from some rater.
    keys = [(f"v{n // 2}", f"s{n % 2}") for n in range(18)]
    metric = np.array([[0.1, 0.3], [0.2, 0.2], [0.3, 0.1]] * 3).ravel()
    level = np.array([[0.1, 0.2], [0.2, 0.2], [0.3, 0.2]] * 3).ravel()
    scale = np.array([0.1, 0.2, 0.3])
    ratings = np.stack([scale[(np.arange(18) + shift) % 3] for shift in range(3)])
    given = joined(keys, ratings, {"metric": metric, "level": level})
    results, _, _ = analyse(given, Settings(EVERYTHING, resamples=20, raters=raters))
    assert all(one.value is None for one in results if one.statistic != "acc_eq")
    assert {one.reason for one in results if one.grouping == "pooled"} >= {
        "the human scores are constant"
    }
    given = joined(keys, np.arange(18.0)[None], {"metric": metric, "level": level})
    results, _, _ = analyse(given, Settings(EVERYTHING, resamples=20))
    of_systems = [one for one in results if one.grouping == "system" and one.statistic != "acc_eq"]
    assert {one.value for one in of_systems} == {None}


def test_large_and_very_small_numbers_are_as_good_as_others() -> None:
    rng = np.random.default_rng(0)
    ratings, metrics = rng.random((2, 24)), {"a": rng.random(24), "b": rng.random(24)}
    usual = joined(KEYS, ratings, metrics)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = analyse(usual, Settings(EVERYTHING, resamples=50))[0]
        for power in (330, -600):
            extreme = joined(
                KEYS,
                np.ldexp(ratings, power),
                {name: np.ldexp(values, power) for name, values in metrics.items()},
            )
            for one, other in zip(
                analyse(extreme, Settings(EVERYTHING, resamples=50))[0], first, strict=True
            ):
                assert one.value == pytest.approx(other.value)
                assert one.p == pytest.approx(other.p)
                if other.threshold is not None:
                    assert one.threshold == np.ldexp(other.threshold, power)


def test_draws_grow_so_that_the_best_comparison_can_be_significant() -> None:
    rng = np.random.default_rng(0)
    human = rng.random(90)
    keys = [(f"v{n}", "s") for n in range(90)]
    metrics = {f"m{n}": human + n * rng.random(90) for n in range(11)}
    given = joined(keys, human[None], metrics)
    narrow = protocol(None, ["spearman"], ["pooled"])
    results, comparisons, found = analyse(given, Settings(narrow, ci="none"))
    least = min(one.p_adjusted for one in comparisons if one.p_adjusted is not None)
    assert least <= 0.01
    assert max(one.cluster or 0 for one in results) > 1
    assert not [line for line in found if "resamples for" in line]
    *_, found = analyse(given, Settings(narrow, ci="none", resamples=999))
    assert found[-1] == (
        "999 resamples for 55 pairs of metrics: no adjusted p of a permutation test can be below "
        "0.055; leave --resamples out, or set it to 5500 or more"
    )


def test_few_videos_are_warned_of_however_many_captions_there_are() -> None:
    keys = [(f"v{n // 20}", f"s{n % 20}") for n in range(80)]
    rng = np.random.default_rng(0)
    given = joined(keys, rng.random((1, 80)), {"m": rng.random(80)})
    results, _, found = analyse(given, Settings(EVERYTHING))
    assert found == ["human score: 4 videos: no intervals, and no p by resampling (needs 5)"]
    assert {one.interval_reason for one in results if one.value is not None} == {
        "4 videos are too few to resample: at least 5"
    }


@pytest.mark.parametrize(("resamples", "warned"), [(99, True), (9_999, False)])
def test_too_few_resamples_for_a_p_below_5_percent_are_warned_of(
    resamples: int, warned: bool
) -> None:
    rng = np.random.default_rng(0)
    human = rng.normal(size=24)
    given = joined(KEYS, human[None], {"a": human + rng.normal(size=24) / 9})
    chosen = Settings(protocol(None, ["kendall_b"], ["pooled"]), resamples=resamples)
    (one,), _, warnings = analyse(given, chosen)
    assert one.low is not None
    assert one.p is not None
    assert one.low > 0
    assert (one.p > 0.05) == warned
    expected = (
        f"human score: 99 resamples of 8 videos: no p by resampling can be below {one.p:.2g}, even "
        "where the interval excludes 0; leave --resamples out, or raise it"
    )
    assert (expected in warnings) == warned


@pytest.mark.parametrize(
    ("videos", "systems", "metrics", "taken"),
    [(2, 1_000, 1, False), (6, 400, 1, False), (6, 40, 1, True), (400, 40, 4, False)],
)
def test_soft_accuracy_that_takes_long_is_left_out_with_a_reason(
    videos: int, systems: int, metrics: int, taken: bool
) -> None:
    design = Design(np.repeat(np.arange(videos), systems), np.tile(np.arange(systems), videos))
    found, reason = for_design(EVERYTHING, design, metrics)
    assert (("soft_accuracy", "system") in found.pairs) == taken
    assert (reason is None) == taken
