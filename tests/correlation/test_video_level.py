import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capeval.correlation.joining import Joined, join
from capeval.correlation.video_level import EVERYTHING, Analysis, analyse
from capeval.files.ratings import MetricScores, RatingTable
from capeval.stats.values import Floats

KEYS = [(f"v{n // 3}", f"s{n % 3}") for n in range(24)]


def joined(keys: list[tuple[str, str]], ratings: Floats, metrics: dict[str, Floats]) -> Joined:
    raters = tuple(f"r{n}" for n in range(len(ratings)))
    human = RatingTable(Path("human.csv"), keys, raters, ratings=ratings)
    return join(
        human,
        [
            MetricScores(name, dict(zip(keys, values.tolist(), strict=True)))
            for name, values in metrics.items()
        ],
    )


def results_of(given: Joined, **chosen: Any) -> list[str]:
    results, comparisons, found = analyse(given, Analysis(EVERYTHING, **chosen))
    return [one.model_dump_json() for one in [*results, *comparisons, *found]]


@given(
    order=st.permutations(range(24)),
    seed=st.integers(0, 99),
    raters=st.sampled_from(["mean", "median", "each"]),
)
@settings(deadline=None, max_examples=4)
def test_the_order_of_rows_changes_no_byte(order: list[int], seed: int, raters: str) -> None:
    rng = np.random.default_rng(seed)
    ratings = rng.integers(0, 5, (2, 24)) / 10
    metrics = {"a": rng.integers(0, 9, 24) / 10, "b": rng.random(24)}
    first = results_of(joined(KEYS, ratings, metrics), raters=raters)
    shuffled = joined(
        [KEYS[row] for row in order],
        ratings[:, order],
        {name: values[order] for name, values in metrics.items()},
    )
    assert results_of(shuffled, raters=raters) == first


def test_means_that_are_equal_as_typed_are_equal() -> None:
    # Every system has .1, .2 and .3 (or .2 thrice), and every caption all three from some rater.
    keys = [(f"v{n // 2}", f"s{n % 2}") for n in range(18)]
    metric = np.array([[0.1, 0.3], [0.2, 0.2], [0.3, 0.1]] * 3).ravel()
    level = np.array([[0.1, 0.2], [0.2, 0.2], [0.3, 0.2]] * 3).ravel()
    scale = np.array([0.1, 0.2, 0.3])
    ratings = np.stack([scale[(np.arange(18) + shift) % 3] for shift in range(3)])
    given = joined(keys, ratings, {"metric": metric, "level": level})
    results, _, _ = analyse(given, Analysis(EVERYTHING))
    assert all(one.value is None for one in results)
    assert {one.reason for one in results if one.grouping == "pooled"} >= {
        "the human scores are constant"
    }
    given = joined(keys, np.arange(18.0)[None], {"metric": metric, "level": level})
    results, _, _ = analyse(given, Analysis(EVERYTHING))
    of_systems = [one for one in results if one.grouping == "system"]
    assert {one.value for one in of_systems} == {None}


def test_large_and_very_small_numbers_are_as_good_as_others() -> None:
    rng = np.random.default_rng(0)
    ratings, metrics = rng.random((2, 24)), {"a": rng.random(24), "b": rng.random(24)}
    usual = joined(KEYS, ratings, metrics)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = analyse(usual, Analysis(EVERYTHING))[0]
        for power in (330, -600):
            extreme = joined(
                KEYS,
                np.ldexp(ratings, power),
                {name: np.ldexp(values, power) for name, values in metrics.items()},
            )
            for one, other in zip(analyse(extreme, Analysis(EVERYTHING))[0], first, strict=True):
                assert one.value == pytest.approx(other.value)
                assert one.p == pytest.approx(other.p)


def test_metrics_are_compared_on_the_same_groups_and_ranked_in_any_order() -> None:
    rng = np.random.default_rng(0)
    human = rng.random(24)
    poor, good = rng.random(24), human + rng.random(24) / 20
    poor[:3] = 0.5  # has no correlation within the first video
    for metrics in ({"poor": poor, "good": good}, {"good": good, "poor": poor}):
        results, _, _ = analyse(joined(KEYS, human[None], metrics), Analysis(EVERYTHING))
        of = {(r.metric, r.statistic, r.grouping): r for r in results}
        assert {of[name, "pearson", "item"].groups.used for name in metrics} == {7}
        assert [of[name, "pearson", "pooled"].cluster for name in ("good", "poor")] == [1, 2]


def test_systems_that_metrics_rank_alike_differ_by_nothing() -> None:
    rng = np.random.default_rng(0)
    human, metric = rng.random(24), rng.random(24)
    given = joined(KEYS, human[None], {"a": metric, "b": 2 * metric})
    _, comparisons, _ = analyse(given, Analysis(EVERYTHING))
    (found,) = [c for c in comparisons if (c.statistic, c.grouping) == ("pearson", "system")]
    assert (found.difference, found.low, found.high) == pytest.approx((0, 0, 0), abs=1e-6)
