import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from capeval.stats.calibration import FEWEST_LABELLED, Calibration, calibrate
from tests.stats.calibration_worlds import POOL, VIDEOS, Floats, world

STUDIES = 1_500


def first(human: Floats, labelled: int) -> Floats:
    return np.where(np.arange(len(human)) < labelled, human, np.nan)


@pytest.mark.parametrize(
    ("measure", "labelled", "least"),
    [("f1", 20, 0.935), ("f1", 100, 0.935), ("precision", 20, 0.91)],
)
def test_intervals_cover(measure: str, labelled: int, least: float) -> None:
    judge, human = world()[measure]
    rng = np.random.default_rng(labelled)
    new, same, alone = [], [], []
    for _ in range(STUDIES):
        pool = rng.integers(0, VIDEOS, POOL)
        found = calibrate(judge[pool], first(human[pool], labelled))
        assert found.interval
        assert found.same_videos
        assert found.alone_interval
        new.append(found.interval[0] <= human.mean() <= found.interval[1])
        same.append(found.same_videos[0] <= human[pool].mean() <= found.same_videos[1])
        alone.append(found.alone_interval[0] <= human.mean() <= found.alone_interval[1])
    # A share of 1,500 studies has a standard error of 0.6 points.
    assert least <= np.mean(new) <= 0.97
    assert least <= np.mean(same) <= 0.97
    assert least <= np.mean(alone) <= 0.97


def test_slope_and_ends_are_those_of_a_regression() -> None:
    rng = np.random.default_rng(3)
    judge = rng.random(50)
    human = 0.2 + 0.5 * judge + rng.normal(0, 0.05, 50)
    n, rest = 30, judge.mean()
    found = calibrate(judge, first(human, n))
    line = stats.linregress(judge[:n], human[:n])
    assert found.slope == pytest.approx(line.slope)
    assert found.value == pytest.approx(line.intercept + line.slope * rest)
    assert found.r2 == pytest.approx(line.rvalue**2)
    residual = np.sum((human[:n] - line.intercept - line.slope * judge[:n]) ** 2) / (n - 2)
    leverage = (rest - judge[:n].mean()) ** 2 / np.var(judge[:n])
    same = residual * (1 / n - 1 / 50) * (1 + leverage)
    half = stats.t.ppf(0.975, n - 2) * np.sqrt(same)
    assert found.same_videos == pytest.approx((found.value - half, found.value + half))
    new = same + (residual + line.slope**2 * np.var(judge, ddof=1)) / 50
    half = stats.t.ppf(0.975, n - 2) * np.sqrt(new)
    assert found.interval == pytest.approx((found.value - half, found.value + half))
    alone = stats.t.interval(0.95, n - 1, human[:n].mean(), stats.sem(human[:n]))
    assert found.alone_interval == pytest.approx(alone)


@st.composite
def studies(draw: st.DrawFn) -> tuple[Floats, Floats]:
    """A judge's scores of some videos, and labels of some of these; either may be missing."""
    videos = draw(st.integers(0, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    grid = draw(st.sampled_from([1, 2, 1_000]))
    judge, labels = (rng.integers(0, grid + 1, videos) / grid for _ in range(2))
    judge[rng.random(videos) < 0.1] = np.nan
    labels[rng.random(videos) < draw(st.floats(0, 1))] = np.nan
    return judge, labels


@given(studies())
@settings(max_examples=200, deadline=None)
def test_every_study_has_finite_numbers_or_a_reason(study: tuple[Floats, Floats]) -> None:
    found = calibrate(*study)
    assert found.labelled == int((~np.isnan(study[0]) & ~np.isnan(study[1])).sum())
    assert (found.interval is None) == (found.reason is not None)
    assert (found.interval is None) == (found.same_videos is None)
    assert (found.value is None) == (found.labelled < 3)
    if found.labelled < FEWEST_LABELLED:
        assert found.interval is None
    if found.interval:
        low, high = found.interval
        assert 0 <= low <= (found.value or 0) <= high <= 1
        assert low < high
    order = np.random.default_rng(0).permutation(len(study[0]))
    other = calibrate(study[0][order], study[1][order])
    assert other.value == pytest.approx(found.value)
    assert other.interval == pytest.approx(found.interval)


RNG = np.random.default_rng(0)
JUDGE = RNG.random(200)
LABELS = first(RNG.random(200), 30)


def test_judge_that_says_nothing_or_the_opposite_is_ignored() -> None:
    for judge in (np.full(200, 0.1 + 0.2), np.where(np.isnan(LABELS), 0.9, 1 - LABELS)):
        found = calibrate(judge, LABELS)
        assert found.slope == 0.0
        assert found.value == pytest.approx(np.nanmean(LABELS))


def test_line_is_not_extended_far_beyond_the_labelled_videos() -> None:
    judge = np.concatenate([np.linspace(0.5, 0.51, 30), np.linspace(0, 1, 170)])
    labels = first(np.linspace(0, 1, 200), 30)
    assert calibrate(judge, labels).slope == 1.0


def test_all_videos_labelled_need_no_judge() -> None:
    found = calibrate(JUDGE[:30], LABELS[:30])
    assert found.value == pytest.approx(LABELS[:30].mean())
    assert found.same_videos == pytest.approx((found.value, found.value))


def reason(found: Calibration) -> str | None:
    assert (found.interval is None) == (found.reason is not None)
    return found.reason


def test_reason_says_why_there_is_no_interval() -> None:
    assert reason(calibrate(JUDGE, first(LABELS, 1))) == (
        "1 labelled video is too few: at least 20 are needed"
    )
    same = "the labels are an exact linear function of the judge's scores"
    assert reason(calibrate(JUDGE, first(np.ones(200), 30))) == same
    assert reason(calibrate(JUDGE, first(JUDGE / 2, 30))) == same
