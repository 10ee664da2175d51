"""What a run fails at, by hand."""

from __future__ import annotations

from collections.abc import Mapping

from capeval.reporting.findings import (
    Findings,
    LostWeight,
    Share,
    findings_of,
    missed_elements,
)
from capeval.reporting.inspect import cards_of
from capeval.reporting.page_data import ReportedRun
from capeval.scoring.judged_run import JudgedRun
from tests.reporting.making import run
from tests.scoring.making import annotation, scored


def shown(one: JudgedRun, letter: str = "A") -> ReportedRun:
    return ReportedRun(letter, one.name, one, tuple(cards_of(one)))


def sentences(findings: Findings) -> Mapping[str, str]:
    return {heading: text for heading, text in findings.sentences.items() if text}


VIDEOS = tuple(annotation(f"v{n}", "c3 s1", "a3", domain="Film") for n in range(12))


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
    assert found.losses == (LostWeight("v0", 4, 7), LostWeight("v1", 3, 7))


def test_sentences_tell_what_is_lost_and_where() -> None:
    labels = ("++ 0", "++ 0", "++ -", "++ +", "++ +", "00 0")
    found = sentences(findings_of(shown(made(*labels, *labels))))
    assert found["Weakest type"].startswith("action: F1 33.3 [")
    assert "the strongest is camera with 83.3" in found["Weakest type"]
    assert found["Lacking or contradicted"] == (
        "Of the annotated weight the captions entail 61.9%, lack 31.0% and contradict 7.1%. "
        "Lacking most: action (50.0%). Contradicted most: action (16.7%)."
    )
    assert found["Highest weight"] == (
        "Of 24 elements of the highest weight, 33.3% are lacking and 8.3% contradicted."
    )
    assert found["Unmentioned events"].startswith(
        "8 of 24 reference events are matched by no candidate event; 100.0% of the lacking"
    )
    assert found["Beginning and end"] == (
        "In 12 videos of two events or more, captions entail 83.3% of the first event's weight and "
        "33.3% of the last one's."
    )


def test_overlapping_intervals_are_called_that() -> None:
    apart = sentences(findings_of(shown(made(*["++ 0"] * 12))))["Weakest type"]
    labels = ("+0 +", "++ 0", "00 +", "++ 0", "++ +", "00 +")
    near = sentences(findings_of(shown(made(*labels, *labels))))
    assert "overlap" not in apart
    assert near["Weakest type"].endswith("Their intervals overlap: this order may be chance.")


def test_few_videos_are_not_compared() -> None:
    found = sentences(findings_of(shown(made("+0 -", "++ 0"))))
    assert "Weakest type" not in found
    assert "Beginning and end" not in found


def test_types_that_are_all_alike_are_not_ranked() -> None:
    found = sentences(findings_of(shown(made(*["00 0"] * 12))))
    assert found["Lacking or contradicted"] == (
        "Of the annotated weight the captions entail 0.0%, lack 100.0% and contradict 0.0%."
    )
    assert "Weakest type" not in found


def test_nothing_lost_names_no_loss() -> None:
    found = findings_of(shown(made("++ +", "++ +")))
    assert found.losses == ()
    assert "Unmentioned events" not in sentences(found)


def listed(*runs: JudgedRun) -> list[tuple[str, str, int, int, int]]:
    found = missed_elements([shown(one) for one in runs])
    return [(one.index, one.id, one.missed, one.contradicted, one.repeats) for one in found.listed]


def test_main_elements_missed_by_most_runs_come_first() -> None:
    first, second = made("+0 0", "0+ +", "-+ +"), made("++ 0", "++ +", "-+ +")
    found = missed_elements([shown(first), shown(second, "B")])
    assert (found.any, found.by_all, found.contradicted) == (3, 2, 1)
    assert listed(first, second) == [
        ("v2", "1.1", 2, 2, 2),
        ("v0", "2.1", 2, 0, 2),
        ("v1", "1.1", 1, 0, 2),
    ]


def test_a_contradicted_element_comes_first_and_a_video_has_one() -> None:
    one = made(*["00 0"] * 10, "++ -")
    found = listed(one)
    assert found[0] == ("v10", "2.1", 1, 1, 1)
    assert len({index for index, *_ in found}) == len(found) == 8
