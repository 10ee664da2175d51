"""The screens of `capeval correlate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import capeval
from capeval.correlation.correlations import Correlations
from tests.correlation.making import labelled, make_run, write_annotations
from tests.golden import check_golden, screen
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


def test_screens_are_the_golden_ones() -> None:
    found = rated(statistic=["kendall_b", "pearson"], grouping=["pooled", "item"], published=True)
    full = screen(found)
    for title in ("Metrics compared", "Published in TUNA"):
        assert title in full
    check_golden(GOLDEN / "five-metrics.txt", screen(found, 100, full=False))


@pytest.mark.parametrize("systems", [4, 5])
def test_few_systems_are_only_in_full(systems: int) -> None:
    found = judged(systems)
    text = screen(found, full=False)
    if systems == 5:
        check_golden(GOLDEN / "labels-of-five-systems.txt", text)
    assert any(line.startswith("system ") for line in text.splitlines()) == (systems == 5)
    for words in ("Pearson r", "Human recall", "means of systems"):
        assert words not in text
        assert words in screen(found)
