"""Comparing judged runs: which videos are paired, what is refused, what failures do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.comparing.comparison import Comparison, Matrix
from capeval.errors import UsageError
from capeval.schema import Annotation, Judgment, Provenance, Unscored, Verdict
from tests.correlation.making import make_run, write_annotations
from tests.scoring.making import annotation, relations, scored

pytestmark = pytest.mark.usefixtures("alone")

VIDEOS = [
    annotation("a", "c3 s1", "a2", domain="Film", visual_characteristic="Low-Dynamic"),
    annotation("b", "t2 c1", domain="Film", visual_characteristic="High-Dynamic"),
    annotation("c", "c1 a1", domain="Food", visual_characteristic="High-Dynamic"),
    annotation("d", "s1"),
]
BY = Provenance(judge="judge-1", prompts="set@1", models=("judge-1-2024",))


def run(name: str, *labels: str | None, by: Provenance = BY, **more: Any) -> list[Judgment]:
    """A judged run of the videos in order: `?` is unscored, None has no judgment at all."""
    judgments: list[Judgment] = []
    for video, row in zip(VIDEOS, labels, strict=False):
        if row == "?":
            judgments.append(Unscored(index=video.index, reason="the judge refused", provenance=by))
        elif row is not None:
            judgments.append(scored(video.index, row, provenance=by, **more))
    make_run(Path(), name, judgments)
    return judgments


@pytest.fixture(autouse=True)
def _annotated(tmp_path: Path) -> None:
    write_annotations(tmp_path, VIDEOS)


def compared(*typed: str, **more: Any) -> Comparison:
    found = capeval.compare(typed, **({"resamples": 99} | more))
    assert isinstance(found, Comparison)
    return found


def left_out_of(found: Comparison) -> dict[str, list[tuple[str, str]]]:
    return {
        side.name: [(left.index, left.reason) for left in side.left_out]
        for side in (found.first, found.second)
    }


def test_only_videos_that_both_scored_are_behind_the_numbers() -> None:
    run("old", "+0 -", "+0", "?", "+")
    run("new", "++ +", "?", "++", None)
    with Path("runs/new/captions.jsonl").open("a") as file:
        file.write('{"index": "d", "caption": "A dog runs."}\n')
    found = compared("old", "new")
    assert (found.paired, found.annotated, list(found.videos)) == (1, 4, ["a"])
    assert (found.overall.all.n, set(found.by.domain)) == (1, {"Film"})
    assert found.videos["a"].recall.model_dump() == {"first": 0.5, "second": 1.0, "value": 0.5}
    assert left_out_of(found) == {
        "old": [("b", "unscored in new: the judge refused"), ("d", "not judged yet in new")],
        "new": [("c", "unscored in old: the judge refused")],
    }
    assert (found.first.captioned, found.first.scored) == (4, 3)
    assert (found.second.captioned, found.second.scored) == (4, 2)


def test_a_video_without_a_caption_is_left_out_and_not_a_zero() -> None:
    run("old", "++ +", "++", "++", "+")
    run("new", "++ +", "++")
    found = compared("old", "new")
    assert (found.overall.all.f1.value, found.paired) == (0.0, 2)
    assert left_out_of(found) == {
        "old": [("c", "no caption in new"), ("d", "no caption in new")],
        "new": [],
    }


def test_no_common_video_is_refused() -> None:
    run("old", "+0 -", "?")
    run("new", "?", "++")
    with pytest.raises(UsageError, match="no video is scored in all of these runs: old and new"):
        compared("old", "new", fail_under=["f1=-100"])


OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "judge": ("judge judge-1-2024 vs. judge-2-2024", {"models": ("judge-2-2024",)}),
    "prompts": ("prompts set@1 vs. set@2", {"prompts": "set@2"}),
    "baseline": ("prompts set@1 vs. none", {"prompts": None}),
    "both": (
        "judge judge-1-2024 vs. lexical-2; prompts set@1 vs. none",
        {"judge": "lexical-2", "prompts": None, "models": ()},
    ),
}


@pytest.mark.parametrize("other", OTHERS)
def test_unlike_judges_and_prompts_are_refused_with_the_reason(other: str) -> None:
    message, changes = OTHERS[other]
    run("old", "+0 -", "+0")
    run("new", "++ +", "++", by=BY.model_copy(update=changes))
    with pytest.raises(UsageError) as error:
        compared("old", "new")
    assert str(error.value) == (
        f"old and new cannot be compared because they differ: {message}; "
        "judge them in the same way, or compare them nevertheless with --allow-mismatch"
    )
    found = compared("old", "new", allow_mismatch=True)
    assert (found.comparable, "; ".join(found.unlike)) == (False, message)
    assert found.overall.all.n == 2


def verdict(labels: str) -> Verdict:
    labelled = relations(labels)
    matches = tuple(n for n, event in enumerate(labelled, start=1) if set(event) != {"lack"})
    return Verdict(
        candidate_events=("A dog runs.",) * len(matches), matches=matches, relations=labelled
    )


def test_unlike_repeats_are_refused() -> None:
    run("old", "+0 -")
    again = (verdict("++ +"),) * 3
    run("new", "++ +", candidate_events=("x", "y"), matches=(1, 2), repeats=again)
    with pytest.raises(UsageError, match=r"repeats 1 vs\. 3"):
        compared("old", "new")
    assert compared("old", "new", allow_mismatch=True).settings["repeats"] == {"old": 1, "new": 3}


def other_annotations(path: str, videos: Sequence[Annotation]) -> None:
    folder = Path(path).parent
    folder.mkdir(exist_ok=True)
    write_annotations(folder, list(videos))


def test_unlike_data_are_refused_and_anyway_pairs_what_can_be() -> None:
    run("old", "+0 -", "+0", "+0", "+")
    changed = [
        VIDEOS[0].model_copy(update={"domain": "Sport"}),
        annotation("b", "t2 c3", domain="Film", visual_characteristic="High-Dynamic"),
        annotation("e", "s1"),
    ]
    other_annotations("other/annotations.json", changed)
    judgments: list[Judgment] = [
        scored(video.index, labels, provenance=BY)
        for video, labels in zip(changed, ("++ +", "++", "+"), strict=True)
    ]
    make_run(Path(), "new", judgments, annotations={"path": "other/annotations.json"})
    with pytest.raises(UsageError, match=r"data \w{6}@4 vs. \w{6}@3; judge them in the same way"):
        compared("old", "new")
    found = compared("old", "new", allow_mismatch=True)
    assert (list(found.videos), found.annotated) == (["a", "b"], 5)
    # A video is of a bucket where both annotations say so.
    assert set(found.by.domain) == {"Film"}
    assert set(found.by.visual_characteristic) == {"Low-Dynamic", "High-Dynamic"}
    # Elements flip only where both annotations have them alike.
    assert found.flips.videos == 1
    assert {flip.index for flip in found.flips.elements} == {"a"}
    assert left_out_of(found) == {
        "old": [("c", "not annotated in new"), ("d", "not annotated in new")],
        "new": [("e", "not annotated in old")],
    }


def test_a_type_that_one_annotation_lacks_is_not_paired() -> None:
    run("old", "+0 -", "+0")
    other_annotations("other/annotations.json", [annotation("a", "c3 c1", "a2")])
    make_run(
        Path(),
        "new",
        [scored("a", "++ +", provenance=BY)],
        annotations={"path": "other/annotations.json"},
    )
    overall = compared("old", "new", allow_mismatch=True).overall
    assert (overall.camera.n, overall.action.n, overall.scene.n) == (1, 1, 0)
    assert overall.scene.f1.first is None
    assert overall.scene.f1.value is None


def test_more_than_two_runs_are_ranked_on_the_videos_of_all() -> None:
    run("low", "00 0", "00", "00", "0")
    run("high", "++ +", "++", "++", "+")
    run("some", "++ +", "+0", "?", "?")
    found = capeval.compare(("low", "some", "high"), resamples=99)
    assert isinstance(found, Matrix)
    # In the order typed: the letters of the tables follow the command line.
    assert [one.name for one in found.runs] == ["low", "some", "high"]
    assert (found.runs[0].f1, found.runs[2].f1) == (0.0, 1.0)
    assert found.paired == 2
    assert [(pair.first, pair.second) for pair in found.pairs] == [
        ("low", "some"),
        ("low", "high"),
        ("some", "high"),
    ]
    assert [len(one.left_out) for one in found.runs] == [2, 0, 2]
    run("other", "++ +", by=BY.model_copy(update={"models": ("judge-2",)}))
    with pytest.raises(
        UsageError, match="low, high and other cannot be compared because they differ: judge"
    ):
        capeval.compare(("low", "high", "other"), resamples=99)


def test_one_run_may_be_compared_under_two_judges_anyway() -> None:
    run("old", "+0 -", "+0")
    other = Path("runs/old/second")
    other.mkdir()
    by = BY.model_copy(update={"judge": "second", "models": ()})
    lines = [scored("a", "++ +", provenance=by).model_dump(mode="json")]
    (other / "judgments.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = compared("runs/old/judge", "runs/old/second", allow_mismatch=True)
    assert (found.first.name, found.second.name) == ("old (judge)", "old (second)")
