"""What is drawn: the figures' values, with names as they are, in files that stand alone."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Any

import matplotlib
import pytest
from matplotlib.container import BarContainer

from capeval.reporting.drawing import FORMATS, drawn, figure_file
from capeval.reporting.figures import Figure, Forest, ForestRow, Grid, Scatter
from capeval.scoring import Estimate, TypeScores

TYPES = ("camera", "scene", "action", "attribute")


def estimate(value: float | None, spread: float | None = 0.05) -> Estimate:
    if value is None or spread is None:
        return Estimate(value=value, low=None, high=None)
    return Estimate(value=value, low=value - spread, high=value + spread)


def grid(
    places: Sequence[str],
    values: dict[str, Sequence[float | None]],
    *,
    ordered: bool = False,
    spread: float | None = 0.05,
) -> Grid:
    return Grid(
        name="g",
        by="place",
        ordered=ordered,
        places=places,
        series={
            name: [
                None if v is None else cell(estimate(v, spread), 1000 + at)
                for at, v in enumerate(row)
            ]
            for name, row in values.items()
        },
    )


def cell(f1: Estimate, n: int = 5) -> TypeScores:
    return TypeScores(precision=f1, recall=f1, f1=f1, n=n)


VALUES: dict[str, Sequence[float | None]] = {
    "one": [0.2, 0.4, None, 0.5],
    "two": [0.3, 0.1, 0.6, 0],
}
FOREST = Forest(
    "forest",
    "F1 of $a$ − F1 of b (points)",
    (
        ForestRow("Overall", estimate(0.031, 0.019), 0.0004, 1000),
        ForestRow("<=2 events", estimate(-0.02, 0.03), 0.25, 30, adjusted=True),
        ForestRow("Plants", estimate(0.04, None), 1.0, 1, adjusted=True),
        ForestRow("Film", estimate(None), None, 0, adjusted=True),
    ),
)
SCATTER = Scatter(
    "scatter",
    "F1 by judge (%)",
    "Human rating",
    {"one": ((10.0, 1.0), (55.5, 4.0)), "two": ((90.0, 5.0),)},
    "Kendall τ-b 0.62, n = 3",
)
EVERY: dict[str, Figure] = {
    "bars": grid(TYPES, VALUES),
    "lines": grid(("<=2", "3-4", "5-6", ">=9"), VALUES, ordered=True),
    "forest": FOREST,
    "scatter": SCATTER,
}


def points(container: Any) -> list[tuple[float, float]]:
    """The marks of error bars."""
    return [(float(x), float(y)) for x, y in container[0].get_xydata()]


def ends(container: Any) -> list[list[float]]:
    """The ends of error bars along their axis."""
    (lines,) = container[2]
    return [[float(v) for v in (*one[0], *one[1])] for one in lines.get_segments() if len(one)]


def test_bars_have_their_values_and_intervals_and_gaps_stay_gaps() -> None:
    axes = drawn(EVERY["bars"]).axes[0]
    first, second = (one for one in axes.containers if isinstance(one, BarContainer))
    assert [bar.get_width() for bar in first] == pytest.approx([20, 40, math.nan, 50], nan_ok=True)
    assert all(a.get_y() < b.get_y() for a, b in zip(first, second, strict=True))
    assert ends(second.errorbar)[2][::2] == pytest.approx([55, 65])
    assert axes.get_yticklabels()[1].get_text() == "scene n=1,001"
    # A bar of 0 cannot be seen.
    shown = [text.get_text() for text in axes.texts]
    assert shown == ["20.0", "40.0", "", "50.0", "30.0", "10.0", "60.0", "0.0"]


def test_lines_have_their_values_and_intervals_and_gaps_stay_gaps() -> None:
    axes = drawn(EVERY["lines"]).axes[0]
    first, second = axes.containers
    values = [y for _, y in points(first)]
    assert values == pytest.approx([20, 40, math.nan, 50], nan_ok=True)
    assert all(0 < b - a < 1 for (a, _), (b, _) in zip(points(first), points(second), strict=True))
    assert ends(second)[2][1::2] == pytest.approx([55, 65])
    assert axes.get_xticklabels()[0].get_text() == "≤2\nn=1,000"
    assert axes.get_xlabel() == "Place"


def test_what_has_no_interval_is_a_mark_alone() -> None:
    figure = grid(("a",), {"one": [0.5]}, ordered=True, spread=None)
    (container,) = drawn(figure).axes[0].containers
    assert ends(container) == [pytest.approx([0, 50, 0, 50])]


def test_a_forest_has_differences_in_points_and_p() -> None:
    axes = drawn(FOREST).axes[0]
    (container,) = axes.containers
    assert [x for x, _ in points(container)][:3] == pytest.approx([3.1, -2, 4])
    assert ends(container)[0][::2] == pytest.approx([1.2, 5])
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels[0] == "Overall n=1,000 p <0.001"
    assert labels[1].startswith("≤2 events n=30 p (Holm) ")


def test_a_scatter_has_a_point_for_each_caption() -> None:
    axes: Any = drawn(SCATTER).axes[0]
    assert [line.get_xydata().tolist() for line in axes.lines] == [
        [[10, 1], [55.5, 4]],
        [[90, 5]],
    ]
    assert axes.get_title(loc="right") == SCATTER.note


def test_the_legend_has_names_as_they_are_and_keeps_them_apart() -> None:
    long = "a-model-with-a-very-long-name-{}-of-2024-08-06"
    names = [r"$x_2$", "_hidden", "two\nlines", "你好", long.format(1), long.format(2)]
    drawing = drawn(grid(("a",), {name: [0.5] for name in names}))
    shown = [text.get_text() for text in drawing.legends[0].get_texts()]
    assert shown[:2] == names[:2]
    assert "\n" not in shown[2]
    assert shown[3] == r"\u4f60\u597d"
    assert len({*shown}) == len(names)


@pytest.mark.parametrize("form", FORMATS)
def test_files_are_the_same_with_any_settings_and_refer_to_nothing(form: Any) -> None:
    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "none", "pdf.fonttype": 3}):
        before = dict(matplotlib.rcParams)
        data = figure_file(FOREST, form)
        assert dict(matplotlib.rcParams) == before
    assert data == figure_file(FOREST, form)
    assert b"/Type3" not in data
    if form == "svg":
        tags = {element.tag.split("}")[1] for element in ET.fromstring(data).iter()}
        assert not tags & {"text", "script", "foreignObject", "a"}


@pytest.mark.parametrize(
    "figure",
    [
        grid(("a",), {}),
        Grid("g", "x", False, TYPES, {"one": (cell(estimate(None), 0),) * 4}),
        Forest("forest", "x", FOREST.rows[3:]),
        Scatter("s", "x", "y", {"one": ()}),
    ],
)
def test_empty_figures_are_known(figure: Figure) -> None:
    assert figure.empty
    assert not any(one.empty for one in EVERY.values())
