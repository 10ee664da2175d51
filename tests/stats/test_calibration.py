from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from capeval.stats.calibration import (
    FEW_LABELLED,
    FEWEST_LABELLED,
    Calibration,
    calibrate,
    labels_needed,
    variance_range,
)
from tests.stats.calibration_worlds import COLUMNS, POOL, VIDEOS, Floats, world

SIMULATIONS = 3_000
# Studies that are calibrated at once: their columns still fit in the processor's cache.
_AT_ONCE = 150
PRECISION = np.array([name.endswith("precision") for name in COLUMNS])


@cache
def coverage(labelled: int, kind: str = "means") -> dict[str, Floats]:
    """Return the share of studies whose interval holds the truth, by kind of interval and column.

    Columns with too few labels in a study have no interval there, and do not count.
    """
    judge, human = world()
    if kind == "differences":
        # Another system's captions of other videos are as good as its captions of these.
        other_judge, other_human = world(1)
        judge, human = other_judge - judge, other_human - human
    truth = np.nanmean(human, axis=0)
    rng = np.random.default_rng(labelled)
    hits: dict[str, list[Floats]] = {name: [] for name in ("new", "same", "human", "ppi")}
    for _ in range(SIMULATIONS // _AT_ONCE):
        pools = rng.integers(0, VIDEOS, size=(POOL, _AT_ONCE))
        f = judge[pools].reshape(POOL, -1)
        y = human[pools[:labelled]].reshape(labelled, -1)
        in_pool = np.nanmean(human[pools], axis=0).ravel()
        found = calibrate(f, y, range(labelled))
        for name, low, high, true in (
            ("new", found.low, found.high, np.tile(truth, _AT_ONCE)),
            ("same", found.same_low, found.same_high, in_pool),
            ("human", found.human_low, found.human_high, np.tile(truth, _AT_ONCE)),
            ("ppi", *ppi(f, y), np.tile(truth, _AT_ONCE)),
        ):
            inside = np.where(np.isnan(found.low), np.nan, (low <= true) & (true <= high))
            hits[name].append(inside.reshape(_AT_ONCE, -1))
    return {name: np.nanmean(np.concatenate(of), axis=0) for name, of in hits.items()}


def ppi(judge: Floats, human: Floats) -> tuple[Floats, Floats]:
    """Return the interval of PPI++ (Angelopoulos, Duchi and Zrnic, 2023) of columns without gaps.

    The videos after the labelled ones are its unlabelled sample, and quantiles are the normal's.
    """
    n, rest = len(human), judge[len(human) :]
    f = judge[:n]
    cross = ((human - human.mean(axis=0)) * (f - f.mean(axis=0))).mean(axis=0)
    tuned = np.clip(cross / ((1 + n / len(rest)) * judge.var(axis=0, ddof=1)), 0, 1)
    middle = tuned * rest.mean(axis=0) + (human - tuned * f).mean(axis=0)
    variance = tuned**2 * rest.var(axis=0) / len(rest) + (human - tuned * f).var(axis=0) / n
    half = stats.norm.ppf(0.975) * np.sqrt(variance)
    return middle - half, middle + half


@pytest.mark.parametrize("labelled", [20, 40, 100, 200])
def test_intervals_cover_for_every_type(labelled: int) -> None:
    found = coverage(labelled)
    sure = ~PRECISION if labelled < 100 else np.ones(len(COLUMNS), dtype=bool)
    for name in ("new", "same"):
        assert (found[name][sure] >= 0.93).all(), dict(zip(COLUMNS, found[name], strict=True))
        assert (found[name][sure] <= 0.97).all(), dict(zip(COLUMNS, found[name], strict=True))


@pytest.mark.parametrize("labelled", [10, 12, 20, 40])
def test_few_labels_cover_about_as_often_as_human_labels_alone(labelled: int) -> None:
    found = coverage(labelled)
    # In the same 3,000 studies, a difference has a standard error of 0.3 points; at 10 labels, only
    # every sixth study has ten videos with camera elements.
    noise = 0.0 if labelled > 10 else 0.01
    assert (found["new"] >= found["human"] - 0.015 - noise).all(), found


@pytest.mark.parametrize("labelled", [20, 100])
def test_differences_between_two_systems_are_covered(labelled: int) -> None:
    found = coverage(labelled, "differences")
    assert ((found["new"] >= 0.93) & (found["new"] <= 0.97)).all(), found["new"]


def test_prediction_powered_intervals_are_too_narrow_for_few_labels() -> None:
    """Normal quantiles, and no degrees of freedom for the slope: why ours differ."""
    of_all = [COLUMNS.index("all.f1"), COLUMNS.index("all.recall")]
    assert (coverage(20)["ppi"][of_all] < 0.93).all()
    assert (coverage(20)["new"][of_all] > 0.935).all()
    assert (coverage(200)["ppi"][of_all] > 0.935).all()


@pytest.mark.parametrize(
    ("seed", "n", "rest", "noise", "low", "high"),
    [
        # Computed with ppi_mean_ci(..., alpha=0.05) of ppi-python 0.2.3, the authors' package. It
        # is not a dependency: it needs numba, pandas, statsmodels, scikit-learn and gdown.
        (0, 20, 980, 0.5, -0.27722314655323727, 0.11833974403771214),
        (1, 20, 200, 2.0, -1.4614254909345135, -0.04799075830506161),
        (2, 100, 900, 0.2, -0.12282099071292929, 0.03320990197233897),
        (3, 50, 50, 1.0, -0.3019230542407878, 0.4371758262382015),
    ],
)
def test_published_formula_is_that_of_its_authors(
    seed: int, n: int, rest: int, noise: float, low: float, high: float
) -> None:
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=n + rest)
    human = quality + rng.normal(size=n + rest) * noise
    judge = 0.8 * quality + 0.3
    found = ppi(judge[:, None], human[:n, None])
    assert [float(end[0]) for end in found] == pytest.approx([low, high], abs=1e-12)


STRATA = np.array([0, 1, 2, 3]).repeat([500, 300, 150, 50])


@pytest.mark.parametrize(
    "counts", [(20, 12, 6, 2), (50, 30, 15, 5), (10, 10, 10, 10), (60, 20, 10, 10)]
)
def test_strata_are_covered_whatever_their_rates(counts: tuple[int, ...]) -> None:
    """Strata that differ in how good captions are, and in how lenient the judge is."""
    rng = np.random.default_rng(3)
    studies = 2_000
    level = np.array([0.5, 0.35, 0.6, 0.2])[STRATA][:, None]
    leniency = np.array([0.1, 0.2, 0.0, 0.25])[STRATA][:, None]
    shared = rng.normal(0, 0.1, (len(STRATA), studies))
    human = level + shared + rng.normal(0, 0.08, shared.shape)
    judge = level + leniency + 0.7 * shared + rng.normal(0, 0.08, shared.shape)
    starts = (0, 500, 800, 950)
    rows = np.concatenate(
        [start + np.arange(count) for start, count in zip(starts, counts, strict=True)]
    )
    found = calibrate(judge, human[rows], rows, strata=STRATA[rows], sizes=(500, 300, 150, 50))
    truth = human.mean(axis=0)
    same = ((found.same_low <= truth) & (truth <= found.same_high)).mean()
    assert 0.93 <= same <= 0.97
    assert abs((found.value - truth).mean()) < 0.003
    alone = calibrate(judge * 0, human[rows], rows, strata=STRATA[rows], sizes=(500, 300, 150, 50))
    # Without weights, rates that differ would bias the mean.
    assert abs((alone.value - truth).mean()) < 0.003


UNEVEN = [
    ((500, 500), (2, 28)),
    ((900, 100), (3, 27)),
    ((700, 100, 100, 100), (27, 1, 1, 1)),
    ((300, 300, 400), (2, 3, 25)),
]
"""Sizes of strata, and labels in them: few where they weigh most, or a single one."""


@pytest.mark.parametrize(("sizes", "counts"), UNEVEN)
@pytest.mark.parametrize("spread", [1.0, 2.0])
def test_strata_with_few_labels_are_covered(
    sizes: tuple[int, ...], counts: tuple[int, ...], spread: float
) -> None:
    """Without their own degrees of freedom, 85% to 89% were, and 32% with strata of one label."""
    rng = np.random.default_rng(11)
    studies, strata = 2_000, len(sizes)
    of_video = np.repeat(np.arange(strata), sizes)
    level, leniency, scale = (
        np.linspace(one, other, strata)[of_video][:, None]
        for one, other in ((0.25, 0.75), (0.2, -0.1), (1 / spread, spread))
    )
    shared = rng.normal(0, 0.1, (len(of_video), studies))
    human = level + scale * (shared + rng.normal(0, 0.08, shared.shape))
    judge = level + leniency + 0.7 * shared + rng.normal(0, 0.08, shared.shape)
    starts = np.cumsum([0, *sizes[:-1]])
    rows = np.concatenate(
        [start + np.arange(count) for start, count in zip(starts, counts, strict=True)]
    )
    found = calibrate(judge, human[rows], rows, strata=of_video[rows], sizes=sizes)
    truth = human.mean(axis=0)
    assert ((found.same_low <= truth) & (truth <= found.same_high)).mean() >= 0.915
    assert ((found.human_low <= truth) & (truth <= found.human_high)).mean() >= 0.93


@pytest.mark.parametrize(
    ("labelled", "failing", "shape"),
    [(10, 0.2, (8, 2)), (15, 0.2, (8, 2)), (20, 0.08, (17, 3)), (30, 0.08, (17, 3))],
)
def test_failed_captions_that_the_judge_misjudges_are_covered_as_by_human_labels(
    labelled: int, failing: float, shape: tuple[float, float]
) -> None:
    """Precision 0 in some captions, to which the judge gives any score.

    A failed caption among few labels draws the line to itself. With ordinary residuals, intervals
    covered 2 to 5 points less often than those of human labels alone.
    """
    rng = np.random.default_rng(labelled)
    size = (200, 8_000)
    good, failed = rng.beta(*shape, size), rng.random(size) < failing
    human = np.where(failed, 0.0, good)
    seen = np.clip(good + rng.normal(0, 0.1, size), 0, 1)
    judge = np.where(failed, rng.random(size), seen)
    found = calibrate(judge, human[:labelled], range(labelled), bounds=(0.0, 1.0))
    truth = (1 - failing) * shape[0] / sum(shape)
    alone = (found.human_low <= truth) & (truth <= found.human_high)
    # A difference of shares in the same studies has a standard error of 0.3 points.
    assert ((found.low <= truth) & (truth <= found.high)).mean() >= alone.mean() - 0.015


def test_residuals_are_those_from_the_line_through_the_other_videos() -> None:
    rng = np.random.default_rng(5)
    judge = np.append(rng.random(13), 3.0)
    human = 0.3 + 0.5 * judge + rng.normal(0, 0.2, 14)
    judge, n, videos = np.append(judge, rng.random(86)), 14, 100
    left_out = []
    for one in range(n):
        others = np.delete(np.arange(n), one)
        line = stats.linregress(judge[others], human[others])
        left_out.append(human[one] - line.intercept - line.slope * judge[one])
    apart = (judge.mean() - judge[:n].mean()) ** 2 / judge[:n].var()
    variance = np.mean(np.square(left_out)) * (1 / n - 1 / videos) * (1 + apart)
    found = calibrate(judge, human, range(n))
    half = stats.t.ppf(0.975, n - 2) * np.sqrt(variance)
    assert found.same_high[0] - found.value[0] == pytest.approx(half)


def test_one_video_that_fixes_the_slope_is_left_out_without_a_slope() -> None:
    judge = np.append(np.full(11, 0.9), 0.1)
    human = np.append(np.tile([0.8, 0.9], 6)[:11], 0.1)
    pool = np.append(judge, np.tile([0.9, 0.88], 50))
    found = calibrate(pool, human, range(12))
    residual = human[11] - human[:11].mean()
    assert found.slope[0] > 0.5
    # Ordinary residuals see nothing wrong there.
    assert found.residual[0] < 0.01 < residual**2 / 12
    assert found.high[0] - found.value[0] >= 0.9 * (found.human_high - found.human)[0]


def test_slope_and_residuals_are_those_of_a_regression() -> None:
    rng = np.random.default_rng(1)
    judge = rng.random(300)
    human = 0.2 + 0.6 * judge + rng.normal(0, 0.1, 300)
    found = calibrate(judge, human[:40], range(40))
    line = stats.linregress(judge[:40], human[:40])
    assert found.slope[0] == pytest.approx(line.slope)
    assert found.value[0] == pytest.approx(line.intercept + line.slope * judge.mean())
    assert found.r2[0] == pytest.approx(line.rvalue**2)
    residuals = human[:40] - line.intercept - line.slope * judge[:40]
    variance = (residuals**2).sum() / 38
    t = stats.t.ppf(0.975, 38)
    apart = (judge.mean() - judge[:40].mean()) ** 2 / judge[:40].var()
    gaps = judge[:40] - judge[:40].mean()
    left_out = residuals / (1 - 1 / 40 - gaps**2 / (gaps**2).sum())
    sampled = (left_out**2).mean() * (1 / 40 - 1 / 300) * (1 + apart)
    half = t * np.sqrt(sampled + (variance + line.slope**2 * judge.var(ddof=1)) / 300)
    assert found.high[0] - found.value[0] == pytest.approx(half)
    same = t * np.sqrt(sampled)
    assert found.same_high[0] - found.value[0] == pytest.approx(same)
    assert found.worth[0] == pytest.approx(40 / (1 - line.rvalue**2 * (1 - 40 / 300)))
    alone = stats.t.ppf(0.975, 39) * human[:40].std(ddof=1) / np.sqrt(40)
    assert found.human_high[0] - human[:40].mean() == pytest.approx(alone)


def values(found: Calibration) -> Floats:
    """Return all numbers of a calibration: (numbers, columns)."""
    return np.array([of for name, of in vars(found).items() if name != "reasons"])


@st.composite
def studies(draw: st.DrawFn) -> tuple[Floats, Floats]:
    """Scores of a judge, (N, 3), and of human raters, (n, 3), both with gaps."""
    n = draw(st.integers(0, 30))
    videos = n + draw(st.integers(0, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    steps = draw(st.sampled_from([1, 2, 5, 1000]))
    judge = rng.integers(0, steps + 1, (videos, 3)) / steps
    mixed = draw(st.floats(-2, 2)) * judge[:n]
    human = np.clip(mixed + rng.integers(0, steps + 1, (n, 3)) / steps, 0, 1)
    gaps = rng.random((videos, 3)) < draw(st.sampled_from([0, 0.2, 0.9]))
    judge[gaps] = np.nan
    human[gaps[:n]] = np.nan
    return judge, human


@given(studies())
@settings(max_examples=150, deadline=None)
def test_interval_is_never_much_wider_than_of_human_labels_alone(
    study: tuple[Floats, Floats],
) -> None:
    judge, human = study
    found = calibrate(judge, human, range(len(human)))
    n = found.labelled
    with np.errstate(invalid="ignore", divide="ignore"):
        cost = stats.t.ppf(0.975, n - 2) / stats.t.ppf(0.975, n - 1) * np.sqrt((n - 1) / (n - 2))
        wide = found.high - found.low <= cost * (found.human_high - found.human_low) + 1e-12
        same = found.same_high - found.same_low <= found.high - found.low + 1e-12
    sure = ~np.isnan(found.low)
    assert wide[sure].all()
    assert same[sure].all()
    assert (sure == np.array([reason is None for reason in found.reasons])).all()
    assert ((found.slope[sure] >= 0) & (found.slope[sure] <= 1)).all()


@given(studies(), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_order_of_videos_and_columns_does_not_matter(
    study: tuple[Floats, Floats], random: np.random.RandomState
) -> None:
    judge, human = study
    found = calibrate(judge, human, range(len(human)))
    order = np.arange(len(judge))
    random.shuffle(order)
    place = np.argsort(order)[: len(human)]
    turned = calibrate(judge[order][:, ::-1], human[:, ::-1], place)
    np.testing.assert_allclose(values(turned)[:, ::-1], values(found), atol=1e-7, rtol=1e-7)
    assert turned.reasons[::-1] == found.reasons


@given(studies())
@settings(max_examples=60, deadline=None)
def test_a_column_is_of_its_own_videos_alone(study: tuple[Floats, Floats]) -> None:
    judge, human = study
    whole = calibrate(judge, human, range(len(human)))
    for column in range(3):
        there = ~np.isnan(judge[:, column])
        labelled = there[: len(human)]
        one = calibrate(judge[there, column], human[labelled, column], range(int(labelled.sum())))
        np.testing.assert_allclose(
            values(one)[:, 0], values(whole)[:, column], atol=1e-9, rtol=1e-9
        )
        assert one.reasons == (whole.reasons[column],)


@given(studies())
@settings(max_examples=60, deadline=None)
def test_one_stratum_is_none_and_a_scale_may_change(study: tuple[Floats, Floats]) -> None:
    judge, human = study
    found = calibrate(judge, human, range(len(human)))
    one = calibrate(judge, human, range(len(human)), strata=[0] * len(human), sizes=[len(judge)])
    np.testing.assert_allclose(values(one), values(found), atol=1e-12)
    shifted = calibrate(judge + 5, human - 3, range(len(human)))
    np.testing.assert_allclose(shifted.value, found.value - 3, atol=1e-9)
    np.testing.assert_allclose(shifted.slope, found.slope, atol=1e-7)


def test_perfect_judge_gives_its_own_mean_without_an_interval() -> None:
    judge, human = world(judge="perfect")
    found = calibrate(judge[:POOL], human[:100], range(100))
    np.testing.assert_allclose(found.value, np.nanmean(judge[:POOL], axis=0))
    assert set(found.reasons) == {"the judge's scores leave no residual variance"}
    assert np.isnan(found.low).all()
    assert np.isnan(found.same_low).all()
    assert not np.isnan(found.human_low).any()
    np.testing.assert_allclose(found.worth, found.videos)


def test_constant_judge_leaves_the_human_labels_alone() -> None:
    _, human = world()
    found = calibrate(np.full((POOL, 15), 0.7), human[:40], range(40))
    np.testing.assert_allclose(found.value, np.nanmean(human[:40], axis=0))
    assert not found.slope.any()
    np.testing.assert_allclose(found.worth, found.labelled)


def test_useless_judge_moves_the_human_mean_by_little() -> None:
    judge, human = world(judge="useless")
    found = calibrate(judge[:POOL], human[:200], range(200))
    np.testing.assert_allclose(found.value, found.human, atol=0.01)
    assert (found.worth < 1.15 * found.labelled).all()


def test_judge_that_is_the_opposite_is_ignored() -> None:
    _, human = world()
    found = calibrate(1 - human[:POOL], human[:50], range(50))
    assert not found.slope.any()
    np.testing.assert_allclose(found.value, found.human)


def test_line_is_not_extended_far_beyond_the_labelled_videos() -> None:
    judge = np.linspace(0, 1, 300)
    human = 0.4 + 0.5 * judge[:12] + np.tile([0.0, 0.02], 6)
    found = calibrate(judge, human, range(12))
    assert found.slope[0] == 0
    assert found.value[0] == pytest.approx(human.mean())


def test_all_videos_labelled_need_no_judge() -> None:
    judge, human = world()
    found = calibrate(judge[:50], human[:50], range(50))
    np.testing.assert_allclose(found.value, found.human)
    np.testing.assert_allclose(found.same_low, found.value)
    np.testing.assert_allclose(found.worth, found.labelled)


def test_bounds_hold_for_every_end() -> None:
    judge = np.linspace(0.9, 1.0, 30)
    human = np.where(np.arange(12) == 3, 0.5, 1.0)
    free = calibrate(judge, human, range(12))
    kept = calibrate(judge, human, range(12), bounds=(0.0, 1.0))
    assert free.high[0] > 1
    assert kept.high[0] == 1
    assert kept.low[0] == free.low[0]


@pytest.mark.parametrize(
    ("judge", "human", "reason"),
    [
        (np.arange(30.0), np.arange(9.0), "9 labelled videos are too few"),
        (np.arange(30.0), np.arange(1.0), "1 labelled video is too few"),
        (np.arange(30.0), np.full(12, 0.3), "the human scores are all equal"),
        (
            np.arange(30.0) % 12,
            np.arange(12.0) / 3,
            "the judge's scores leave no residual variance",
        ),
        (np.full(30, 0.1), np.arange(12.0), None),
    ],
)
def test_reason_says_why_there_is_no_interval(
    judge: Floats, human: Floats, reason: str | None
) -> None:
    found = calibrate(judge, human, range(len(human)))
    (given,) = found.reasons
    assert (given or "").startswith(reason or "")
    assert (given is None) == (reason is None) == (not np.isnan(found.low[0]))
    assert np.isnan(found.value[0]) == (len(human) < 3)


WRONG = [
    ((np.zeros(5), np.zeros(2), [0]), "needs its own row"),
    ((np.zeros(5), np.zeros(2), [0, 0]), "needs its own row"),
    ((np.zeros(5), np.zeros(2), [0, 5]), "rows from 0 to 4"),
    ((np.zeros(5), np.zeros(2), [-1, 0]), "rows from 0 to 4"),
    ((np.zeros((5, 2)), np.zeros((2, 3)), [0, 1]), "the same columns"),
    ((np.zeros(5), np.zeros(2), [0, 1], [0], [3]), "a stratum from 0"),
    ((np.zeros(5), np.zeros(2), [0, 1], [0, -1], [3]), "a stratum from 0"),
    ((np.zeros(5), np.zeros(2), [0, 1], [0, 1], [3]), "its number of videos"),
    ((np.zeros(5), np.zeros(2), [0, 1], [0, 1], [3, 0]), "its number of videos"),
]


@pytest.mark.parametrize(("given", "message"), WRONG)
def test_shapes_that_do_not_fit_are_refused(given: tuple[object, ...], message: str) -> None:
    judge, human, rows, strata, sizes = (*given, None, None)[:5]
    with pytest.raises(ValueError, match=message):
        calibrate(judge, human, rows, strata=strata, sizes=sizes)  # type: ignore[arg-type]


def test_planned_number_of_labels_gives_the_width_that_was_asked_for() -> None:
    judge, human = (of[:POOL, COLUMNS.index("all.f1")] for of in world())
    pilot = calibrate(judge, human[:100], range(100))
    needed = labels_needed(0.03, pilot.residual[0], pilot.explained[0], POOL)
    assert needed is not None
    found = calibrate(judge, human[:needed], range(needed))
    assert (found.high - found.low)[0] / 2 == pytest.approx(0.03, rel=0.15)
    assert FEWEST_LABELLED < FEW_LABELLED < needed < POOL


def test_range_of_a_variance_covers_it() -> None:
    rng = np.random.default_rng(0)
    low, high = np.array(
        [variance_range(rng.normal(size=20).var(ddof=1), 19) for _ in range(2_000)]
    ).T
    assert ((low <= 1) & (high >= 1)).mean() == pytest.approx(0.95, abs=0.015)
