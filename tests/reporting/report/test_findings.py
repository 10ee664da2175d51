"""What a run fails at, by hand."""

from __future__ import annotations

from capeval.evaluation.cards import cards_of
from capeval.evaluation.judged import JudgedRun
from capeval.reporting.report.charts import Share
from capeval.reporting.report.data import Shown
from capeval.reporting.report.findings import Findings, Loss, findings_of, missed_most
from tests.reporting.report.making import run
from tests.scoring.making import annotation, scored


def shown(one: JudgedRun, letter: str = "A") -> Shown:
    return Shown(letter, one.name, one, tuple(cards_of(one)))


def told(findings: Findings) -> dict[str, str]:
    return {sentence.heading: sentence.text for sentence in findings.sentences}


VIDEOS = tuple(annotation(f"v{n}", "c3 s1", "a3", domain="Film") for n in range(6))


def made(*labels: str) -> JudgedRun:
    judgments = [scored(f"v{n}", one) for n, one in enumerate(labels)]
    captions = {f"v{n}": "Told." for n in range(len(labels))}
    return run(list(judgments), videos=VIDEOS, captions=captions)


def test_weights_are_summed_over_all_elements_and_by_type() -> None:
    found = findings_of(shown(made("+0 -", "++ 0")))
    assert found.shares == (
        Share("all", entailed=3 + 4, contradicted=3, lacked=1 + 3),
        Share("camera", 6, 0, 0),
        Share("scene", 1, 0, 1),
        Share("action", 0, 3, 3),
    )
    assert found.losses == (Loss("v0", 4, 7), Loss("v1", 3, 7))


def test_sentences_tell_what_is_lost_and_where() -> None:
    found = told(findings_of(shown(made("++ 0", "++ 0", "++ -", "++ +", "++ +", "00 0"))))
    assert found["Weakest type"].startswith("action: F1 33.3 [")
    assert "the strongest is camera with 83.3" in found["Weakest type"]
    assert found["Silent or wrong"] == (
        "Of the annotated weight the captions entail 61.9%, leave out 31.0% and contradict 7.1%. "
        "Left out most: action (50.0%). Contradicted most: action (16.7%)."
    )
    assert found["The main things"] == (
        "Of 12 elements of the highest weight, 33.3% are left out and 8.3% contradicted."
    )
    assert found["Whole events or details"].startswith(
        "4 of 12 annotated events are matched by no part of a caption; 100.0% of the weight"
    )
    assert found["Beginning and end"] == (
        "In 6 videos of two events or more, captions entail 83.3% of the first event's weight and "
        "33.3% of the last one's."
    )


def test_overlapping_intervals_are_called_that() -> None:
    apart = told(findings_of(shown(made(*["++ 0"] * 6))))["Weakest type"]
    near = told(findings_of(shown(made("+0 +", "++ 0", "00 +", "++ 0", "++ +", "00 +"))))
    assert "overlap" not in apart
    assert near["Weakest type"].endswith("Their intervals overlap: this order may be chance.")


def test_few_videos_are_not_compared() -> None:
    found = told(findings_of(shown(made("+0 -", "++ 0"))))
    compared = {"Weakest type", "Weakest kind of video", "Weakest domain", "Beginning and end"}
    assert not compared & found.keys()


def test_types_that_are_all_alike_are_not_ranked() -> None:
    found = told(findings_of(shown(made(*["00 0"] * 6))))
    assert found["Silent or wrong"] == (
        "Of the annotated weight the captions entail 0.0%, leave out 100.0% and contradict 0.0%."
    )
    assert "Weakest type" not in found


def test_nothing_scored_says_nothing() -> None:
    unscored = findings_of(shown(run([], videos=VIDEOS, captions={"v0": "Told."})))
    assert (unscored.sentences, unscored.shares, unscored.losses) == ((), (), ())


def test_nothing_lost_names_no_loss() -> None:
    found = findings_of(shown(made("++ +", "++ +")))
    assert found.losses == ()
    assert "Whole events or details" not in told(found)


def test_main_elements_missed_by_most_runs_come_first() -> None:
    first, second = made("+0 0", "0+ +", "-+ +"), made("++ 0", "++ +", "-+ +")
    found, count = missed_most([shown(first), shown(second, "B")])
    assert count == 3
    assert [(one.index, one.id, one.missed, one.contradicted, one.passes) for one in found] == [
        ("v2", "1.1", 2, 2, 2),
        ("v0", "2.1", 2, 0, 2),
        ("v1", "1.1", 1, 0, 2),
    ]
