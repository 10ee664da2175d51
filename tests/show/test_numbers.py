from __future__ import annotations

import ast
import re
from pathlib import Path

import capeval
from capeval.reporting.comparison_tables import confidence
from capeval.scoring.comparison_result import Difference
from capeval.show.numbers import (
    p_equation,
)


def test_confidence_is_words_of_a_sentence() -> None:
    gap = Difference(first=0.5, second=0.6, value=0.1, low=-0.01, high=0.2, p=0.5)
    assert confidence(gap) == "95% CI -1.0 to 20.0"
    assert confidence(gap, negative=True) == "95% CI -20.0 to 1.0"
    assert confidence(gap.model_copy(update={"low": None})) == "no interval: fewer than 8 videos"
    assert p_equation(0.5) == "p = 0.500"


PACKAGE = Path(capeval.__file__).parent
# Coordinates of drawings and defaults of options are not results.
ROUNDING = {"show/numbers.py", "reporting/report/svg.py", "cli/options.py"}
# Seconds of a video that is playing.
ROUNDING.add("reporting/report/report.js")


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
