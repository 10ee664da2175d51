"""Charts: what they tell stands in them as text, and nothing in them is markup of the data."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capeval.reporting.figures import Grid, Series
from capeval.reporting.report.charts import Share, chart, shares
from capeval.reporting.report.svg import Scale
from capeval.scoring import Estimate, TypeScores


def cell(value: float | None, n: int = 5) -> TypeScores | None:
    if value is None:
        return None
    one = Estimate(value=value, low=value / 2, high=min(1.0, value * 1.1))
    return TypeScores(precision=one, recall=one, f1=one, n=n)


def grid(
    *values: tuple[float | None, ...],
    counts: Sequence[Sequence[int]] = ((5,) * 6,) * 3,
) -> Grid:
    return Grid(
        name="g",
        title="<b>T</b>",
        kind="rows",
        axis="x",
        places=("p0", "p1", "p2"),
        series=tuple(
            Series(f"run {n}", tuple(cell(v, counts[at][n]) for at, v in enumerate(row)))
            for n, row in enumerate(values)
        ),
    )


def parsed(markup: str) -> ElementTree.Element:
    return ElementTree.fromstring(markup)  # ours


def test_values_are_told_in_words_and_a_gap_is_no_zero() -> None:
    root = parsed(chart(grid((0.2, None, 0.4), (0.1, 0.5, None)), ["A", "B"]))
    described = root.findtext("desc") or ""
    assert root.findtext("title") == "<b>T</b>"
    assert "A run 0: p0 20.0" in described
    assert "p1 no value" in described
    assert len(root.findall(".//*[@class='mark']")) == 4
    assert "0.0" not in [text.text for text in root.iter("text")]


def test_every_run_has_its_own_number_of_videos() -> None:
    counts = [[5, 5], [1000, 4], [1, 1]]
    made = grid((0.2, 0.3, 0.4), (0.1, 0.5, 0.6), counts=counts)
    root = parsed(chart(made, ["A", "B"]))
    words = " ".join(one.text or "" for one in root.iter("text"))
    shown = ["5 videos", "A 1,000, B 4", "1 video"]
    assert all(one in words for one in shown)
    described = root.findtext("desc") or ""
    assert "p1 30.0 [15.0, 33.0] (n 1,000)" in described
    assert "p1 50.0 [25.0, 55.0] (n 4)" in described


def test_of_many_runs_the_range_of_videos_is_shown() -> None:
    made = grid(*[(0.2, 0.3, 0.4)] * 4, counts=[[5, 6, 7, 8]] * 3)
    root = parsed(chart(made, list("ABCD")))
    assert "5–8 videos" in [one.text for one in root.iter("text")]


def test_series_differ_in_more_than_colour() -> None:
    root = parsed(chart(grid(*[(0.1, 0.2, 0.3)] * 4), list("ABCD")))
    marks = root.findall(".//*[@class='mark']")
    assert len({(one.tag, len(one.get("d", "").split("l"))) for one in marks}) >= 3
    letters = {(text.text or "")[0] for text in root.findall("text[@class='value']")}
    assert letters == set("ABCD")


def lone(series: int) -> ElementTree.Element:
    """A chart of which p0 has an interval of no width, p1 none, and p2 no value."""
    one, other = (Estimate(value=0.3, low=end, high=end) for end in (0.3, None))
    known = [TypeScores(precision=e, recall=e, f1=e, n=n) for e, n in ((one, 5), (other, 4))]
    runs = tuple(Series(f"run {n}", (*known, None)) for n in range(series))
    made = Grid("g", "T", "rows", "x", ("p0", "p1", "p2"), runs)
    return parsed(chart(made, list("ABCDEF")[:series]))


@pytest.mark.parametrize("series", [1, 6])
def test_what_has_no_interval_is_hollow(series: int) -> None:
    root = lone(series)
    assert len(root.findall(".//*[@class='mark']")) == series
    assert len(root.findall(".//*[@class='mark hollow']")) == series
    assert len(root.findall(".//*[@class='whisker']")) == series


def test_every_number_of_a_stacked_bar_stands_there_however_narrow() -> None:
    root = parsed(shares("w", "W", [Share("all", 990, 1, 9), Share("scene", 0, 0, 5)]))
    words = [one.text for one in root.iter("text")]
    numbers = ["✓ 99.0", "✗ 0.1", "– 0.9", "✓ 0.0", "✗ 0.0", "– 100.0"]
    assert [one for one in words if one in numbers] == numbers


@given(st.lists(st.floats(0, 1), max_size=5))
def test_scale_holds_all_values_and_few_ticks(values: list[float]) -> None:
    scale = Scale.around(values)
    assert all(scale.low <= value <= scale.high for value in values)
    assert 0 <= scale.low < scale.high <= 1
    assert 4 <= len(scale.ticks) <= 6
    assert scale.ticks[0] == scale.low
