"""Simulations: comparisons of equals reject as often as they say, intervals cover, power is there.

Scores are like TUNA's: F1 of 10 to 29 elements of which a caption has some, with a difficulty of
the video that both runs share. They are bounded, tied and not normal.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from capeval.stats import difference_intervals
from capeval.stats.sign_flips import detectable_difference, sign_flips
from capeval.stats.values import Floats

pytestmark = pytest.mark.slow


def simulate(runs: int, videos: int, *, better: float = 0.0, seed: int) -> Floats:
    """Return (videos, runs) differences of F1, the second run better by `better` on the logits."""
    rng = np.random.default_rng(seed)
    shape = (videos, runs)
    elements = rng.integers(10, 30, size=shape)
    easy = rng.normal(0.2, 0.7, size=shape)

    def f1(shift: float) -> Floats:
        chance = 1 / (1 + np.exp(-(easy + shift + 0.5 * rng.normal(size=shape))))
        entailed = rng.binomial(elements, chance)
        contradicted = rng.binomial(elements - entailed, 0.2)
        return np.asarray(2 * entailed / (entailed + contradicted + elements))

    return f1(better) - f1(0.0)


@pytest.mark.parametrize("videos", [40, 100])
def test_p_of_equals_is_small_as_often_as_it_says(videos: int) -> None:
    p = sign_flips(simulate(1_500, videos, seed=videos), resamples=499, seed=1)
    # Three standard errors of a share of 1,500.
    for level in (0.05, 0.1, 0.5):
        error = 3 * np.sqrt(level * (1 - level) / 1_500)
        assert np.mean(p <= level) == pytest.approx(level, abs=error)


@cache
def true_difference(better: float) -> float:
    return float(simulate(1_000, 1_000, better=better, seed=7).mean())


@pytest.mark.parametrize(("videos", "share"), [(8, 0.964), (40, 0.953), (100, 0.948)])
@pytest.mark.parametrize("better", [0.0, 0.4])
def test_intervals_cover_the_true_difference(videos: int, share: float, better: float) -> None:
    truth = true_difference(better)
    values = simulate(1_000, videos, better=better, seed=videos)
    low, high = difference_intervals(values)
    covered = np.mean((low <= truth) & (truth <= high))
    # Three standard errors of a share of 1,000.
    assert covered == pytest.approx(share, abs=0.021)


@pytest.mark.parametrize(("videos", "less"), [(40, 0.02), (100, 0.01)])
def test_what_is_detectable_is_found_four_times_in_five(videos: int, less: float) -> None:
    sd = simulate(1_000, 1_000, seed=3).std()
    gain = detectable_difference(float(sd), videos)
    values = simulate(2_000, videos, seed=videos) + gain
    found = np.mean(sign_flips(values, resamples=499, seed=1) <= 0.05)
    # The sd of few videos is itself a guess, which costs as much as Student's t has heavier tails.
    assert found == pytest.approx(0.8 - less, abs=0.03)
