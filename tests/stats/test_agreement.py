from itertools import permutations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from capeval.stats.agreement import (
    How,
    Level,
    class_scores,
    cohen_kappa,
    combine,
    confusion_by_video,
    krippendorff_alpha,
)
from capeval.stats.values import Coefficient, Floats

LABELS = ("entailment", "lack", "contradiction")
PAIRS = st.lists(
    st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1, max_size=30
)
GAP = float("nan")


def matrices(pairs: list[tuple[str, str]]) -> Floats:
    truth, given_ = zip(*pairs, strict=True)
    return confusion_by_video(truth, given_, LABELS, np.arange(len(pairs)) % 3)


@given(pairs=PAIRS)
@settings(max_examples=50)
def test_kappa_and_class_scores_are_their_definitions(pairs: list[tuple[str, str]]) -> None:
    truth, given_ = zip(*pairs, strict=True)
    found = matrices(pairs)
    agreed = np.mean([a == b for a, b in pairs])
    chance = sum(truth.count(name) * given_.count(name) for name in LABELS) / len(pairs) ** 2
    if chance < 1:
        kappa = cohen_kappa(found).value
        assert kappa == pytest.approx((agreed - chance) / (1 - chance), abs=1e-10)
    precision, recall, f1 = class_scores(found.sum(axis=0))
    for n, name in enumerate(LABELS):
        right = pairs.count((name, name))
        of_given, of_truth = given_.count(name), truth.count(name)
        expected = [
            right / of_given if of_given else GAP,
            right / of_truth if of_truth else GAP,
            2 * right / (of_given + of_truth) if of_given + of_truth else GAP,
        ]
        assert [precision[n], recall[n], f1[n]] == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
@given(
    ratings=st.lists(
        st.lists(st.sampled_from([1.0, 2.0, 3.5, GAP]), min_size=3, max_size=3),
        min_size=1,
        max_size=15,
    )
)
# Without the last video alpha is the next number after 1.
@example([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 3.5], [3.5, 3.5, GAP]])
@settings(deadline=None, max_examples=50)
def test_alpha_is_krippendorffs(level: Level, ratings: list[list[float]]) -> None:
    oracle = pytest.importorskip("krippendorff")
    values = np.array(ratings).T
    found = krippendorff_alpha(values, np.arange(len(ratings)), level).value
    paired = values[:, (~np.isnan(values)).sum(axis=0) > 1]
    if len(set(paired[~np.isnan(paired)])) < 2:
        assert found is None
        return
    expected = oracle.alpha(reliability_data=values, level_of_measurement=level)
    assert found == pytest.approx(expected, abs=1e-10)


def test_no_agreement_is_missing_and_not_zero() -> None:
    none = cohen_kappa(np.zeros((2, 2, 2)))
    assert none == Coefficient(None, reason="there are no labels")
    assert cohen_kappa(np.array([[[5.0, 0], [0, 0]]] * 6)).value is None
    few = cohen_kappa(np.array([[[5.0, 1], [2, 3]]] * 4))
    assert few.value is not None
    assert few.reason == "4 videos are too few for an interval: at least 5"


def simulated(rng: np.random.Generator, videos: int, kappa: float) -> dict[str, Coefficient]:
    """Return the agreement of two raters; the labels of a video depend on each other."""
    video = np.repeat(np.arange(videos, dtype=np.int64), rng.integers(5, 21, videos))
    shares = rng.dirichlet([2.5, 1.5, 1], videos)[video]
    same = rng.beta(4 * kappa, 4 * (1 - kappa), videos)[video]
    truth = (rng.random((len(video), 1)) > shares.cumsum(axis=1)[:, :2]).sum(axis=1)
    other = rng.choice(3, len(video), p=[0.5, 0.3, 0.2])
    labels = np.stack([truth, np.where(rng.random(len(video)) < same, truth, other)])
    table = confusion_by_video(labels[0].tolist(), labels[1].tolist(), range(3), video)
    alpha = krippendorff_alpha(labels, video)
    return {"alpha": alpha, "kappa": cohen_kappa(table)}


@pytest.mark.parametrize("kappa", [0.3, 0.9])
def test_intervals_cover_other_videos(kappa: float) -> None:
    rng = np.random.default_rng(0)
    true = {name: found.value for name, found in simulated(rng, 50_000, kappa).items()}
    covered = dict.fromkeys(true, 0)
    for _ in range(200):
        for name, found in simulated(rng, 40, kappa).items():
            value = true[name]
            assert None not in (value, found.low, found.high)
            covered[name] += found.low <= value <= found.high  # type: ignore[operator]
    # Three binomial standard errors of 95%.
    assert all(0.904 <= count / 200 <= 0.996 for count in covered.values()), covered


def test_raters_are_combined_over_what_they_rated() -> None:
    ratings = [[1, 2, GAP, GAP], [3, 4, 9, GAP], [8, 3, 3, GAP]]
    assert combine(ratings)[:3].tolist() == [4, 3, 6]
    assert combine(ratings, "median")[:3].tolist() == [3, 3, 6]
    assert np.isnan(combine(ratings)[3])
    # One rater is taken as typed, and very large and small ratings have finite means.
    assert combine([[1 / 3, 1e-15, GAP]])[:2].tolist() == [1 / 3, 1e-15]
    assert combine([[1.5e100], [1.7e100]]).tolist() == pytest.approx([1.6e100])
    assert combine([[1e-310, 0], [1e-310, 0]]).tolist() == [1e-310, 0]


@pytest.mark.parametrize("how", ["mean", "median"])
@given(scale=st.sampled_from([1e-300, 1e-3, 1.0, 1e6, 1e307]), data=st.data())
@settings(max_examples=30)
def test_equal_as_typed_is_equal_in_any_order(how: How, scale: float, data: st.DataObject) -> None:
    orders = list(permutations([0.1 * scale, 0.2 * scale, 0.3 * scale]))
    captions = data.draw(st.permutations(orders))
    assert len(set(combine(np.array(captions).T, how).tolist())) == 1
