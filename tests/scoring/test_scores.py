"""Examples that were worked out on paper."""

import json
from pathlib import Path
from typing import Any

import pytest

from capeval.schema import Provenance, Scored, Unscored, Usage, Verdict
from capeval.scoring.counts import GROUPS, MEASURES
from capeval.scoring.scores import RunScores, Scores
from capeval.scoring.verdicts import signature_parts, signature_text
from tests.golden import check_golden, screen
from tests.judged_runs import VIDEOS, judgments
from tests.scoring.making import annotation, relations, scored, scores

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


@pytest.mark.parametrize(
    "judgments", [[scored("a", "++")], [scored("a", "+ +")], [scored("a", "")]]
)
def test_relations_that_do_not_fit_the_annotation_are_never_scored(judgments: list[Scored]) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        scores([annotation("a", "c1")], judgments)


def test_fields_are_the_documented_ones() -> None:
    videos = [annotation(index, "c1 s2", "a3 t1") for index in "ab"]
    result = scores(videos, [scored("a", "++ 0-"), scored("b", "00 00")])
    value = json.loads(result.model_dump_json())
    assert Scores.model_validate(value) == result
    assert [*value] == [
        *("signature", "counts", "mean_words", "overall", "by", "videos", "unmatched_events"),
        *("repeat_spread", "usage", "settings"),
    ]
    # "b" has no event: its caption is empty.
    counts = {"annotated": 2, "captioned": 2, "scored": 2, "unscored": 0, "empty": 1}
    assert value["counts"] == counts
    assert [*value["by"]] == ["visual_characteristic", "domain", "events", "elements"]
    assert [*value["overall"]] == [*GROUPS]
    assert [*value["overall"]["all"]] == [*MEASURES, "n"]
    assert [*value["overall"]["all"]["f1"]] == ["value", "low", "high"]
    assert [*value["videos"]["a"]["all"]] == ["entailed", "contradicted", "total", *MEASURES]


def test_signature_stays_one_line_of_its_own_fields() -> None:
    made = signature_text({"judge": "evil|avg:micro\nv:9 \x1b[31m", "v": "1"})
    assert made == r"judge:evil/avg:micro v:9 \x1b[31m|v:1"
    assert signature_parts(made) == {"judge": r"evil/avg:micro v:9 \x1b[31m", "v": "1"}


GOLDEN = Path(__file__).parent / "golden" / "scores.txt"
BASELINE = Provenance(judge="words", baseline=True)


def results() -> dict[str, Scores]:
    half: dict[str, Any] = {"candidate_events": ("x", "y"), "matches": (1, None)}
    refused = Unscored(index="b", reason="the judge refused", provenance=BASELINE)
    return {
        "perfect": scores(VIDEOS, judgments("+++ +++ | +++ | ++ +", Provenance(), **half)),
        "[red]x[/red] [link=http://evil]": scores(
            VIDEOS, judgments("+0- 0++ | 0+- | 00 +", Provenance(), **half)
        ),
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
    none = {"a": scores(VIDEOS, []), "b": scores(VIDEOS[:2], [], captioned=2)}
    assert screen(RunScores(none)).startswith("none of 2 captions of 2 runs was scored.")
    full = screen(RunScores(results()))
    for what in ("domain", "number of events", "number of elements"):
        assert f"By {what}" not in text
        assert f"By {what}" in full
