"""The layout of `scores.json` is a contract: other programs read it."""

from __future__ import annotations

import json

from capeval.scoring import GROUPS, MEASURES, Scores, Signature
from tests.scoring.making import annotation, scored, scores


def test_fields_are_the_documented_ones() -> None:
    videos = [
        annotation(index, "c1 s2", "a3 t1", domain="Film", visual_characteristic="Low-Dynamic")
        for index in "ab"
    ]
    result = scores(videos, [scored("a", "++ 0-"), scored("b", "00 00")])
    value = json.loads(result.model_dump_json())
    assert Scores.model_validate(value) == result
    assert [*value] == (
        [
            "signature",
            "counts",
            "overall",
            "by",
            "videos",
            "unmatched_events",
            "repeat_spread",
            "usage",
            "settings",
        ]
    )
    # "b" has no event: its caption is empty.
    counts = {"annotated": 2, "captioned": 2, "scored": 2, "unscored": 0, "empty": 1}
    assert value["counts"] == counts
    assert [*value["by"]] == ["visual_characteristic", "domain", "events", "elements"]
    buckets = [bucket for way in value["by"].values() for bucket in way.values()]
    for bucket in [value["overall"], *buckets]:
        assert [*bucket] == [*GROUPS]
        for of in bucket.values():
            assert [*of] == [*MEASURES, "n"]
            assert all([*of[measure]] == ["value", "low", "high"] for measure in MEASURES)
    weights = ["entailed", "contradicted", "total", *MEASURES]
    assert all([*of] == weights for video in value["videos"].values() for of in video.values())


def test_signature_stays_one_line_of_its_own_fields() -> None:
    made = Signature.of({"judge": "evil|avg:micro\nv:9 \x1b[31m", "v": "1"})
    assert str(made) == r"judge:evil/avg:micro v:9 \x1b[31m|v:1"
    assert Signature.parse(str(made)) == made
