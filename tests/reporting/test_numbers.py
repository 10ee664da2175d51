from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import capeval
from capeval.reporting.numbers import (
    NOTHING,
    confidence,
    interval,
    money,
    p_equation,
    percent,
    thousands,
)
from capeval.scoring import Estimate
from capeval.scoring.comparison_result import Difference

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


def test_confidence_is_words_of_a_sentence() -> None:
    gap = Difference(first=0.5, second=0.6, value=0.1, low=-0.01, high=0.2, p=0.5)
    assert confidence(gap) == "95% CI -1.0 to 20.0"
    assert confidence(gap, negative=True) == "95% CI -20.0 to 1.0"
    assert confidence(gap.model_copy(update={"low": None})) == "no interval: fewer than 8 videos"
    assert p_equation(0.5) == "p = 0.500"


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


PACKAGE = Path(capeval.__file__).parent
# Coordinates of drawings and defaults of options are not results.
ROUNDING = {"reporting/numbers.py", "reporting/report/svg.py", "cli/options.py"}


def roundings(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return re.findall(r"toFixed|toPrecision|Math\.round|FractionDigits|%\.\d|\|\s*round", text)
    specs = (
        ast.unparse(node.format_spec)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None
    )
    return [spec for spec in specs if re.search(r"[efg%]['\"]$", spec)]


def test_no_other_module_rounds_what_it_prints() -> None:
    found = {
        name: specs
        for room in ("reporting", "api", "cli", "scoring", "runs")
        for path in sorted((PACKAGE / room).rglob("*.*"))
        if path.suffix in (".py", ".js", ".jinja")
        and (name := path.relative_to(PACKAGE).as_posix()) not in ROUNDING
        and (specs := roundings(path))
    }
    assert found == {}
