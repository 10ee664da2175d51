"""Stored scores compared with their verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capeval.errors import InputError
from capeval.runs.checking import why_stale
from capeval.runs.stored_scores import load_scores
from capeval.runs.verdicts import summarise
from capeval.schema import Judgment, Provenance, Unscored
from capeval.scoring import Scores
from tests.judged_runs import BY, VIDEOS, judgments
from tests.scoring.making import scored

pytestmark = pytest.mark.usefixtures("alone")

LABELS = "+0- 0++ | 0+- | 00 +"


def summary(judged: list[Judgment]) -> Scores:
    return summarise(VIDEOS, judged, captioned=10)


def stale(stored: Scores, judged: list[Judgment]) -> str | None:
    """Compare stored scores with the verdicts."""
    return why_stale(stored, summary(judged))


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
    assert stale(summary(judged), judged) is None
    one = min(kept)
    first = "-" if told[one][0] == "+" else "+"
    other = list(judged)
    other[one] = scored(VIDEOS[one].index, first + told[one][1:], provenance=BY)
    assert stale(summary(judged), other) is not None


CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"counts": {"scored": 2}}, "counts.scored is 2, but 10 by the verdicts"),
    ({"counts": {"annotated": 4}}, "counts.annotated is 4, but 10 by the verdicts"),
    ({"counts": {"captioned": 2}}, "counts.captioned is 2, but 10 by the verdicts"),
    ({"overall": {"all": {"n": 2}}}, "overall.all.n is 2, but 10 by the verdicts"),
    ({"overall": {"scene": {"recall": {"value": 0.5}}}}, "overall.scene.recall.value is 0.5, but "),
    ({"by": {"domain": {"Food": None}}}, "by.domain.Food.all.precision.value is 0."),
    ({"by": {"domain": {}}}, "by.domain.Film.all.precision.value is missing, but 0."),
    ({"videos": {"z": {}}}, "videos.z is {}, but missing by the verdicts"),
    ({"videos": {"a": {}}}, "videos.a.all.entailed is missing, but 6 by the verdicts"),
    ({"videos": {"b": {"all": {"total": 9}}}}, "videos.b.all.total is 9, but 6 by the verdicts"),
    (
        {"videos": {"b": {"all": {"f1": 0.9}}}},
        "videos.b.all.f1 is 0.9, but 0.5454545454545454 by",
    ),
    ({"videos": {"c": {"colour": None}}}, "videos.c.colour.entailed is "),
    ({"unmatched_events": {"candidate": 9}}, "unmatched_events.candidate is 9, but 14"),
    ({"usage": {"split": {"calls": 3}}}, "usage.split.calls is 3, but missing by the verdicts"),
    ({"settings": {"judge": "gpt-5"}}, 'settings.judge is "gpt-5", but "gpt-4o" by the verdicts'),
    ({"settings": {"baseline": True}}, "settings.baseline is true, but false by the verdicts"),
    ({"settings": {"baseline": 0}}, "settings.baseline is 0, but false by the verdicts"),
    ({"settings": {"repeats": True}}, "settings.repeats is true, but 1 by the verdicts"),
    ({"settings": {"models": ["gpt-5"]}}, 'settings.models.1 is "gpt-5", but '),
    ({"settings": {"base_url": "http://x"}}, 'settings.base_url is "http://x", but null'),
    ({"settings": {"written by": "a later version"}}, "None"),
    ({"overall": {"all": {"f1": {"low": 0.0, "high": 1.0}}}}, "None"),
    ({"overall": {"all": {"f1": {"low": None, "high": None}}}}, "None"),
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
    assert str(stale(Scores.model_validate(values), judged)).startswith(told)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "judge:gpt-4o-2024-08-06",
            "judge:gpt-5",
            'signature.judge is "gpt-5", but "gpt-4o-2024-08-06" by the',
        ),
        ("repeats:1", "repeats:3", 'signature.repeats is "3", but "1" by the verdicts'),
        ("@10|", "@1000|", "signature.data is "),
        ("|avg:", "|judge:x|avg:", "signature.judge:x is"),
        ("|avg:macro", "", "signature.avg is missing"),
        ("|v:", "|v:0.", "None"),
    ],
)
def test_every_part_of_the_signature_but_the_version_is_held(old: str, new: str, told: str) -> None:
    judged = judgments(LABELS)
    right = summary(judged)
    assert old in right.signature
    forged = right.model_copy(update={"signature": right.signature.replace(old, new)})
    assert str(stale(forged, judged)).startswith(told)


def test_verdicts_of_another_judge_make_scores_stale() -> None:
    words = judgments(LABELS, Provenance(judge="lexical-1", prompts=None))
    told = stale(summary(judgments(LABELS)), words)
    assert told == 'signature.judge is "gpt-4o-2024-08-06", but "lexical-1" by the verdicts'


def test_sums_in_another_order_are_the_same() -> None:
    judged = judgments(LABELS)
    right = summary(judged)
    values = right.model_dump()
    values["overall"]["all"]["f1"]["value"] += 1e-12
    values["videos"]["a"]["all"]["f1"] -= 1e-12
    assert stale(Scores.model_validate(values), judged) is None


@pytest.mark.parametrize("videos", range(1, 9))
def test_intervals_of_five_videos_and_more_can_be_read(videos: int, tmp_path: Path) -> None:
    # Earlier versions gave five videos an interval.
    values = summary(judgments(LABELS)[:videos]).model_dump(mode="json")
    values["overall"]["all"]["f1"] |= {"low": 0.1, "high": 0.9}
    file = tmp_path / "scores.json"
    file.write_text(json.dumps(values))
    if videos >= 5:
        f1 = load_scores(file).overall.all.f1
        assert (f1.low, f1.high) == (0.1, 0.9)
    else:
        with pytest.raises(InputError, match="fewer than 5 never had one"):
            load_scores(file)
