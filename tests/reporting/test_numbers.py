from __future__ import annotations

import pytest

from capeval.reporting.numbers import NOTHING, cell, interval, money, percent, thousands
from capeval.scoring import Estimate, TypeScores

NONE = Estimate(value=None, low=None, high=None)


def estimate(value: float | None, low: float | None = None, high: float | None = None) -> Estimate:
    return Estimate(value=value, low=low, high=high)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0.0"),
        (1.0, "100.0"),
        (0.5849, "58.5"),
        (0.00049, "0.0"),
        (0.99951, "100.0"),
        (1 / 3, "33.3"),
        (None, NOTHING),
    ],
)
def test_percent_has_one_decimal_and_none_is_not_zero(value: float | None, shown: str) -> None:
    assert percent(value) == shown


def test_cell_is_precision_recall_f1() -> None:
    scores = TypeScores(precision=estimate(0.75), recall=estimate(0.5), f1=estimate(0.6), n=3)
    assert cell(scores) == "75.0/50.0/60.0"
    assert cell(TypeScores(precision=NONE, recall=NONE, f1=NONE, n=0)) == NOTHING


def test_interval_that_is_not_there_is_a_dash() -> None:
    assert interval(estimate(0.5, 0.25, 1.0)) == "50.0 [25.0, 100.0]"
    assert interval(estimate(0.5)) == "50.0 [–]"
    assert interval(NONE) == NOTHING


@pytest.mark.parametrize(
    ("dollars", "shown"),
    [
        (0.0, "$0.00"),
        (0.01234, "$0.0123"),
        (0.1, "$0.10"),
        (12.3, "$12.30"),
        (1234.5, "$1234.50"),
    ],
)
def test_money(dollars: float, shown: str) -> None:
    assert money(dollars) == shown


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0"), (999, "999"), (1000, "1,000"), (1234567, "1,234,567")]
)
def test_thousands(count: int, shown: str) -> None:
    assert thousands(count) == shown
