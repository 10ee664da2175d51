import math
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from matplotlib.container import BarContainer

from capeval.correlation.correlate import CorrelateOptions, read_inputs
from capeval.reporting.figures import (
    Forest,
    ForestRow,
    Grid,
    Scatter,
    drawn,
    figure_file,
    forest_of,
)
from capeval.reporting.plot import scatters_of
from capeval.scoring.scores import Estimate, TypeScores
from tests.comparing.making import example
from tests.scoring.making import annotation, scored

TYPES = ("camera", "scene", "action", "attribute")


def estimate(value: float, spread: float = 0.05) -> Estimate:
    return Estimate(value=value, low=value - spread, high=value + spread)


def cell(f1: Estimate, n: int) -> TypeScores:
    return TypeScores(precision=f1, recall=f1, f1=f1, n=n)


def row(*values: float | None) -> list[TypeScores | None]:
    return [None if v is None else cell(estimate(v), 1000 + n) for n, v in enumerate(values)]


SERIES = {"one": row(0.2, 0.4, None, 0.5), "two": row(0.3, 0.1, 0.6, 0)}
FOREST = Forest(
    "forest",
    "F1 of $a$ − F1 of b (points)",
    (
        ForestRow("overall", estimate(0.031, 0.019), 0.0004, 1000),
        ForestRow("<=2 events", estimate(-0.02, 0.03), 0.25, 30, adjusted=True),
        ForestRow("Film", Estimate(value=None, low=None, high=None), None, 0, adjusted=True),
    ),
)
SCATTER = Scatter(
    "scatter",
    "F1 by judge (%)",
    "Human rating",
    {"one": ((10.0, 1.0), (55.5, 4.0)), "two": ((90.0, 5.0),)},
    "Kendall τ-b 0.62, n = 3",
)


def ends(container: Any) -> list[list[float]]:
    """The ends of error bars along their axis."""
    (lines,) = container[2]
    return [[float(v) for v in (*one[0], *one[1])] for one in lines.get_segments() if len(one)]


def test_bars_have_their_values_and_intervals_and_gaps_stay_gaps() -> None:
    drawing = drawn(Grid(name="g", by="place", ordered=False, places=TYPES, series=SERIES))
    assert [text.get_text() for text in drawing.legends[0].get_texts()] == ["one", "two"]
    axes = drawing.axes[0]
    first, second = (one for one in axes.containers if isinstance(one, BarContainer))
    assert [bar.get_width() for bar in first] == pytest.approx([20, 40, math.nan, 50], nan_ok=True)
    assert all(a.get_y() < b.get_y() for a, b in zip(first, second, strict=True))
    # The bars of a place are above and below its tick.
    assert first[0].get_y() == pytest.approx(-second[0].get_y() - second[0].get_height())
    assert ends(second.errorbar)[2][::2] == pytest.approx([55, 65])
    assert axes.get_yticklabels()[1].get_text() == "scene n=1,001"
    # A bar of 0 cannot be seen.
    shown = [text.get_text() for text in axes.texts]
    assert shown == ["20.0", "40.0", "", "50.0", "30.0", "10.0", "60.0", "0.0"]
    unlike = {"one": row(0.2, 0.4), "two": row(0.4, None)}
    axes = drawn(Grid(name="g", by="", ordered=False, places=TYPES[:2], series=unlike)).axes[0]
    assert axes.get_yticklabels()[1].get_text() == "scene n=0–1,001"


def test_the_rows_of_a_forest_are_the_numbers_of_the_comparison() -> None:
    found = example()
    forest = forest_of(found)
    units = {"visual_characteristic": "", "domain": "", "events": " events"}
    units["elements"] = " elements"
    buckets = {
        f"{name}{unit}": bucket
        for way, unit in units.items()
        for name, bucket in getattr(found.by, way).items()
    }
    assert [row.label for row in forest.rows] == ["overall", *TYPES, *buckets]
    overall = found.overall.all.f1
    assert (forest.rows[0].of, forest.rows[0].p) == (overall, overall.p)
    for row, bucket in zip(forest.rows[5:], buckets.values(), strict=True):
        assert (row.of, row.p, row.n) == (bucket.all.f1, bucket.p_adjusted, bucket.all.n)
    assert [row.adjusted for row in forest.rows] == [False] * 5 + [True] * len(buckets)
    assert forest.axis.startswith(f"F1 of {found.second.name} − F1 of {found.first.name}")


def test_a_scatter_has_a_point_for_each_caption() -> None:
    axes: Any = drawn(SCATTER).axes[0]
    drawn_points = [line.get_xydata().tolist() for line in axes.lines]
    assert drawn_points == [[[10, 1], [55.5, 4]], [[90, 5]]]
    assert axes.get_title(loc="right") == SCATTER.note


@pytest.mark.parametrize("form", ["svg", "pdf"])
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


VIDEOS = (annotation("a", "c3 s1"), annotation("b", "t2 a2"), annotation("c", "s1 s3"))
THREE_WAY = """video_id,element_id,rater,label
a,1.1,ann,entailment
a,1.2,ann,entailment
b,1.1,ann,contradiction
b,1.2,ann,lack
c,1.1,ann,entailment
c,1.2,ann,entailment
a,1.1,bob,entailment
a,1.2,bob,lack
"""


@pytest.mark.usefixtures("alone")
def test_human_scores_are_drawn_with_the_measure_they_are_compared_with() -> None:
    labels = {"a": "+0", "b": "-+", "c": "++"}
    lines = [scored(index, of).model_dump_json() for index, of in labels.items()]
    Path("judgments.jsonl").write_text("\n".join(lines) + "\n")
    # On the raters' own scale, by their mean; then F1 of ann, all of a, and of bob, three of four.
    Path("r.csv").write_text("video_id,human,human_2\na,1,3\nb,4,\nc,5,4\n")
    Path("l.csv").write_text(THREE_WAY)
    for human, y, expected in (
        ("r.csv", "Human rating", [600 / 7, 2.0, 50, 4.0, 100, 4.5]),
        ("l.csv", "F1 by human labels (%)", [600 / 7, 50 * (1 + 6 / 7)]),
    ):
        options = CorrelateOptions(human, {"judge": "judgments.jsonl"}, annotations=VIDEOS)
        ((scatter,), warnings) = scatters_of(read_inputs(options))
        assert (warnings, scatter.x, scatter.y) == ([], "F1 by judge (%)", y)
        flat = [number for point in scatter.points["captions"] for number in point]
        assert flat[: len(expected)] == pytest.approx(expected)
