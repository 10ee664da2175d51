"""The layout of `scores.json` is a contract: other programs read it."""

from __future__ import annotations

import json
from typing import Any

from capeval.scoring import Scores, Signature
from tests.scoring.making import annotation, scored, scores

GROUPS = {"all", "camera", "scene", "action", "attribute"}
ESTIMATE = {"value", "low", "high"}


def made() -> dict[str, Any]:
    videos = [
        annotation(index, "c1 s2", "a3 t1", domain="Film", visual_characteristic="Low-Dynamic")
        for index in "ab"
    ]
    result = scores(videos, [scored("a", "++ 0-"), scored("b", "00 00")], settings={"x": 1})
    text = result.model_dump_json()
    assert Scores.model_validate_json(text) == result
    value: dict[str, Any] = json.loads(text)
    return value


def check(bucket: dict[str, Any]) -> None:
    assert set(bucket) == GROUPS
    for group in bucket.values():
        assert set(group) == {"precision", "recall", "f1", "n"}
        for measure in ("precision", "recall", "f1"):
            assert set(group[measure]) == ESTIMATE


def test_fields_are_those_of_the_design() -> None:
    value = made()
    assert set(value) == {
        "signature",
        "counts",
        "overall",
        "by",
        "videos",
        "unmatched_events",
        "repeat_spread",
        "usage",
        "settings",
    }
    # "b" has no event: its caption is empty.
    assert value["counts"] == {
        "annotated": 2,
        "captioned": 2,
        "scored": 2,
        "unscored": 0,
        "empty": 1,
    }
    check(value["overall"])
    assert set(value["by"]) == {"visual_characteristic", "domain", "events", "elements"}
    for buckets in value["by"].values():
        assert buckets
        for bucket in buckets.values():
            check(bucket)
    for video in value["videos"].values():
        assert set(video) <= GROUPS
        for group in video.values():
            assert set(group) == {
                "entailed",
                "contradicted",
                "total",
                "precision",
                "recall",
                "f1",
            }


def test_signature_stays_one_line_of_its_own_fields() -> None:
    made = Signature.of_scores(
        judge="evil|avg:micro\nv:9 \x1b[31m",
        prompts="none",
        repeats=3,
        data_hash="0123456789",
        annotated=2,
        version="1",
    )
    assert str(made) == (
        r"capeval:tuna-cap|judge:evil/avg:micro v:9 \x1b[31m|prompts:none|repeats:3|avg:macro"
        "|data:012345@2|v:1"
    )
    assert Signature.parse(str(made)) == made
