"""The line from one judge's scores of systems to another's: fits, intervals and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats as scipy_stats

from capeval.stats.bridge_line import FittedLine, Prediction, fit_line, predict

Floats = NDArray[np.float64]

_CONFUSION = {
    "old": np.array([[0.93, 0.05, 0.02], [0.04, 0.92, 0.04], [0.03, 0.12, 0.85]]),
    "new": np.array([[0.88, 0.09, 0.03], [0.08, 0.88, 0.04], [0.06, 0.16, 0.78]]),
}


def world(rng: np.random.Generator, systems: int, videos: int) -> tuple[Floats, Floats]:
    """F1 of systems by two judges, (systems, videos) each: 17 elements, effects of videos."""
    sizes = rng.poisson(13, videos) + 4
    inside = np.arange(sizes.max()) < sizes[:, None]
    weights = rng.choice([1, 2, 3], p=[0.3, 0.4, 0.3], size=inside.shape) * inside
    quality = np.append(np.linspace(-1.2, 1.0, systems - 1), rng.uniform(-1.2, 1.0))
    logit = quality[:, None] + rng.normal(0, 0.6, videos) + rng.normal(0, 0.3, (systems, videos))
    entailed = 1 / (1 + np.exp(-logit))[..., None] * np.ones(inside.shape)
    draw = rng.random(entailed.shape)
    truth = np.where(draw < entailed, 0, np.where(draw < entailed + 0.2 * (1 - entailed), 2, 1))

    def f1(judge: str) -> Floats:
        chances = _CONFUSION[judge][truth]
        chances[..., 0] *= np.exp(rng.normal(0, 0.4, videos))[:, None]
        ends = (chances / chances.sum(-1, keepdims=True)).cumsum(-1)
        labels = (rng.random(truth.shape)[..., None] > ends[..., :2]).sum(-1)
        yes, no = ((weights * (labels == which)).sum(-1) for which in (0, 2))
        found: Floats = 2 * yes / (yes + no + weights.sum(-1))
        return found

    return f1("old"), f1("new")


def straight(k: int = 6, n: int = 60, seed: int = 0, noise: float = 0.03) -> tuple[Floats, Floats]:
    """Scores whose systems lie on the line 0.1 + 0.8 x, but for noise."""
    rng = np.random.default_rng(seed)
    new = np.clip(rng.normal(np.linspace(0.3, 0.7, k)[:, None], 0.1, (k, n)), 0, 1)
    return 0.1 + 0.8 * new + rng.normal(0, noise, (k, n)), new


def rules(fitted: FittedLine | Prediction) -> list[str]:
    return [refusal.rule for refusal in fitted.refusals]


def test_the_line_and_the_half_width_are_those_of_the_formula() -> None:
    old, new = straight()
    line = fit_line(old, new).line
    assert line is not None
    y, x, (k, n) = old.mean(axis=1), new.mean(axis=1), old.shape
    slope, intercept = np.polyfit(x, y, 1)
    assert (line.slope, line.intercept) == pytest.approx((slope, intercept))
    s_res = math.sqrt(((y - intercept - slope * x) ** 2).sum() / (k - 2))
    gap = old - new
    rest = gap - gap.mean(axis=1)[:, None] - gap.mean(axis=0) + gap.mean()
    ms_res = (rest**2).sum() / (k - 1) / (n - 1)
    ms_video = k * gap.mean(axis=0).var(ddof=1)
    shared = max(0.0, (ms_video - ms_res) / k) * (1 / n - 1 / 500)
    t = scipy_stats.t.ppf(0.975, k - 2)
    spread = 1 + 1 / k + (0.45 - x.mean()) ** 2 / ((x - x.mean()) ** 2).sum()
    half = math.sqrt((t * max(s_res, math.sqrt(ms_res / n))) ** 2 * spread + 4 * shared)
    assert line.half_width(0.45, 500) == pytest.approx(half)
    found = predict(fit_line(old, new), 0.45, videos=500)
    assert (found.same_low, found.same_high) == pytest.approx(
        (found.value - half, found.value + half)  # type: ignore[operator]
    )


def test_a_line_covers_new_systems_and_is_seldom_refused() -> None:
    rng = np.random.default_rng(3)
    covered, misfits, halves = [], [], []
    for _ in range(150):
        old, new = world(rng, 6, 300)
        few = rng.choice(300, 100, replace=False)
        fitted = fit_line(old[:5, few], new[:5, few])
        assert fitted.line is not None
        x = float(new[5].mean())
        half = fitted.line.half_width(x, 300)
        covered.append(abs(fitted.line.predict(x) - old[5].mean()) <= half)
        misfits.append("misfit" in rules(fitted))
        halves.append(half)
    assert np.mean(covered) >= 0.93
    assert np.mean(misfits) <= 0.10
    assert 0.03 <= np.median(halves) <= 0.06


def test_one_system_off_by_six_standard_errors_is_refused() -> None:
    rng = np.random.default_rng(4)
    refused = 0
    for _ in range(100):
        old, new = world(rng, 5, 100)
        system = int(rng.integers(5))
        error = fit_line(old, new).left_out[system].error
        assert error is not None
        old[system] += 6 * error * rng.choice([-1, 1])
        fitted = fit_line(old, new)
        refused += "misfit" in rules(fitted)
    assert refused >= 95


@pytest.mark.parametrize("system", range(6))
def test_a_left_out_system_is_compared_with_the_line_of_the_others(system: int) -> None:
    old, new = straight(n=50, seed=7)
    old += np.random.default_rng(1).normal(0, 0.1, 50)

    def shift(videos: NDArray[np.intp]) -> float:
        y, x = old[:, videos].mean(axis=1), new[:, videos].mean(axis=1)
        others = np.arange(6) != system
        slope, intercept = np.polyfit(x[others], y[others], 1)
        return float(y[system] - intercept - slope * x[system])

    every = np.arange(50)
    found = fit_line(old, new).left_out[system]
    assert found.shift == pytest.approx(shift(every))
    # The jackknife over videos lets the slope move too.
    parts = np.array([shift(np.delete(every, video)) for video in every])
    error = math.sqrt(49 / 50 * ((parts - parts.mean()) ** 2).sum())
    assert found.error == pytest.approx(error, rel=0.15)
    assert found.p == pytest.approx(
        2 * scipy_stats.t.sf(abs(shift(every)) / (found.error or 0.0), 49)
    )


def test_the_refusal_names_the_system_and_its_figures() -> None:
    old, new = straight()
    old[2] += 0.2
    refusals = [one for one in fit_line(old, new).refusals if one.rule == "misfit"]
    assert 2 in [one.figures["system"] for one in refusals]
    worst = max(refusals, key=lambda one: abs(float(one.figures["shift"])))
    assert worst.figures["system"] == 2
    assert float(worst.figures["shift"]) == pytest.approx(0.2, abs=0.02)
    assert 0 < float(worst.figures["error"]) < 0.02
    assert float(worst.figures["p"]) < 0.001


def test_a_small_shift_is_scatter_however_significant() -> None:
    old, new = straight(n=4000)
    old[2] += 0.02
    fitted = fit_line(old, new)
    assert min(one.adjusted or 0.0 for one in fitted.left_out) < 0.001
    assert rules(fitted) == []
    assert fitted.line is not None
    # The half-width contains it.
    assert fitted.line.half_width(0.5, 4000) > 0.015


def test_shared_effects_of_videos_do_not_refuse_a_line() -> None:
    old, new = straight(n=40)
    old += np.random.default_rng(1).normal(0, 0.2, 40)
    assert rules(fit_line(old, new)) == []


def test_sampled_videos_widen_the_interval_by_the_shared_effect() -> None:
    old, new = straight(n=40)
    old += np.random.default_rng(1).normal(0, 0.2, 40)
    line = fit_line(old, new).line
    assert line is not None
    assert line.half_width(0.5, 40) < line.half_width(0.5, 60) < line.half_width(0.5, math.inf)


@pytest.mark.parametrize(
    ("k", "n", "expected"),
    [
        (4, 60, ["systems"]),
        (5, 29, ["videos"]),
        (5, 30, []),
        (4, 29, ["systems", "videos"]),
        (2, 60, ["systems"]),
        (1, 1, ["systems", "videos"]),
        (0, 60, ["systems"]),
        (6, 0, ["videos"]),
    ],
)
def test_few_anchors_or_videos_are_refused(k: int, n: int, expected: list[str]) -> None:
    old, new = straight(6, 60)
    assert rules(fit_line(old[:k, :n], new[:k, :n]))[: len(expected)] == expected


DEGENERATE = {
    "one new score": (np.full((5, 40), 0.5), np.full((5, 40), 0.4)),
    "one new score but for one system": (
        np.tile(np.linspace(0, 1, 40), (5, 1)),
        np.repeat([[0.4], [0.4], [0.4], [0.4], [0.6]], 40, axis=1),
    ),
    "no score": (np.full((5, 40), np.nan), np.full((5, 40), np.nan)),
    "no video in all": (
        np.where(np.eye(5, 40) > 0, np.nan, 0.5),
        np.where(np.arange(40) % 5 == np.arange(5)[:, None], np.nan, 0.5),
    ),
    "one video": (np.arange(5.0)[:, None] / 5, np.arange(5.0)[:, None] / 6),
    "nothing": (np.empty((0, 0)), np.empty((0, 0))),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_scores_are_refused_with_a_reason(name: str) -> None:
    old, new = DEGENERATE[name]
    with np.errstate(all="raise"):
        fitted = fit_line(old, new)
        found = predict(fitted, 0.5, videos=100)
    assert rules(fitted)
    assert found.value is None
    assert rules(found)
    for refusal in (*fitted.refusals, *found.refusals):
        assert all(math.isfinite(float(value)) for value in refusal.figures.values())


def test_only_videos_that_all_systems_share_are_used() -> None:
    old, new = straight(6, 60)
    old[0, :20] = np.nan
    new[3, 50:] = np.nan
    fitted = fit_line(old, new)
    assert fitted.videos == 30
    assert fitted.line == fit_line(old[:, 20:50], new[:, 20:50]).line


@pytest.mark.parametrize(
    ("new", "videos", "error", "expected"),
    [
        (0.5, 100, 0.08, []),
        (None, 100, 0.08, ["target"]),
        (0.5, 0, 0.08, ["target"]),
        (0.5, 100, 0.001, ["width"]),
        (0.95, 100, 0.5, ["range"]),
        (0.05, 100, 0.5, ["range"]),
        (0.85, 100, 0.5, []),
    ],
)
def test_a_target_is_refused_by_rule(
    new: float | None, videos: int, error: float, expected: list[str]
) -> None:
    found = predict(fit_line(*straight()), new, videos=videos, max_error=error)
    assert rules(found) == expected
    assert (found.value is None) == bool(expected)


def test_a_prediction_that_is_no_score_is_refused() -> None:
    rng = np.random.default_rng(0)
    new = np.repeat(np.linspace(0.3, 0.5, 6)[:, None], 60, axis=1)
    old = 3 * (new - 0.3) + rng.normal(0, 0.01, (6, 60))
    found = predict(fit_line(old, new), 0.22, videos=60, max_error=1)
    assert rules(found) == ["beyond"]
    assert float(found.refusals[0].figures["value"]) < 0


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match="shape"):
        fit_line(np.zeros((5, 3)), np.zeros((5, 4)))


scores = st.integers(5, 8).flatmap(
    lambda k: st.lists(st.floats(0.05, 0.95), min_size=k, max_size=k, unique=True)
)


@settings(max_examples=50, deadline=None)
@given(means=scores, seed=st.integers(0, 2**32 - 1))
def test_a_judge_bridged_to_itself_keeps_its_scores(means: list[float], seed: int) -> None:
    new = np.clip(np.random.default_rng(seed).normal(np.c_[means], 0.05, (len(means), 40)), 0, 1)
    fitted = fit_line(new, new)
    if fitted.line is None or np.ptp(new.mean(axis=1)) < 1e-3:
        return
    assert fitted.line.slope == pytest.approx(1)
    assert fitted.line.intercept == pytest.approx(0, abs=1e-9)
    x = float(new.mean())
    found = predict(fitted, x, videos=40)
    assert found.value == pytest.approx(x)
    assert found.same_high == pytest.approx(x, abs=1e-6)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), order=st.permutations(range(6)), columns=st.randoms())
def test_the_order_of_systems_and_videos_changes_nothing(
    seed: int, order: list[int], columns: object
) -> None:
    old, new = straight(seed=seed, n=35)
    places = np.random.default_rng(hash(repr(columns)) % 2**32).permutation(35)
    one = fit_line(old, new)
    other = fit_line(old[order][:, places], new[order][:, places])
    assert one.line is not None
    assert other.line is not None
    assert other.line.slope == pytest.approx(one.line.slope)
    assert other.line.half_width(0.5, 99) == pytest.approx(one.line.half_width(0.5, 99))
    assert sorted(rules(one)) == sorted(rules(other))
    assert [other.left_out[at].p for at in range(6)] == pytest.approx(
        [one.left_out[system].p for system in order]
    )


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    slope=st.floats(-2, 3),
    x=st.floats(0, 1),
    videos=st.integers(1, 2000),
)
def test_bridged_scores_are_fractions_or_refused(
    seed: int, slope: float, x: float, videos: int
) -> None:
    old, new = straight(seed=seed, n=31)
    fitted = fit_line(0.5 + slope * (old - 0.5), new)
    found = predict(fitted, x, videos=videos, error=0.01)
    ends = (found.low, found.same_low, found.value, found.same_high, found.high)
    if found.refusals:
        assert ends == (None,) * 5
    else:
        assert all(one is not None and 0 <= one <= 1 for one in ends)
        assert list(ends) == sorted(ends)  # type: ignore[type-var]
