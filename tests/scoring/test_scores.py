"""Examples that were worked out on paper."""

import json
from pathlib import Path
from typing import Any

import pytest

from capeval.schema import Provenance, Scored, Unscored, Usage, Verdict
from capeval.scoring.counts import GROUPS, MEASURES
from capeval.scoring.scores import RunScores, Scores, TypeScores
from capeval.scoring.verdicts import in_force, signature_parts, signature_text
from tests.golden import check_golden, screen
from tests.judged_runs import VIDEOS
from tests.scoring.making import annotation, relations, scored, scores

VIDEO = annotation("v", "c3 s2 a3", "t1 a1 c2", domain="Film", visual_characteristic="Low-Dynamic")


def values(of: TypeScores) -> tuple[float | None, float | None, float | None]:
    return of.precision.value, of.recall.value, of.f1.value


def test_one_video_by_hand() -> None:
    overall = scores([VIDEO], [scored("v", "+0- 0++")]).overall
    # camera: 3 and 2 entailed of 5; scene: 2 lacking; action: 1 entailed, 3 contradicted of 4.
    assert values(overall.camera) == (1.0, 1.0, 1.0)
    assert values(overall.scene) == (0.0, 0.0, 0.0)
    assert values(overall.action) == (0.25, 0.25, 0.25)
    assert values(overall.attribute) == (0.0, 0.0, 0.0)
    # All: 6 entailed, 3 contradicted, 12 in total; not the mean of the types.
    assert values(overall.all) == (6 / 9, 6 / 12, 12 / 21)


SIZES = {"<=15": (1, 15), "16-20": (16, 20), "21-25": (21, 25), "26-30": (26, 30), ">=31": (31, 90)}


def test_buckets_of_elements() -> None:
    # In their own order, whatever that of the videos.
    sizes = {f"v{n}": n for ends in reversed(SIZES.values()) for n in ends}
    videos = [annotation(index, " ".join(["c1"] * n)) for index, n in sizes.items()]
    found = scores(videos, [scored(i, "+" * n) for i, n in sizes.items()]).by.elements
    assert {name: bucket.all.n for name, bucket in found.items()} == dict.fromkeys(SIZES, 2)
    assert list(found) == list(SIZES)


def test_unmatched_events_are_counted_over_scored_videos() -> None:
    videos = [annotation("a", "c1"), annotation("b", "c1"), annotation("c", "c1")]
    judgments: list[Scored | Unscored] = [
        scored("a", "+", candidate_events=("x", "y", "z"), matches=(None, 1, None)),
        scored("b", "+", candidate_events=("x",), matches=(1,)),
        Unscored(index="c", reason="no", candidate_events=("x",), matches=(None,)),
    ]
    unmatched = scores(videos, judgments).unmatched_events
    assert unmatched.model_dump() == {"unmatched": 2, "candidate": 4, "share": 0.5}


def test_usage_counts_unscored_videos_too() -> None:
    videos = [annotation("a", "c1"), annotation("b", "c1")]
    judgments: list[Scored | Unscored] = [
        scored("a", "+", usage={"split": Usage(calls=1, input_tokens=10)}),
        Unscored(
            index="b",
            reason="no",
            usage={"split": Usage(calls=2, input_tokens=5), "match": Usage(calls=1)},
        ),
    ]
    assert scores(videos, judgments).usage == {
        "split": Usage(calls=3, input_tokens=15),
        "match": Usage(calls=1),
    }


def repeated(index: str, *labels: str) -> Scored:
    verdicts = [
        Verdict(candidate_events=(), matches=(), relations=relations(each)) for each in labels
    ]
    return scored(index, labels[0], repeats=tuple(verdicts))


def test_repeat_spread_by_hand() -> None:
    videos = [annotation("a", "c1 c1"), annotation("b", "c1 c1")]
    spread = scores(videos, [repeated("a", "++", "+0"), repeated("b", "00", "+-")]).repeat_spread
    assert spread is not None
    assert spread.repeats == 2
    assert spread.precision == (0.5, 0.75)
    assert spread.recall == (0.5, 0.5)
    assert spread.f1 == pytest.approx((0.5, (2 / 3 + 1 / 2) / 2))
    mean = sum(spread.f1) / 2
    assert spread.f1_sd == pytest.approx(sum((f1 - mean) ** 2 for f1 in spread.f1) ** 0.5)
    # Of four elements only the first of video a has one label throughout.
    assert spread.unanimous == 0.25


def test_a_judgment_with_fewer_repeats_than_asked_does_not_count() -> None:
    once = scored("a", "++")
    assert in_force(once, None, 1) == once
    few = in_force(once, None, 2)
    assert isinstance(few, Unscored)
    assert few.reason == "it has 1 of 2 repeats; judge it with --repeats 2"


@pytest.mark.parametrize(
    "judgments", [[scored("a", "++")], [scored("a", "+ +")], [scored("a", "")]]
)
def test_relations_that_do_not_fit_the_annotation_are_never_scored(judgments: list[Scored]) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        scores([annotation("a", "c1")], judgments)


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
            "mean_words",
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
    made = signature_text({"judge": "evil|avg:micro\nv:9 \x1b[31m", "v": "1"})
    assert made == r"judge:evil/avg:micro v:9 \x1b[31m|v:1"
    assert signature_parts(made) == {"judge": r"evil/avg:micro v:9 \x1b[31m", "v": "1"}


GOLDEN = Path(__file__).parent / "golden" / "scores.txt"
BASELINE = Provenance(judge="words", baseline=True)


def judged(*labels: str, **more: Any) -> list[Scored | Unscored]:
    """Verdicts on the ten videos, which repeat three."""
    events: list[dict[str, Any]] = [
        {"candidate_events": ("x", "y"), "matches": (1, None)},
        {"candidate_events": ("x",), "matches": (1,)},
        {"candidate_events": ("x", "y"), "matches": (1, 2)},
    ]
    places = (0, 1, 2, 0, 1, 0, 1, 2, 0, 1)
    return [
        scored(video.index, labels[place], **events[place], **more)
        for video, place in zip(VIDEOS, places, strict=True)
    ]


def results() -> dict[str, Scores]:
    refused = Unscored(index="b", reason="the judge refused", provenance=BASELINE)
    return {
        "perfect": scores(VIDEOS, judged("+++ +++", "+++", "++ +")),
        "[red]x[/red] [link=http://evil]": scores(VIDEOS, judged("+0- 0++", "0+-", "00 +")),
        "a-name-that-is-much-longer-than-its-column-can-hold-2024-08-06": scores(
            VIDEOS, [scored("a", "000 000", provenance=BASELINE), refused]
        ),
        "nothing": scores(VIDEOS, []),
    }


def test_the_screen_is_the_golden_one_and_full_adds_tables() -> None:
    text = screen(RunScores(results()), full=False)
    check_golden(GOLDEN, text)
    two = screen(RunScores(dict(list(results().items())[:2])), full=False)
    assert "the highest of 2 runs" in two
    full = screen(RunScores(results()))
    for what in ("domain", "number of events", "number of elements"):
        assert f"By {what}" not in text
        assert f"By {what}" in full
