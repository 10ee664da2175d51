"""Scores held against the verdicts beside them, without a bootstrap."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capeval.runs.rescoring import summarise
from capeval.runs.stored_scores import Reference, why_stale
from capeval.schema import Judgment, Provenance, Unscored
from capeval.scoring import Scores
from tests.judged_runs import BY, VIDEOS, judgments
from tests.scoring.making import scored

pytestmark = pytest.mark.usefixtures("alone")

LABELS = "+0- 0++ | 0+- | 00 +"
REFERENCE = Reference(VIDEOS)


def summary(judged: list[Judgment]) -> Scores:
    return summarise(VIDEOS, judged, captioned=5, seed=0, draws=99)


def label(events: list[int]) -> Any:
    return st.tuples(*(st.text("+0-", min_size=n, max_size=n) for n in events)).map(" ".join)


@settings(max_examples=40, deadline=None)
@given(st.tuples(label([3, 3]), label([3]), label([2, 1])), st.sets(st.integers(0, 2), min_size=1))
def test_scores_of_the_verdicts_are_fresh_and_of_any_others_stale(
    told: tuple[str, str, str], kept: set[int]
) -> None:
    judged: list[Judgment] = [
        scored(VIDEOS[n].index, told[n], provenance=BY)
        if n in kept
        else Unscored(index=VIDEOS[n].index, reason="no", provenance=BY)
        for n in range(3)
    ]
    assert why_stale(summary(judged), judged, 5, REFERENCE) is None
    one = min(kept)
    first = "-" if told[one][0] == "+" else "+"
    other = list(judged)
    other[one] = scored(VIDEOS[one].index, first + told[one][1:], provenance=BY)
    assert why_stale(summary(judged), other, 5, REFERENCE) is not None


CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"counts": {"scored": 2}}, "5 videos have verdicts, and 2 are scored"),
    ({"counts": {"annotated": 4}}, "5 videos have verdicts"),
    ({"counts": {"captioned": 2}}, "5 videos have captions, and not 2"),
    ({"overall": {"all": {"n": 2}}}, "overall.all.precision is not that of the verdicts"),
    ({"overall": {"scene": {"recall": {"value": 0.5}}}}, "overall.scene.recall is not that"),
    (
        {"overall": {"attribute": {"f1": {"low": 0.0, "high": 1.0}}}},
        "overall.attribute.f1 has an interval of 4 videos, and fewer than 5 none",
    ),
    ({"by": {"domain": {"Food": None}}}, "its buckets are not those of the verdicts"),
    ({"videos": {"z": {}}}, "its videos are not those of the verdicts"),
    ({"videos": {"a": {}}}, 'the scores of the video "a" are not those of its verdicts'),
    ({"videos": {"b": {"all": {"total": 9}}}}, 'the scores of the video "b" are not'),
    ({"videos": {"b": {"all": {"f1": 0.9}}}}, 'the scores of the video "b" are not'),
    ({"videos": {"c": {"colour": None}}}, 'the scores of the video "c" are not'),
    ({"settings": {"judge": "gpt-5"}}, 'settings.judge says "gpt-5", the verdicts "gpt-4o"'),
    ({"settings": {"baseline": True}}, "settings.baseline says true, the verdicts false"),
    ({"settings": {"baseline": 0}}, "settings.baseline says 0, the verdicts false"),
    ({"settings": {"repeats": True}}, "settings.repeats says true, the verdicts 1"),
    ({"settings": {"models": ["gpt-5"]}}, 'settings.models says ["gpt-5"]'),
    (
        {"settings": {"base_url": "http://x"}},
        'settings.base_url says "http://x", the verdicts null',
    ),
]


def changed(value: Any, change: Any) -> Any:
    if not isinstance(change, dict) or not change or not isinstance(value, dict):
        return change
    more = {key: changed(value.get(key), inner) for key, inner in change.items()}
    return value | more


@pytest.mark.parametrize(("change", "told"), CHANGES)
def test_what_the_verdicts_do_not_say_is_told(change: dict[str, Any], told: str) -> None:
    judged = judgments(LABELS)
    values = summary(judged).model_dump()
    of_film = values["by"]["domain"]["Film"]
    values = changed(values, change)
    if "by" in change:
        values["by"]["domain"]["Food"] = of_film
    if "colour" in values["videos"]["c"]:
        values["videos"]["c"]["colour"] = values["videos"]["c"]["all"]
    stale = why_stale(Scores.model_validate(values), judged, 5, REFERENCE)
    assert str(stale).startswith(told)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("judge:gpt-4o-2024-08-06", "judge:gpt-5", 'the signature\'s judge is "gpt-5", by the'),
        ("repeats:1", "repeats:3", 'the signature\'s repeats is "3", by the verdicts "1"'),
        ("@5|", "@1000|", "the signature's data is "),
        ("|avg:", "|judge:x|avg:", "the signature's judge:x is"),
        ("|avg:macro", "", "the signature's avg is null"),
        ("|v:", "|v:0.", "None"),
    ],
)
def test_every_part_of_the_signature_but_the_version_is_held(old: str, new: str, told: str) -> None:
    judged = judgments(LABELS)
    right = summary(judged)
    assert old in right.signature
    forged = right.model_copy(update={"signature": right.signature.replace(old, new)})
    assert str(why_stale(forged, judged, 5, REFERENCE)).startswith(told)


def test_verdicts_of_another_judge_make_scores_stale() -> None:
    words = judgments(LABELS, Provenance(judge="lexical-1", prompts=None))
    told = why_stale(summary(judgments(LABELS)), words, 5, REFERENCE)
    assert told == 'settings.judge says "gpt-4o", the verdicts "lexical-1"'


def test_captions_are_not_counted_where_nobody_knows_them() -> None:
    judged = judgments(LABELS)
    assert why_stale(summary(judged), judged, None, REFERENCE) is None
