"""Agreement and raters, held against independent tools and published values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capeval.stats.agreement import (
    Coefficient,
    Level,
    alpha_interval,
    class_scores,
    coefficient_intervals,
    coefficients,
    confusion_by_video,
    confusion_matrix,
    krippendorff_alpha,
)
from capeval.stats.raters import combine, constant_raters
from capeval.stats.values import Floats, Interval, Missing

LABELS = ("entailment", "lack", "contradiction")
PAIRS = st.lists(
    st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS), st.integers(1, 3)),
    min_size=1,
    max_size=30,
)


def of(name: Coefficient, matrix: Floats) -> float:
    """Return one coefficient of a confusion matrix, NaN where it is missing."""
    value = coefficients(matrix)[name]
    return float("nan") if isinstance(value, Missing) else value


GAP = float("nan")

# Krippendorff's data of three coders with gaps, as in the Wikipedia article on his alpha.
CODERS = [
    [GAP, GAP, GAP, GAP, GAP, 3, 4, 1, 2, 1, 1, 3, 3, GAP, 3],
    [1, GAP, 2, 1, 3, 3, 4, 3, GAP, GAP, GAP, GAP, GAP, GAP, GAP],
    [GAP, GAP, 2, 1, 3, 4, 4, GAP, 2, 1, 1, 3, 3, GAP, 4],
]


@given(pairs=PAIRS)
@settings(deadline=None)
def test_kappa_and_class_scores_are_sklearns(pairs: list[tuple[str, str, int]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    truth, given_, weights = zip(*pairs, strict=True)
    matrix = confusion_matrix(truth, given_, LABELS, weights=weights)
    expected = metrics.confusion_matrix(truth, given_, labels=LABELS, sample_weight=weights)
    assert matrix.tolist() == expected.tolist()
    if len({*truth, *given_}) > 1:
        kappa = metrics.cohen_kappa_score(truth, given_, sample_weight=weights)
        assert of("kappa", matrix) == pytest.approx(kappa, abs=1e-10)
    scores = metrics.precision_recall_fscore_support(
        truth, given_, labels=LABELS, sample_weight=weights, zero_division=np.nan
    )
    for found, precision, recall, f1, support in zip(class_scores(matrix), *scores, strict=True):
        assert found.support == support
        for ours, theirs in ((found.precision, precision), (found.recall, recall), (found.f1, f1)):
            if isinstance(ours, Missing):
                assert np.isnan(theirs)
            else:
                assert ours == pytest.approx(theirs, abs=1e-10, nan_ok=True)
    present = sorted({*truth, *given_})
    macro = metrics.f1_score(
        truth, given_, labels=present, average="macro", sample_weight=weights, zero_division=0
    )
    assert of("macro_f1", matrix) == pytest.approx(macro, abs=1e-10)


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
@given(pairs=PAIRS)
@settings(deadline=None)
def test_kappa_is_statsmodels(pairs: list[tuple[str, str, int]]) -> None:
    rater = pytest.importorskip("statsmodels.stats.inter_rater")
    truth, given_, _ = zip(*pairs, strict=True)
    matrix = confusion_matrix(truth, given_, LABELS)
    if len({*truth, *given_}) > 1:
        found = of("kappa", matrix)
        assert found == pytest.approx(rater.cohens_kappa(matrix).kappa, abs=1e-10)
        # Brennan and Prediger's chance is Randolph's: statsmodels has it for tables of subjects.
        table = np.zeros((len(truth), 3))
        for row, (one, two, _) in enumerate(pairs):
            table[row, LABELS.index(one)] += 1
            table[row, LABELS.index(two)] += 1
        randolph = rater.fleiss_kappa(table, method="randolph")
        assert of("brennan_prediger", matrix) == pytest.approx(randolph, abs=1e-10)


@given(pairs=PAIRS)
@settings(deadline=None)
def test_ac1_is_its_definition(pairs: list[tuple[str, str, int]]) -> None:
    truth, given_, _ = zip(*pairs, strict=True)
    agreed = np.mean([a == b for a, b, _ in pairs])
    shares = [(truth.count(name) + given_.count(name)) / (2 * len(pairs)) for name in LABELS]
    chance = sum(share * (1 - share) for share in shares) / 2
    found = of("ac1", confusion_matrix(truth, given_, LABELS))
    assert found == pytest.approx((agreed - chance) / (1 - chance))


def test_prevalence_moves_kappa_and_not_ac1() -> None:
    # Gwet (2008, table 2): 118, 5, 2 and 0 of 125; kappa -.0234, AC1 .9408.
    matrix = np.array([[118, 5], [2, 0]])
    assert of("kappa", matrix) == pytest.approx(-0.0234, abs=5e-5)
    assert of("ac1", matrix) == pytest.approx(0.9408, abs=5e-5)


@pytest.mark.parametrize(("level", "published"), [("nominal", 0.691), ("interval", 0.811)])
def test_alpha_is_the_published_one(level: str, published: float) -> None:
    found = krippendorff_alpha(CODERS, level)  # type: ignore[arg-type]
    assert found == pytest.approx(published, abs=5e-4)


@pytest.mark.parametrize("level", ["nominal", "interval"])
@given(
    ratings=st.lists(
        st.lists(st.sampled_from([1.0, 2.0, 3.5, GAP]), min_size=3, max_size=3),
        min_size=1,
        max_size=15,
    )
)
@settings(deadline=None)
def test_alpha_is_krippendorffs(level: str, ratings: list[list[float]]) -> None:
    oracle = pytest.importorskip("krippendorff")
    values = np.array(ratings).T
    found = krippendorff_alpha(values, level)  # type: ignore[arg-type]
    paired = values[:, (~np.isnan(values)).sum(axis=0) > 1]
    if len(set(paired[~np.isnan(paired)])) < 2:
        assert isinstance(found, Missing)
        return
    expected = oracle.alpha(reliability_data=values, level_of_measurement=level)
    assert found == pytest.approx(expected, abs=1e-10)


@given(pairs=PAIRS)
@settings(deadline=None)
def test_alpha_of_two_raters_has_a_form_on_counts(pairs: list[tuple[str, str, int]]) -> None:
    truth, given_, weights = zip(*pairs, strict=True)
    codes = [[LABELS.index(name) for name in side] for side in (truth, given_)]
    direct = krippendorff_alpha(np.repeat(codes, weights, axis=1))
    found = coefficients(confusion_matrix(truth, given_, LABELS, weights=weights))["alpha"]
    assert isinstance(found, Missing) == isinstance(direct, Missing)
    if isinstance(direct, float):
        assert found == pytest.approx(direct, abs=1e-10)


def test_no_agreement_is_missing_and_not_zero() -> None:
    assert coefficients(np.zeros((2, 2)))["kappa"] == Missing("there are no labels")
    one = coefficients(np.array([[5, 0], [0, 0]]))
    assert isinstance(one["kappa"], Missing)
    assert isinstance(one["alpha"], Missing)
    assert one["accuracy"] == 1.0
    assert one["ac1"] == 1.0
    assert isinstance(krippendorff_alpha([[1, GAP], [GAP, 1]]), Missing)
    assert isinstance(krippendorff_alpha([[1, 1], [1, 1]]), Missing)


def test_intervals_resample_whole_videos() -> None:
    rng = np.random.default_rng(0)
    video = np.repeat(np.arange(40), 17)
    truth = rng.integers(0, 3, 680)
    given_ = np.where(rng.random(680) < 0.7, truth, rng.integers(0, 3, 680))
    matrices = confusion_by_video(truth.tolist(), given_.tolist(), range(3), video)
    found = coefficient_intervals(matrices, draws=2000)
    for name, value in coefficients(matrices.sum(axis=0)).items():
        ours = found[name]
        assert isinstance(ours, Interval)
        assert isinstance(value, float)
        assert ours.low < value < ours.high
        assert ours.high - ours.low < 0.2
    # Videos that agree in all or in nothing: the interval must be as wide as 40 coins.
    extreme = np.zeros((40, 2, 2))
    extreme[::2, 0, 0], extreme[1::2, 0, 1] = 17, 17
    wide = coefficient_intervals(extreme, draws=2000)["accuracy"]
    assert isinstance(wide, Interval)
    assert wide.high - wide.low == pytest.approx(0.31, abs=0.03)
    assert isinstance(coefficient_intervals(extreme[:1])["kappa"], Missing)


@pytest.mark.parametrize("weights", [[1], [-1, 1], [GAP, 1]])
def test_weights_must_fit(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weight"):
        confusion_matrix("ab", "ab", "ab", weights=weights)


def test_raters_are_combined_over_what_they_rated() -> None:
    ratings = [[1, 2, GAP, GAP], [3, 4, 9, GAP], [8, 3, 3, GAP]]
    assert combine(ratings)[:3].tolist() == [4, 3, 6]
    assert combine(ratings, "median")[:3].tolist() == [3, 3, 6]
    assert np.isnan(combine(ratings)[3])


def test_zmean_takes_away_severity_and_leaves_out_who_says_nothing() -> None:
    severe, lenient = np.array([1.0, 2.0, 4.0]), np.array([60.0, 70.0, 90.0])
    silent = np.full(3, 5.0)
    assert constant_raters([severe, silent]).tolist() == [False, True]
    z = (severe - severe.mean()) / severe.std(ddof=1)
    assert combine([severe, lenient, silent], "zmean") == pytest.approx(z)
    assert np.isnan(combine([silent], "zmean")).all()


def test_alpha_of_resampled_videos_is_that_of_their_units_repeated() -> None:
    rng = np.random.default_rng(3)
    ratings = rng.integers(0, 4, (3, 40)).astype(float)
    ratings[rng.random(ratings.shape) < 0.2] = np.nan
    video = np.arange(40) // 4
    levels: tuple[Level, ...] = ("nominal", "interval")
    for level in levels:
        found = alpha_interval(ratings, video, level, draws=2_000)
        value = krippendorff_alpha(ratings, level)
        assert isinstance(found, Interval)
        assert isinstance(value, float)
        assert found.low < value < found.high
        drawn = [rng.integers(0, 10, 10) for _ in range(1_000)]
        again = []
        for some in drawn:
            units = np.concatenate([np.flatnonzero(video == one) for one in some])
            one = krippendorff_alpha(ratings[:, units], level)
            again += [one] if isinstance(one, float) else []
        # The interval is expanded, so that these percentiles are inside it.
        low, high = np.quantile(again, [0.025, 0.975])
        assert found.low < low
        assert found.high > high
        assert found.high - found.low < 1.5 * (high - low)
    few = alpha_interval(ratings[:, :12], video[:12])
    assert few == Missing("3 videos are too few to resample: at least 5")
