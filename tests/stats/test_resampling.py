"""A statistic of a resample is that of the captions repeated as often as drawn."""

from __future__ import annotations

import numpy as np
import pytest

from capeval.stats.resampling import Counts
from capeval.stats.statistic import STATISTICS
from capeval.stats.values import Floats, Missing
from tests.stats.making import correlate_arrays, counts


def resampled(
    x: Floats, y: Floats, statistic: str, drawn: Counts, *, threshold: float = 0.0
) -> Floats:
    """Return the values of resamples, given as counts."""
    one = STATISTICS[statistic]
    return one.values(one.kind.resampled(x, y, threshold, lambda: [drawn[:20], drawn[20:]]))


@pytest.mark.parametrize("statistic", ["kendall_b", "spearman", "pearson"])
@pytest.mark.parametrize("levels", [3, 1000])
def test_a_resample_is_the_captions_repeated(statistic: str, levels: int) -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(0, levels, 15).astype(float)
    y = x + rng.integers(0, levels, 15)
    drawn = counts(15, 200)
    found = resampled(x, np.asarray(y, dtype=np.float64), statistic, drawn)
    for value, row in zip(found, drawn.astype(int), strict=True):
        expected = correlate_arrays(np.repeat(x, row), np.repeat(y, row), statistic)
        if isinstance(expected, Missing):
            assert np.isnan(value)
        else:
            assert value == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("threshold", [0.0, 2.0])
def test_a_resample_of_acc_eq_leaves_out_own_copies(threshold: float) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 9, (2, 12)).astype(float)
    dx = np.subtract.outer(x, x)
    signs = np.where(np.abs(dx) <= threshold, 0, np.sign(dx))
    right = signs == np.sign(np.subtract.outer(y, y))
    drawn = counts(12, 50)
    found = resampled(x, y, "acc_eq", drawn, threshold=threshold)
    for value, row in zip(found, drawn.astype(int), strict=True):
        names = np.repeat(np.arange(12), row)
        pairs = [right[i, j] for i in names for j in names if i != j]
        assert value == pytest.approx(np.mean(pairs))


def test_a_resample_of_tau_c_leaves_out_own_copies_and_keeps_the_scale() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 9, 12).astype(float), rng.integers(0, 4, 12).astype(float)
    signs = np.sign(np.subtract.outer(x, x)) * np.sign(np.subtract.outer(y, y))
    whole = correlate_arrays(x, y, "kendall_c")
    mean = signs.sum() / (12 * 11)
    drawn = counts(12, 50)
    found = resampled(x, y, "kendall_c", drawn)
    for value, row in zip(found, drawn.astype(int), strict=True):
        names = np.repeat(np.arange(12), row)
        pairs = [signs[i, j] for i in names for j in names if i != j]
        assert value == pytest.approx(np.clip(whole / mean * np.mean(pairs), -1, 1))


def test_no_matrix_of_all_pairs_above_1500() -> None:
    x = np.arange(1501.0)
    with pytest.raises(ValueError, match="too many"):
        resampled(x, x, "kendall_b", counts(1501, 30))
