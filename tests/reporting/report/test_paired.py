"""The differences of several runs in a report are those of `capeval compare`."""

from __future__ import annotations

from capeval.reporting.numbers import letter_of
from capeval.reporting.report.cards import cards_of
from capeval.reporting.report.data import Shown
from capeval.reporting.report.paired import Paired, paired
from capeval.runs.comparing import compare_judged
from capeval.runs.judged_run import JudgedRun
from capeval.schema import ELEMENT_TYPES, Judgment
from capeval.scoring.comparison_result import Comparison
from tests.reporting.report.making import VIDEOS, judged, run
from tests.scoring.making import scored


def shown(*runs: JudgedRun) -> list[Shown]:
    return [
        Shown(letter_of(place), one.name, one, tuple(cards_of(one)))
        for place, one in enumerate(runs)
    ]


def named(*runs: JudgedRun) -> dict[str, JudgedRun]:
    return {letter_of(place): one for place, one in enumerate(runs)}


ONE = run()
OTHER = run(judged({"V1": "++ +0", "V2": "-+"}), name="other")


def test_two_runs_differ_as_in_compare() -> None:
    found = paired(shown(ONE, OTHER))
    compared = compare_judged(named(ONE, OTHER))
    assert found is not None
    assert isinstance(compared, Comparison)
    of = compared.overall
    assert [gap.of for gap in found.measures] == [of.all.precision, of.all.recall, of.all.f1]
    assert [gap.of for gap in found.types] == [getattr(of, name).f1 for name in ELEMENT_TYPES]
    assert [gap.n for gap in found.types] == [getattr(of, name).n for name in ELEMENT_TYPES]
    assert found.videos == compared.paired == 4


def test_runs_that_cannot_be_compared_say_why() -> None:
    assert paired(shown(ONE)) is None
    unlike = scored("V1", "+0 -0", provenance={"judge": "another", "prompts": None})
    found = paired(shown(ONE, run([unlike])))
    assert found is not None
    assert not found.measures
    assert "judge gpt-4o-2024-08-06 vs. another" in found.why
    apart = paired(shown(run(bare("V1")), run(bare("V2"))))
    assert apart == Paired(0, "no video is scored in all of them")


def bare(*indexes: str) -> list[Judgment]:
    labels = {video.index: "+0 -0" if video.index == "V1" else "++" for video in VIDEOS}
    return [scored(index, labels[index]) for index in indexes]
