import ast
import re
from pathlib import Path

import capeval

PACKAGE = Path(capeval.__file__).parent
# Seconds of a video that is playing are not results.
ROUNDING = {"reporting/report.js"}
ROOMS = ("cli", "comparing", "correlation", "evaluating", "mcq", "metrics", "rating", "reporting")


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
        for room in (*ROOMS, "runs", "scoring", "trust")
        for path in sorted((PACKAGE / room).rglob("*.*"))
        if path.suffix in (".py", ".js", ".jinja")
        and (name := path.relative_to(PACKAGE).as_posix()) not in ROUNDING
        and (specs := roundings(path))
    }
    assert found == {}
