"""The screens of `capeval correlate`, compared with golden files.

`CAPEVAL_GOLDEN=1 pytest tests/correlation` writes them anew; look at the difference.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import capeval
from capeval.correlation.correlations import Correlations
from capeval.correlation.fields import Elements
from capeval.show.numbers import signed
from capeval.version import __version__
from tests.correlation.making import labelled, make_run, write_annotations
from tests.scoring.making import annotation, scored

pytestmark = pytest.mark.usefixtures("alone")

GOLDEN = Path(__file__).parent / "golden"
VIDEOS = [annotation(index, "a3 t1", "s2") for index in "abcdefgh"]
# By metric, how much noise is added to the human score.
NOISE = {"lexical-2": 2.0, "clair": 0.1, "[red]_bert|score_[/red]": 0.5, "meteor": 9.0}


def rated(noise: dict[str, float] = NOISE, **options: Any) -> Correlations:
    """Correlate metrics, the last one constant, with ratings of 40 captions by two raters."""
    rng = np.random.default_rng(0)
    human = rng.normal(size=40)
    columns = [(human + rng.normal(size=40) / 3).round(1) for _ in range(2)]
    columns += [human + size * rng.normal(size=40) for size in noise.values()]
    names = [*noise, "constant"]
    header = ",".join(["video_id", "system", "human", "human_2", *names])
    rows = (
        ",".join([f"v{n // 4}", f"s{n % 4}", *(f"{value:.3f}" for value in row), "1"])
        for n, row in enumerate(zip(*columns, strict=True))
    )
    Path("human.csv").write_text("\n".join([header, *rows, ""]), "utf-8")
    return capeval.correlate("human.csv", dict.fromkeys(names, "human.csv"), **options)


def judged(systems: int) -> Correlations:
    """Correlate a judge with the labels of several systems' captions."""
    rng = np.random.default_rng(systems)
    write_annotations(Path(), VIDEOS)
    labels: dict[tuple[str, str], str] = {}
    for system in range(systems):
        rows = ["".join(rng.choice(list("++0-"), 3)) for _ in VIDEOS]
        rows = [f"{row[:2]} {row[2]}" for row in rows]
        pairs = zip(VIDEOS, rows, strict=True)
        make_run(Path(), f"s{system}", [scored(video.index, row) for video, row in pairs])
        labels |= {
            (v.index, f"s{system}"): row if rng.random() < 0.7 else "+0 0"
            for v, row in zip(VIDEOS, rows, strict=True)
        }
    labelled(Path(), labels)
    return capeval.correlate("human.csv")


def shown(found: Correlations, width: int = 80, *, full: bool = True) -> str:
    out = io.StringIO()
    found.show(Console(file=out, width=width, color_system=None), full=full)
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def golden(name: str, text: str) -> None:
    file = GOLDEN / f"{name}.txt"
    text = text.replace(f"|v:{__version__}", "")
    if os.environ.get("CAPEVAL_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def test_screens_are_the_golden_ones() -> None:
    found = rated(statistic=["kendall_b", "pearson"], grouping=["pooled", "item"], published=True)
    golden("five-metrics-full", shown(found))
    golden("five-metrics", shown(found, 100, full=False))


@pytest.mark.parametrize("systems", [4, 5])
def test_few_systems_are_only_in_full(systems: int) -> None:
    found = judged(systems)
    text = shown(found, full=False)
    if systems == 5:
        golden("labels-of-five-systems", text)
    assert any(line.startswith("system ") for line in text.splitlines()) == (systems == 5)
    for words in ("Pearson r", "Human recall", "means of systems"):
        assert words not in text
        assert words in shown(found)


def test_the_headline_does_without_metrics_elements_and_tau() -> None:
    whole = judged(4)
    bare = whole.model_copy(update={"results": (), "comparisons": ()})
    assert bare.headline().startswith("judge compared with human labels: kappa 0.")
    assert bare.headline().endswith("over 96 elements.")
    neither = bare.model_copy(update={"elements": Elements()})
    assert neither.headline() == "No metric has a correlation with a human score."
    only = rated({"[b]m": 0.3}, statistic=["pearson"], grouping=["pooled"])
    assert only.headline().startswith("[b]m has the highest Pearson r of 2 metrics with the human")


def test_a_protocol_of_one_grouping_has_a_row_for_each_of_many_metrics() -> None:
    found = rated({f"judge-{n}": n / 5 for n in range(12)}, protocol="tuna", published=True)
    text = shown(found, full=False)
    lines = text.splitlines()
    (heading,) = [at for at, line in enumerate(lines) if line.startswith("Metric ")]
    assert lines[heading].split("  ")[-1].strip() == "Pearson r [95%]"
    rows = [line.split()[0] for line in lines[heading + 2 : heading + 15]]
    assert sorted(rows) == sorted(["constant", *(f"judge-{n}" for n in range(12))])
    assert text.index("Published in TUNA") > text.index("judge-11")
    assert "more row" not in text


def test_of_two_metrics_the_better_one_comes_first() -> None:
    found = rated()
    (table,) = [t for t in found.pages(full=True)[0].tables if t.title == "Metrics compared"]
    shown_rows = [[*map(str, table.shown(row))] for row in table.rows if len(row) > 1]
    (row,) = [r for r in shown_rows if r[:2] == ["Kendall tau-b", "clair − lexical-2"]][:1]
    (stored,) = [
        c
        for c in found.comparisons
        if (c.first, c.second, c.statistic, c.grouping)
        == ("lexical-2", "clair", "kendall_b", "pooled")
    ]
    assert row[2].startswith(f"{signed(-(stored.difference or 0))} [")
    assert all(cells[2][0] in "+0" for cells in shown_rows)


def test_each_table_of_values_has_its_legend_in_latex() -> None:
    found = rated(statistic=["kendall_b"])
    assert found.rendered("latex").count("the share of the compared pairs") == 4
    assert found.rendered("markdown").count("the share of the compared pairs") == 1
