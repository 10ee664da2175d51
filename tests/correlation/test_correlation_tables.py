"""The tables of `capeval correlate`, held against golden files.

`CAPEVAL_GOLDEN=1 pytest tests/correlation` writes them anew; look at the difference.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
from rich.console import Console

from capeval.correlation.correlations import Correlations
from capeval.correlation.fields import (
    CeilingResult,
    ClassResult,
    ComparisonResult,
    Correlation,
    Elements,
    ElementTable,
    Groups,
    Raters,
    Ties,
)
from capeval.correlation.protocols import PUBLISHED
from capeval.stats.values import Coefficient, GroupingName

GOLDEN = Path(__file__).parent / "golden"
ONE = Groups(used=1, dropped=0)
STATISTICS: tuple[str, ...] = ("kendall_b", "pearson")
BOTH: tuple[GroupingName, ...] = ("pooled", "item")
# Value and rank by metric, out of order; a constant metric has neither.
SIX = {
    "lexical-2:f1": (0.412, 3),
    "clair": (0.731, 1),
    "[red]_bert|score_[/red]": (0.655, 2),
    "meteor": (-0.05, 4),
    "autodq-f1": (0.6549, 2),
    "constant": (None, None),
    "gpt-4o-2024-08-06:f1": (0.731, 1),
}


def correlations(metrics: dict[str, tuple[float | None, int | None]]) -> Correlations:
    return Correlations(
        results=tuple(_results(metrics)),
        comparisons=tuple(_comparisons(metrics)),
        elements=Elements(scale="binary", labels=10, tied=52, tables=tuple(_element_tables())),
        raters=Raters(
            names=("Ann", "Bob", "[i]C"),
            combined="mean",
            alpha=Coefficient(value=0.8123),
            level="interval",
            ceiling=tuple(_ceilings()),
        ),
        warnings=(),
        inputs={"settings": {"protocol": "all"}},
        published=PUBLISHED,
        signature="capeval:correlate|v:0",
    )


def _ceilings() -> Iterator[CeilingResult]:
    for grouping in BOTH:
        for statistic in STATISTICS:
            yield CeilingResult(
                human="score",
                statistic=statistic,
                grouping=grouping,
                value=0.7,
                each={"Ann": 0.7, "Bob": 0.75, "[i]C": None},
            )


def _element_tables() -> Iterator[ElementTable]:
    for by in ("all", "attribute"):
        yield ElementTable(
            truth="human",
            given="lexical-2",
            by=by,
            labels=("covered", "not covered"),
            n=414,
            videos=10,
            confusion=((105.0, 47.0), (18.0, 244.0)),
            kappa=Coefficient(value=0.5, low=0.25, high=0.75),
            classes={
                "covered": ClassResult(precision=0.854, recall=0.691, f1=0.764, support=152),
                "not covered": ClassResult(precision=None, recall=0.0, f1=None, support=262),
            },
            tied=52 if by == "all" else 0,
        )


def _results(metrics: dict[str, tuple[float | None, int | None]]) -> Iterator[Correlation]:
    for grouping in BOTH:
        for statistic in STATISTICS:
            for name, (value, rank) in metrics.items():
                there = value is not None
                # The interval includes 0 exactly where p is above .05.
                p = 0.0312 if abs(value or 0) > 0.1 else 0.312
                yield Correlation(
                    metric=name,
                    human="score",
                    statistic=statistic,
                    grouping=grouping,
                    value=value,
                    low=value - 0.1 if value is not None else None,
                    high=value + 0.1 if value is not None else None,
                    p=p if there else None,
                    n=40,
                    groups=ONE,
                    reason=None if there else "the metric is constant",
                    ties=Ties(metric=0.02, human=0.1),
                    cluster=rank,
                )


def _comparisons(metrics: dict[str, tuple[float | None, int | None]]) -> Iterator[ComparisonResult]:
    for grouping in BOTH:
        for statistic in STATISTICS:
            for pair in combinations(metrics, 2):
                yield _compared(pair, statistic, grouping, metrics)


def _compared(
    pair: tuple[str, str],
    statistic: str,
    grouping: GroupingName,
    metrics: dict[str, tuple[float | None, int | None]],
) -> ComparisonResult:
    a, b = (metrics[name][0] for name in pair)
    there = a is not None and b is not None
    difference = a - b if a is not None and b is not None else None
    p = min(1.0, 0.2 / (1 + 400 * abs(difference))) if difference is not None else None
    return ComparisonResult(
        first=pair[0],
        second=pair[1],
        human="score",
        statistic=statistic,
        grouping=grouping,
        difference=difference,
        p=p,
        p_adjusted=min(1.0, 4 * p) if p is not None else None,
        low=None if difference is None else difference - 0.2,
        high=None if difference is None else difference + 0.2,
        n=40,
        groups=ONE,
        reason=None if there else "the metric is constant",
    )


def shown(found: Correlations, width: int = 80, *, full: bool = True) -> str:
    out = io.StringIO()
    found.show(Console(file=out, width=width, color_system=None), full=full)
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def golden(name: str, text: str) -> None:
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("CAPEVAL_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


TWO = {name: SIX[name] for name in ("clair", "meteor")}


def test_tables_are_the_golden_ones() -> None:
    golden("six-correlations", shown(correlations(SIX)))
    golden("default-correlations-of-six", shown(correlations(SIX), 100, full=False))


def one_judge(systems: int) -> Correlations:
    """Return what a judge gives: tau-b and r of two human scores, and some systems."""
    found = correlations({"lexical-2:f1": (0.616, None)})
    results = [
        r.model_copy(
            update={"human": human, "grouping": grouping}
            | ({"n": systems} if grouping == "system" else {})
        )
        for human in ("f1", "recall")
        for grouping in ("item", "system")
        for r in found.results
        if r.grouping == "item"
    ]
    return found.model_copy(
        update={
            "results": tuple(results),
            "comparisons": (),
            "published": (),
            "raters": Raters(
                names=("Ann",), combined="mean", alpha=Coefficient(value=None), level="nominal"
            ),
        }
    )


@pytest.mark.parametrize("systems", [4, 5])
def test_the_default_of_one_judge_is_the_golden_one(systems: int) -> None:
    text = shown(one_judge(systems), full=False)
    golden(f"default-correlations-of-{systems}-systems", text)
    rows = [line.split()[0] for line in text.splitlines() if line]
    assert ("system" in rows) == (systems == 5)
    for words in ("Pearson r", "Human recall", "means of systems"):
        assert words not in text
        assert words in shown(one_judge(systems))


def test_the_headline_does_without_metrics_elements_and_tau() -> None:
    whole = correlations({"[b]m": (0.7, None)})
    bare = whole.model_copy(update={"results": (), "comparisons": ()})
    assert bare.headline() == (
        "lexical-2 compared with human labels: kappa 0.500 [0.250, 0.750] over 414 elements."
    )
    assert "52 of 466 elements are left out because" in " ".join(shown(bare).split())
    neither = bare.model_copy(update={"elements": Elements()})
    assert neither.headline() == "No metric has a correlation with a human score."
    only = [r for r in whole.results if r.statistic == "pearson" and r.grouping == "item"]
    narrow = whole.model_copy(update={"results": tuple(only), "elements": Elements()})
    assert narrow.headline() == (
        "[b]m has Pearson r 0.700 [0.600, 0.800] with the human score over 40 captions (item)."
    )


def test_a_protocol_of_one_grouping_has_a_row_for_each_of_many_metrics() -> None:
    names: dict[str, tuple[float | None, int | None]] = {
        f"judge-{n}:f1": (0.9 - n / 20, 1) for n in range(12)
    }
    names["constant"] = (None, None)
    found = correlations(names)
    results = [r for r in found.results if r.grouping == "pooled"]
    named = {"inputs": {"settings": {"protocol": "tuna"}}, "results": tuple(results)}
    text = shown(found.model_copy(update=named), full=False)
    lines = text.splitlines()
    (heading,) = [at for at, line in enumerate(lines) if line.startswith("Metric ")]
    assert lines[heading].split("  ")[-1].strip() == "Pearson r [95%]"
    rows = lines[heading + 2 : heading + 15]
    assert [row.split()[0] for row in rows] == [*names]
    assert rows[0].split("  ", 1)[1].split() == ["0.900", "[0.800,", "1.000]"] * 2
    assert text.index("Published in TUNA") > text.index("judge-11:f1")
    assert "more row" not in text


def test_differences_have_their_intervals_and_why_there_is_no_p() -> None:
    two = correlations(TWO)
    none = {"low": None, "high": None, "p": None, "reason": "4 videos are too few"}
    bare = [c.model_copy(update=none) for c in two.comparisons]
    text = " ".join(shown(two.model_copy(update={"comparisons": tuple(bare)})).split())
    assert (
        "4 of 4 comparisons have no p: 4 videos are too few (such as clair − meteor, Kendall tau-b"
    ) in text
    compared = next(
        table
        for table in correlations(SIX).pages(full=True)[0].tables
        if table.title == "Metrics compared"
    )
    rows = [[*map(str, compared.shown(row))] for row in compared.rows[1:16]]
    assert {statistic for statistic, *_ in rows} == {"Kendall tau-b"}
    found = {name: cells for _, name, *cells in rows}
    assert found["clair − meteor"][0] == "+0.781 [+0.581, +0.981]"
    # The file has lexical-2 − clair, and the better one comes first.
    assert found["clair − lexical-2:f1"] == ["+0.319 [+0.119, +0.519]", "0.006"]
    assert all(cells[0][0] in "+0" for cells in found.values())


def test_each_table_of_values_has_its_legend_in_latex() -> None:
    found = correlations(SIX)
    assert found.rendered("latex").count("the share of the compared pairs") == 2
    assert found.rendered("markdown").count("the share of the compared pairs") == 1
