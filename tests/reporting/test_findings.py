"""What a run fails at, by hand."""

from __future__ import annotations

from capeval.reporting.findings import Findings, LostWeight, findings_of, missed_elements
from capeval.scoring.judged_run import JudgedRun
from tests.reporting.making import run
from tests.scoring.making import annotation, scored

VIDEOS = tuple(annotation(f"v{n}", "c3 s1", "a3", domain="Film") for n in range(12))


def made(*labels: str) -> JudgedRun:
    judgments = [scored(f"v{n}", one) for n, one in enumerate(labels)]
    captions = {f"v{n}": "Told." for n in range(len(labels))}
    return run(list(judgments), videos=VIDEOS, captions=captions)


def found(*labels: str) -> Findings:
    return findings_of(made(*labels))


def test_weights_are_summed_over_all_elements_and_by_type() -> None:
    of = found("+0 -", "++ 0")
    assert {one.label: [*one.weights.values()] for one in of.shares} == {
        "all": [7, 3, 4],
        "camera": [6, 0, 0],
        "scene": [1, 0, 1],
        "action": [0, 3, 3],
    }
    assert of.losses == (LostWeight("v0", 4, 7), LostWeight("v1", 3, 7))
    assert found("++ +", "++ +").losses == ()


def test_sentences_say_what_is_lost_and_where() -> None:
    labels = ("++ 0", "++ 0", "++ -", "++ +", "++ +", "00 0")
    said = found(*labels, *labels).sentences
    assert said["Weakest type"].startswith("action: F1 33.3 [")
    assert "50.0 points below the strongest, camera with 83.3 [" in said["Weakest type"]
    assert said["Lacking or contradicted"] == (
        "Of the annotated weight the captions entail 61.9%, lack 31.0% and contradict 7.1%. "
        "Lacking most: action (50.0%). Contradicted most: action (16.7%)."
    )
    assert (
        "Of 24 elements of the highest weight, 33.3% are lacking and 8.3%"
        in (said["Highest weight"])
    )
    assert said["Unmentioned events"].startswith("8 of 24 reference events are matched by no")
    assert "lacking weight is lost with them" in said["Unmentioned events"]
    assert "entail 83.3% of the first event's weight and 33.3%" in said["Beginning and end"]
    # All videos are films.
    assert said["Weakest domain"] == ""


def test_overlapping_intervals_are_mentioned() -> None:
    labels = ("+0 +", "++ 0", "00 +", "++ 0", "++ +", "00 +")
    assert "overlap" in found(*labels, *labels).sentences["Weakest type"]
    assert "overlap" not in found(*["++ 0"] * 12).sentences["Weakest type"]


def test_what_cannot_be_compared_says_why() -> None:
    few = found("+0 -", "++ 0").sentences
    assert few["Weakest type"] == "Too few videos to compare: two groups of 8 are needed."
    assert few["Beginning and end"].startswith("Too few videos of two events or more: 8")
    alike = found(*["00 0"] * 12).sentences
    assert alike["Weakest type"] == "None: all have F1 0.0."
    assert alike["Lacking or contradicted"].endswith("contradict 0.0%.")
    whole = found(*["++ +"] * 12).sentences
    assert whole["Unmentioned events"].startswith("None: ")
    assert {*found().sentences.values()} == {"No video is scored."}


def test_main_elements_missed_by_most_runs_come_first_and_one_of_each_video() -> None:
    runs = [made("+0 0", "0+ +", "-+ +"), made("++ 0", "++ +", "-+ +")]
    of = missed_elements(runs)
    assert (of.any, of.by_all, of.contradicted) == (3, 2, 1)
    assert [(one.index, one.id, one.missed, one.contradicted) for one in of.listed] == [
        ("v2", "1.1", 2, 2),
        ("v0", "2.1", 2, 0),
        ("v1", "1.1", 1, 0),
    ]
    many = missed_elements([made(*["00 0"] * 10, "++ -")]).listed
    assert (many[0].index, many[0].id) == ("v10", "2.1")
    assert len({one.index for one in many}) == len(many) == 8
