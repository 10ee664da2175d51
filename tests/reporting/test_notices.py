"""What a report says first."""

from __future__ import annotations

from capeval.reporting.inspect import cards_of
from capeval.reporting.page_data import ReportedRun
from capeval.reporting.report_page import notices
from capeval.scoring.judged_run import JudgedRun
from capeval.show.numbers import letter_of
from tests.reporting.making import run
from tests.scoring.making import annotation, scored

VIDEOS = tuple(annotation(f"v{n}", "a3") for n in range(200))


def of(*scored_in: range) -> list[ReportedRun]:
    runs = [made(indexes) for indexes in scored_in]
    return [
        ReportedRun(letter_of(n), one.name, one, tuple(cards_of(one))) for n, one in enumerate(runs)
    ]


def made(indexes: range) -> JudgedRun:
    return run([scored(f"v{n}", "+") for n in indexes], videos=VIDEOS, captions={})


def test_whole_runs_need_no_notice() -> None:
    assert notices(of(range(198))) == []
    assert notices(of(range(200), range(200))) == []


def test_unlike_sets_and_too_few_videos_are_told() -> None:
    assert notices(of(range(197))) == [
        (
            "This run is scored on 197 of 200 annotated videos (98.5%), less than 99%: this is "
            "not a score of the whole set."
        )
    ]
    unlike, few = notices(of(range(200), range(100)))
    assert "different sets of videos (A 200, B 100; 100 in all of them)" in unlike
    assert few.startswith("B is scored on 100 of 200 annotated videos (50.0%)")
    (same_number,) = notices(of(range(199), range(1, 200)))
    assert "(A 199, B 199; 198 in all of them)" in same_number
