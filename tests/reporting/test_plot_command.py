import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from capeval.schema import Judgment, Provenance, Unscored
from tests.correlation.making import labelled
from tests.judged_runs import make_run, write_annotations
from tests.scoring.making import annotation, scored
from tests.world import here as typed

VIDEOS = [
    annotation("V1", "c3 s1 a2", "t2", domain="Film", visual_characteristic="Low-Dynamic"),
    annotation("V2", "t2 a1", domain="Film", visual_characteristic="High-Dynamic"),
    annotation("V3", "c1 s2", domain="Plants", visual_characteristic="Multi-Scene"),
]
BARE = [annotation(f"V{n}", "c3 s1 a2 t2") for n in (1, 2, 3)]
JUDGE = Provenance(judge="lexical-2", prompts=None, baseline=True)
ALL = ["types", "characteristics", "domains", "events", "elements"]


def judged(
    name: str,
    labels: Mapping[str, str | None],
    *,
    annotations: str = "annotations.json",
    generation: object = None,
) -> None:
    judgments: list[Judgment] = [
        scored(index, row, provenance=JUDGE)
        if row
        else Unscored(index=index, reason="refused", provenance=JUDGE)
        for index, row in labels.items()
    ]
    path = {"path": annotations}
    make_run(Path(), name, judgments, judge="lexical-2", annotations=path, generation=generation)


@pytest.fixture(autouse=True)
def _files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Judged runs: two of one model, one unscored, one of videos without characteristics."""
    monkeypatch.chdir(tmp_path)
    write_annotations(Path(), BARE).rename("bare.json")
    write_annotations(Path(), VIDEOS)
    for frames, first in (("8", "+0- 0"), ("32", "++- +")):
        judged(
            f"at-{frames}",
            {"V1": first, "V2": "+0", "V3": "-+"},
            generation={"model": "some-model", "frames": frames},
        )
    judged("failed", {"V1": None, "V2": None})
    judged("bare", {"V1": "+0-0", "V2": "++++", "V3": "0000"}, annotations="bare.json")
    labels = {("V1", "at-8"): "+00 0", ("V2", "at-8"): "-0", ("V3", "at-32"): "-+"}
    labelled(Path(), labels)
    Path("ratings.csv").write_text("video_id,system,score\nV1,at-8,2\nV2,at-8,3\nV3,at-8,5\n")


def written(folder: str = "figures") -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def test_all_is_all_that_the_runs_can_show() -> None:
    said = typed("plot", "all", "at-8", "at-32", "--format", "svg")
    assert (said.code, said.err) == (0, "")
    names = [f"{name}.svg" for name in [*ALL, "frames", "forest"]]
    assert said.out.splitlines() == [f"figures/{name}" for name in names]
    assert written() == sorted(names)


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install '.[plot]'" in typed("plot", "all", "at-8").refusal


def test_a_forest_is_of_two_comparable_runs() -> None:
    said = typed("plot", "forest", "at-8")
    assert (said.code, said.out) == (2, "")
    assert "forest shows the differences of two runs, not of 1" in said.err
    said = typed("plot", "types,forest", "at-8", "bare", "--out", "o", "--judge", "lexical")
    assert said.code == 0
    assert "cannot be compared because they differ: data" in said.err
    assert "forest.pdf" not in written("o")


def test_a_scatter_is_of_the_captions_with_a_rating_and_a_score() -> None:
    said = typed("plot", "types,scatter", "at-8", "failed", "--human", "human.csv")
    assert (said.code, written()) == (0, ["scatter.pdf", "types.pdf"])
    assert "failed: left out of scatter, no caption is scored" in said.err
    assert "lexical-2:f1: 2 of 3 rated captions have a score; missing: V3 of at-32" in said.err


def test_what_has_nothing_to_show_is_left_out_with_the_reason() -> None:
    said = typed("plot", "all", "bare")
    assert said.code == 0
    assert written() == ["elements.pdf", "events.pdf", "types.pdf"]
    assert said.err.splitlines() == [
        "characteristics: left out, no scored video has a visual characteristic",
        "domains: left out, no scored video has a domain",
        "frames: left out, no model has runs with different numbers of frames",
    ]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["typs", "at-8"], "WHAT must be 'all', 'types', "),
        (
            ["scatter", "at-8"],
            "scatter compares judges with human ratings; name their file with --human",
        ),
        (["frames", "at-8"], "nothing to draw: frames would be empty"),
        (["types,domains", "failed"], "nothing to draw: types, domains would be empty"),
        (["scatter", "bare", "--human", "other.csv"], "has a score of lexical-2:f1"),
        (["types", "at-8", "--out", "annotations.json"], "annotations.json"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], complaint: str) -> None:
    Path("other.csv").write_text("video_id,system,score\nV1,else,2\nV2,else,3\n")
    said = typed("plot", *arguments)
    assert said.code == 2
    line = said.err.splitlines()[-1]
    assert line.startswith("capeval: ")
    assert complaint in line
    assert sum(one.startswith("capeval: ") for one in said.err.splitlines()) == 1
    assert not Path("figures").exists()
