"""The data of figures that compare judges with human raters."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from capeval.correlation.correlate import (
    CorrelateOptions,
    CorrelationInputs,
    correlate,
    read_inputs,
)
from capeval.reporting.plot import scatters_of
from tests.scoring.making import annotation, scored

VIDEOS = (annotation("a", "c3 s1"), annotation("b", "t2 a2"), annotation("c", "s1 s3"))
LABELS = {"a": "+0", "b": "-+", "c": "++"}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [scored(index, labels).model_dump_json() for index, labels in LABELS.items()]
    Path("judgments.jsonl").write_text("\n".join(lines) + "\n")


METRIC = {"judge": "judgments.jsonl"}


def sides(name: str, text: str) -> CorrelationInputs:
    Path(name).write_text(text)
    return read_inputs(CorrelateOptions(name, METRIC, annotations=VIDEOS))


RATED = "video_id,human,human_2\na,1,3\nb,4,\nc,5,4\n"
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


def flat(points: Iterable[tuple[float, float]]) -> list[float]:
    return [number for point in points for number in point]


def test_ratings_are_drawn_on_their_own_scale_by_the_mean_of_raters() -> None:
    (scatter,), warnings = scatters_of(sides("r.csv", RATED))
    assert list(scatter.points) == ["captions"]
    assert flat(scatter.points["captions"]) == pytest.approx([600 / 7, 2.0, 50, 4.0, 100, 4.5])
    assert (scatter.x, scatter.y, scatter.name) == ("F1 by judge (%)", "Human rating", "scatter")
    assert warnings == []


def test_the_coefficient_is_that_of_correlate() -> None:
    (scatter,), _ = scatters_of(sides("r.csv", RATED))
    found = correlate("r.csv", METRIC, annotations=VIDEOS, statistic="kendall_b", grouping="pooled")
    (value,) = [result.value for result in found.results if result.metric == "judge:f1"]
    assert value is not None
    assert scatter.note == f"Kendall τ-b {value:.3f}, n = 3"


def test_labels_are_drawn_as_the_f1_that_they_make() -> None:
    (scatter,), warnings = scatters_of(sides("l.csv", THREE_WAY))
    assert scatter.y == "F1 by human labels (%)"
    # ann: all of a; bob: three of four.
    assert flat(scatter.points["captions"][:1]) == pytest.approx([600 / 7, 50 * (1 + 6 / 7)])
    assert warnings == []


def test_covered_or_not_is_held_against_recall() -> None:
    text = "video_id,element_id,label\na,1.1,1\na,1.2,0\nb,1.1,0\nb,1.2,1\n"
    (scatter,), _ = scatters_of(sides("c.csv", text))
    assert (scatter.x, scatter.y) == ("Recall by judge (%)", "Covered by human labels (%)")
    assert scatter.points == {"captions": ((75.0, 75.0), (50.0, 50.0))}


def test_systems_come_in_the_order_of_the_runs() -> None:
    text = "video_id,system,score\na,x,1\nb,x,4\nc,x,5\n"
    Path("runs/x/j").mkdir(parents=True)
    Path("runs/y/j").mkdir(parents=True)
    for run in ("x", "y"):
        captions = [f'{{"index": "{index}", "caption": "A dog."}}\n' for index in LABELS]
        Path(f"runs/{run}/captions.jsonl").write_text("".join(captions))
        Path(f"runs/{run}/j/judgments.jsonl").write_bytes(Path("judgments.jsonl").read_bytes())
    Path("s.csv").write_text(text + "a,y,2\nb,y,1\nc,y,3\n")
    files = [f"runs/{run}/j/judgments.jsonl" for run in ("x", "y")]
    read = read_inputs(CorrelateOptions("s.csv", {"j": files}, annotations=VIDEOS))
    for order in (["x", "y"], ["y", "x"]):
        (scatter,), _ = scatters_of(read, order=["none", *order])
        assert list(scatter.points) == order


def test_a_constant_judge_has_no_coefficient() -> None:
    lines = [scored(index, "++").model_dump_json() for index in LABELS]
    Path("judgments.jsonl").write_text("\n".join(lines) + "\n")
    (scatter,), _ = scatters_of(sides("r.csv", RATED))
    assert scatter.note == "Kendall τ-b none, n = 3"
