"""What is drawn: the figures' values, told apart without colours, in files that stand alone."""

from __future__ import annotations

import io
import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Sequence
from typing import Any

import matplotlib
import pytest
from PIL import Image

from capeval.errors import MissingExtra
from capeval.reporting.figures import Confusion, Figure, Forest, ForestRow, Grid, Scatter, Series
from capeval.reporting.plots import (
    FORMATS,
    WIDTHS,
    Paper,
    drawn,
    is_empty,
    rendered,
    require_plot_extra,
)
from capeval.reporting.plots.paper import printable, short_names, style_of
from capeval.scoring import Estimate, TypeScores

COLUMN, TEXT = Paper(WIDTHS["column"]), Paper(WIDTHS["text"])
TYPES = ("camera", "scene", "action", "attribute")
HOSTILE = (
    r"$\frac{1}{0}$ $x_2$",
    "<script>alert(1)</script>",
    "_hidden",
    "%d {x} &amp;",
    "two\nlines\x1b[31m",
    "你好",
)


def estimate(value: float | None, spread: float | None = 0.05) -> Estimate:
    if value is None or spread is None:
        return Estimate(value=value, low=None, high=None)
    return Estimate(value=value, low=value - spread, high=value + spread)


def grid(
    kind: Any,
    places: Sequence[str],
    values: dict[str, Sequence[float | None]],
    spread: float | None = 0.05,
) -> Grid:
    return Grid(
        name="g",
        title="t",
        kind=kind,
        axis="Places",
        places=tuple(places),
        series=tuple(
            Series(
                name,
                tuple(
                    None if v is None else cell(estimate(v, spread), 1000 + at)
                    for at, v in enumerate(told)
                ),
            )
            for name, told in values.items()
        ),
    )


def cell(f1: Estimate, n: int = 5) -> TypeScores:
    return TypeScores(precision=f1, recall=f1, f1=f1, n=n)


VALUES: dict[str, Sequence[float | None]] = {
    "one": [0.2, 0.4, None, 0.5],
    "two": [0.3, 0.1, 0.6, 0],
}
FOREST = Forest(
    "forest",
    "t",
    "F1 of $a$ − F1 of b (points)",
    (
        ForestRow("Overall", 0.031, 0.012, 0.05, 0.0004, 1000),
        ForestRow("<=2 events", -0.02, -0.05, 0.01, 0.25, 30, adjusted=True),
        ForestRow("Plants", 0.04, None, None, 1.0, 1, adjusted=True),
        ForestRow("Film", None, None, None, None, 0, adjusted=True),
    ),
)
SCATTER = Scatter(
    "scatter",
    "t",
    "F1 by judge (%)",
    "Human rating",
    {"one": ((10.0, 1.0), (55.5, 4.0)), "two": ((90.0, 5.0),)},
    "Kendall τ-b 0.62, n = 3",
)
CONFUSION = Confusion(
    "confusion", "t", "People", "judge", ("covered", "not covered"), ((9, 1), (0, 0))
)
EVERY: dict[str, Figure] = {
    "radar": grid("radar", TYPES, VALUES),
    "bars": grid("bars", ("a", "b", "c", "d"), VALUES),
    "rows": grid("bars", [f"Domain {n}" for n in range(4)] * 2, {"one": [0.5] * 8}),
    "curves": grid("curves", ("<=2", "3-4", "5-6", ">=9"), VALUES),
    "forest": FOREST,
    "scatter": SCATTER,
    "confusion": CONFUSION,
}


def texts(drawing: Any) -> list[str]:
    from matplotlib.text import Text

    return [text.get_text() for text in drawing.findobj(Text) if text.get_text()]


def lines(axes: Any) -> list[list[tuple[float, float]]]:
    """The drawn lines as points; None where they are broken."""
    return [[(float(x), float(y)) for x, y in line.get_xydata()] for line in axes.lines]


def upright(axes: Any) -> list[tuple[float, float]]:
    """The ends of whiskers."""
    return [
        (round(line[0][1], 6), round(line[1][1], 6))
        for line in lines(axes)
        if len(line) == 2 and line[0][0] == line[1][0]
    ]


def same(found: Sequence[float], expected: Sequence[float | None]) -> bool:
    return len(found) == len(expected) and all(
        math.isnan(a) if b is None else a == pytest.approx(100 * b)
        for a, b in zip(found, expected, strict=True)
    )


def test_radar_draws_each_value_and_leaves_gaps() -> None:
    (axes,) = drawn(EVERY["radar"]).axes
    polygons = [[y for _, y in line] for line in lines(axes) if len(line) == 5]
    for polygon, values in zip(polygons, VALUES.values(), strict=True):
        assert same(polygon, [*values, values[0]])
    assert len(upright(axes)) == 7
    assert (15.0, 25.0) in upright(axes)
    assert [text.get_text() for text in axes.get_xticklabels()] == [
        f"{kind.title()}\nn={size:,}" for kind, size in zip(TYPES, range(1000, 1004), strict=True)
    ]


def test_bars_begin_at_zero_and_none_stands_for_a_gap() -> None:
    (axes,) = drawn(EVERY["bars"], TEXT).axes
    heights = [[bar.get_height() for bar in group] for group in axes.containers]
    assert same(heights[0], [0.2, 0.4, 0.5])
    assert same(heights[1], [0.3, 0.1, 0.6, 0])
    assert axes.get_ylim()[0] == 0
    assert (15.0, 25.0) in upright(axes)
    hatches = {bar.get_hatch() for group in axes.containers for bar in group}
    assert len(hatches) == 2


def test_bars_that_do_not_fit_are_rows_of_points() -> None:
    values: dict[str, Sequence[float | None]] = {
        f"run {n}": [n / 20, None, *[0.5] * 10] for n in range(10)
    }
    drawing = drawn(grid("bars", [f"Domain number {n}" for n in range(12)], values))
    (axes,) = drawing.axes
    points = [line for line in lines(axes) if len(line) == 11]
    assert [line[0][0] for line in points] == pytest.approx([5.0 * n for n in range(10)])
    assert not axes.patches
    width, height = drawing.get_size_inches()
    assert width == pytest.approx(3.3)
    assert height < 11


def test_curves_break_where_there_is_no_value() -> None:
    (axes,) = drawn(EVERY["curves"]).axes
    curves = [[y for _, y in line] for line in lines(axes) if len(line) == 4]
    for curve, values in zip(curves, VALUES.values(), strict=True):
        assert same(curve, values)
    assert len(upright(axes)) == 7
    first, *_, last = [text.get_text() for text in axes.get_xticklabels()]
    assert (first, last) == ("≤2\nn=1,000", "≥9\nn=1,003")
    assert axes.get_xlabel() == "Places"


def test_a_curve_alone_has_a_band() -> None:
    (axes,) = drawn(grid("curves", ("a", "b"), {"one": [0.2, 0.4]})).axes
    (band,) = axes.collections
    corners: Any = band.get_paths()[0].vertices
    heights = {round(float(y), 6) for _, y in corners}
    assert {15.0, 25.0, 35.0, 45.0} <= heights


@pytest.mark.parametrize("kind", ["radar", "bars", "curves"])
def test_without_intervals_there_are_no_whiskers(kind: str) -> None:
    (axes,) = drawn(grid(kind, ("a", "b", "c", "d"), VALUES, spread=None), TEXT).axes
    assert upright(axes) == []


@pytest.mark.parametrize("kind", ["radar", "bars", "rows", "curves"])
def test_what_has_no_interval_is_hollow_and_the_legend_says_so(kind: str) -> None:
    known, few = cell(estimate(0.5, 0.0)), cell(estimate(0.5, None))
    places = TYPES if kind != "rows" else [f"Domain {n}" for n in range(8)]
    values = (known, few, None, *[known] * (len(places) - 3))
    made = Grid(
        "g",
        "t",
        "bars" if kind == "rows" else kind,  # type: ignore[arg-type]
        "x",
        tuple(places),
        (Series("one", values), Series("two", values)),
    )
    drawing = drawn(made, TEXT)
    axes = drawing.axes[0]
    hollow = [
        (len(points), line.get_marker())
        for line, points in zip(axes.lines, lines(axes), strict=True)
        if line.get_markerfacecolor() == "white" and points
    ]
    assert hollow == [(1, "o"), (1, "o" if kind == "bars" else "s")]
    (legend,) = drawing.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "one",
        "two",
        "hollow: no interval, n < 8",
    ]


@pytest.mark.parametrize("kind", ["radar", "curves", "bars"])
@pytest.mark.parametrize("count", [4, 8])
def test_marks_at_0_and_at_100_percent_are_whole(kind: str, count: int) -> None:
    names = [f"Place {n}" for n in range(count)]
    values: dict[str, Sequence[float | None]] = {
        "one": [1.0, 0.0] * (count // 2),
        "two": [0.0, 1.0] * (count // 2),
    }
    for spread in (0.0, None):
        root = ET.fromstring(rendered(grid(kind, names, values, spread), "svg"))  # ours
        clipped = root.findall(".//{*}g[@clip-path]//{*}use")
        assert root.findall(".//{*}use")
        assert clipped == []


def test_forest_draws_differences_in_points() -> None:
    drawing = drawn(FOREST)
    axes: Any = drawing.axes[0]
    whiskers = [line for line in lines(axes) if len(line) == 2 and line[0][0] != line[1][0]]
    assert [(round(a, 6), round(b, 6), y) for (a, y), (b, _) in whiskers] == [
        (1.2, 5.0, 1.0),
        (-5.0, 1.0, 3.0),
    ]
    points = [line for line in axes.lines if line.get_marker() in "sx" and len(line.get_xdata())]
    assert [float(p.get_xydata()[0][0]) for p in points] == pytest.approx([3.1, -2.0, 4.0])
    # Filled where the interval leaves zero out; no square where there is none.
    assert [(p.get_marker(), p.get_markerfacecolor() != "white") for p in points] == [
        ("s", True), ("s", False), ("x", True)
    ]  # fmt: skip
    told = texts(drawing)
    assert {"<0.001", "0.250", "1.000", "–", "≤2 events (n=30)", "Film (n=0)"} <= set(told)
    assert drawing.get_supxlabel() == FOREST.axis


def test_forest_says_which_p_is_adjusted_and_what_its_marks_are() -> None:
    drawing = drawn(FOREST)
    (beside,) = drawing.axes[0].child_axes
    ticks = zip(beside.get_yticks(), beside.get_yticklabels(), strict=True)
    assert sorted((float(y), label.get_text()) for y, label in ticks) == [
        (0, "p"), (1, "<0.001"), (2, "p (Holm)"), (3, "0.250"), (4, "1.000"), (5, "–")
    ]  # fmt: skip
    (legend,) = drawing.legends
    told = [text.get_text() for text in legend.get_texts()]
    assert told == ["interval without 0", "interval with 0", "no interval"]
    (legend,) = drawn(Forest("forest", "t", "x", FOREST.rows[:1])).legends
    assert [text.get_text() for text in legend.get_texts()] == ["interval without 0"]


def test_forest_of_no_differences_has_ticks_of_points() -> None:
    same = Forest("forest", "t", "x", (ForestRow("Overall", 0.0, 0.0, 0.0, 1.0, 9),))
    (axes,) = drawn(same).axes
    low, high = axes.get_xlim()
    assert low <= -1 < 1 <= high


def test_scatter_draws_each_caption() -> None:
    drawing = drawn(SCATTER)
    (axes,) = drawing.axes
    assert lines(axes) == [list(points) for points in SCATTER.points.values()]
    assert {"Kendall τ-b 0.62, n = 3", "F1 by judge (%)", "Human rating", "one", "two"} <= set(
        texts(drawing)
    )
    assert axes.get_xlim() == (0, 100)


def test_confusion_shows_counts_and_shares_of_rows() -> None:
    drawing = drawn(CONFUSION)
    axes: Any = drawing.axes[0]
    assert [text.get_text() for text in axes.texts] == ["9\n90.0%", "1\n10.0%", "0", "0"]
    assert axes.images[0].get_array().tolist() == [[0.9, 0.1], [0, 0]]
    assert {"covered\nn=10", "not covered\nn=0", "People", "judge"} <= set(texts(drawing))


@pytest.mark.parametrize("kind", ["radar", "bars", "curves"])
@pytest.mark.parametrize("paper", [COLUMN, TEXT], ids=["column", "text"])
@pytest.mark.parametrize("count", [1, 9, 25])
def test_the_legend_names_every_run(kind: str, paper: Paper, count: int) -> None:
    names = [*HOSTILE, *(f"run {n}" for n in range(25))][:count]
    drawing = drawn(
        grid(kind, ("a", "b", "c", "d"), {n: [0.1, 0.2, 0.3, 0.4] for n in names}), paper
    )
    (legend,) = drawing.legends
    assert [text.get_text() for text in legend.get_texts()] == short_names(names)
    assert not any(text.get_parse_math() for text in legend.get_texts())
    with matplotlib.rc_context({"text.parse_math": False}):
        drawing.draw_without_rendering()
    box = legend.get_window_extent().transformed(drawing.dpi_scale_trans.inverted())
    width, height = drawing.get_size_inches()
    assert width == pytest.approx(paper.square if kind == "radar" else paper.width)
    assert box.x0 >= -0.02
    assert box.x1 <= width + 0.02
    assert box.y0 >= -0.02
    assert box.y1 <= height + 0.02
    axes: Any = drawing.axes[0]
    assert not box.overlaps(axes.get_tightbbox().transformed(drawing.dpi_scale_trans.inverted()))


def test_neighbours_differ_in_more_than_colour() -> None:
    styles = [style_of(place) for place in range(63)]
    assert len({(style.colour, style.marker) for style in styles}) == 63
    assert len({(style.colour, style.hatch) for style in styles}) == 63
    for place in range(62):
        one, two = styles[place], styles[place + 1]
        assert len({one.colour, two.colour}) == len({one.marker, two.marker}) == 2
        assert one.dash != two.dash
        assert one.hatch != two.hatch


def test_long_names_keep_both_ends_and_stay_apart() -> None:
    long = ["model-" + "x" * 60 + f"-{end}" for end in ("2024-05-13", "2024-08-06")]
    told = short_names(long)
    assert all(len(name) <= 26 for name in told)
    assert [name[-10:] for name in told] == ["2024-05-13", "2024-08-06"]
    middle = ["model-" + "x" * 30 + end + "x" * 30 for end in "ab"]
    assert len(set(short_names(middle))) == 2


@pytest.mark.parametrize(
    ("text", "shown"),
    [("two\nlines", "two lines"), ("\x1b[31m", r"\x1b[31m"), ("你", r"\u4f60"), ("é τ ≤", "é τ ≤")],
)
def test_what_the_font_lacks_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", EVERY)
def test_the_same_figure_is_the_same_bytes(name: str, form: Any) -> None:
    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "none", "pdf.fonttype": 3}):
        first = rendered(EVERY[name], form)
    assert first == rendered(EVERY[name], form)


def test_the_users_own_settings_stay_as_they_were() -> None:
    with matplotlib.rc_context({"font.size": 30, "text.parse_math": True}):
        before = dict(matplotlib.rcParams)
        rendered(EVERY["bars"], "pdf")
        assert dict(matplotlib.rcParams) == before


def test_pyplot_is_never_loaded() -> None:
    code = (
        "import sys\n"
        "from capeval.reporting.figures import Confusion\n"
        "from capeval.reporting.plots import rendered\n"
        "rendered(Confusion('c', '', 'r', 'c', ('a',), ((1,),)), 'png')\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", EVERY)
def test_pdf_embeds_its_fonts_and_no_moment(name: str) -> None:
    data = rendered(EVERY[name], "pdf")
    fonts = re.findall(rb"/BaseFont /[A-Z]{6}\+(\w+)", data)
    assert set(fonts) == {b"DejaVuSans"}
    assert len(re.findall(rb"/FontFile2", data)) >= 1
    assert b"/Type3" not in data
    assert b"CreationDate" not in data
    streams = re.findall(rb"/FontFile2 (\d+) 0 R", data)
    for number in streams:
        start = re.search(rb"\n%s 0 obj\n.*?stream\r?\n" % number, data, re.DOTALL)
        assert start
        font = zlib.decompressobj().decompress(data[start.end() :])
        assert font[:4] == b"\x00\x01\x00\x00", "a TrueType font"


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("paper", [COLUMN, TEXT], ids=["column", "text"])
def test_svg_is_well_formed_and_refers_to_nothing(name: str, paper: Paper) -> None:
    data = rendered(EVERY[name], "svg", paper)
    root = ET.fromstring(data)
    square = name in ("radar", "scatter", "confusion")
    width = paper.square if square else paper.width
    assert root.get("width") == f"{round(72 * width, 2):g}pt"
    assert b"<!DOCTYPE" not in data
    tags = {element.tag.split("}")[1] for element in root.iter()}
    # Text is outlines: no font is needed to read it.
    assert not tags & {"text", "script", "foreignObject", "a"}
    for element in root.iter():
        for attribute, value in element.attrib.items():
            if attribute.endswith("href"):
                assert value.startswith(("#", "data:"))
    assert set(re.findall(rb"https?://[^\"' ]*", data)) <= {
        b"http://www.w3.org/2000/svg",
        b"http://www.w3.org/1999/xlink",
    }


def test_hostile_names_do_not_become_markup() -> None:
    figure = grid("bars", HOSTILE[:4], {name: [0.1, 0.2, 0.3, 0.4] for name in HOSTILE})
    root = ET.fromstring(rendered(figure, "svg", TEXT))
    assert "script" not in {element.tag.split("}")[1] for element in root.iter()}


@pytest.mark.parametrize("paper", [COLUMN, TEXT], ids=["column", "text"])
def test_png_is_of_paper_size_at_300_dots(paper: Paper) -> None:
    image = Image.open(io.BytesIO(rendered(EVERY["curves"], "png", paper)))
    assert image.width == round(300 * paper.width)
    assert image.info["dpi"] == pytest.approx((300, 300), abs=0.1)
    assert "Software" not in image.info


@pytest.mark.parametrize(
    "figure",
    [
        grid("bars", (), {"one": []}),
        grid("curves", ("a",), {}),
        Grid("g", "t", "radar", "x", TYPES, (Series("one", (cell(estimate(None), 0),) * 4),)),
        Forest("forest", "t", "x", FOREST.rows[3:]),
        Scatter("s", "t", "x", "y", {"one": ()}),
        Confusion("c", "t", "r", "c", ("a",), ((0,),)),
    ],
)
def test_empty_figures_are_known(figure: Figure) -> None:
    assert is_empty(figure)


@pytest.mark.parametrize("name", EVERY)
def test_others_are_not_empty(name: str) -> None:
    assert not is_empty(EVERY[name])


def test_a_missing_extra_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"pip install '\.\[plot\]'"):
        require_plot_extra()
    with pytest.raises(MissingExtra):
        rendered(CONFUSION, "png")
