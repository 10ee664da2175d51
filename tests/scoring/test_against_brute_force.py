"""The scorer against one written from the definition in the paper, in exact fractions."""

from collections.abc import Callable, Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capeval.schema import (
    CHARACTERISTICS,
    ELEMENT_TYPES,
    Annotation,
    Scored,
    Unscored,
    VisualElement,
)
from capeval.scoring.scores import Bucket, Scores
from capeval.stats.values import FEWEST_VIDEOS
from tests.scoring.making import annotation, scored, scores

Set = tuple[list[Annotation], list[Scored | Unscored]]
PRF = tuple[Fraction, Fraction, Fraction]


@st.composite
def judged_sets(draw: st.DrawFn, smallest: int = 0) -> Set:
    videos: list[Annotation] = []
    judgments: list[Scored | Unscored] = []
    element = st.builds("{}{}".format, st.sampled_from("csat"), st.integers(1, 3))
    for number in range(draw(st.integers(smallest, 8))):
        events = draw(st.lists(st.lists(element, min_size=1, max_size=4), min_size=1, max_size=4))
        video = annotation(
            f"v{number}",
            *map(" ".join, events),
            domain=draw(st.sampled_from(["Film", "Sport", None])),
            visual_characteristic=draw(st.lists(st.sampled_from(CHARACTERISTICS), unique=True)),
        )
        videos.append(video)
        labels = " ".join(
            draw(st.text("+0-", min_size=len(event), max_size=len(event))) for event in events
        )
        match draw(st.integers(0, 5)):
            case 0:
                judgments.append(Unscored(index=video.index, reason="no"))
            case 1:
                pass
            case _:
                judgments.append(scored(video.index, labels))
    return videos, judgments


def labelled(video: Annotation, judgment: Scored) -> list[tuple[VisualElement, str]]:
    return [
        (element, relation)
        for event, relations in zip(video.events, judgment.relations, strict=True)
        for element, relation in zip(event.visual_elements, relations, strict=True)
    ]


def prf(elements: Sequence[tuple[VisualElement, str]]) -> PRF | None:
    if not elements:
        return None

    def weight(*labels: str) -> int:
        return sum(element.weight for element, label in elements if label in labels)

    entailed, mentioned = weight("entailment"), weight("entailment", "contradiction")
    precision = Fraction(entailed, mentioned) if mentioned else Fraction(0)
    recall = Fraction(entailed, weight("entailment", "contradiction", "lack"))
    both = precision + recall
    return precision, recall, 2 * precision * recall / both if both else Fraction(0)


def check(bucket: Bucket, pairs: Sequence[tuple[Annotation, Scored]]) -> None:
    for group in ("all", *ELEMENT_TYPES):
        each = [
            prf([pair for pair in labelled(*pair) if group in ("all", pair[0].type)])
            for pair in pairs
        ]
        found = [value for value in each if value is not None]
        shown = getattr(bucket, group)
        assert shown.n == len(found)
        for place, measure in enumerate(("precision", "recall", "f1")):
            estimate = getattr(shown, measure)
            if found:
                mean = sum((value[place] for value in found), Fraction(0)) / len(found)
                assert estimate.value == pytest.approx(float(mean), abs=1e-12)
                assert 0 <= estimate.value <= 1
            else:
                assert estimate.value is None
            if len(found) >= FEWEST_VIDEOS:
                assert 0 <= estimate.low <= estimate.high <= 1
                assert estimate.low - 1e-12 <= max(float(value[place]) for value in found)
            else:
                assert estimate.low is None
                assert estimate.high is None


EVENTS: dict[str, Callable[[int], bool]] = {
    "<=2": lambda n: n <= 2,
    "3-4": lambda n: n in (3, 4),
    "5-6": lambda n: n in (5, 6),
    "7-8": lambda n: n in (7, 8),
    ">=9": lambda n: n >= 9,
}


@settings(max_examples=50)
@given(judged_sets())
def test_every_number_is_what_the_definition_says(judged: Set) -> None:
    videos, judgments = judged
    result = scores(videos, judgments)
    by_index = {j.index: j for j in judgments if isinstance(j, Scored)}
    pairs = [(video, by_index[video.index]) for video in videos if video.index in by_index]
    check(result.overall, pairs)
    assert result.counts.scored == len(pairs) == len(result.videos)
    assert result.counts.unscored == len(judgments) - len(pairs)
    for video, judgment in pairs:
        for group in ("all", *ELEMENT_TYPES):
            each = [one for one in labelled(video, judgment) if group in ("all", one[0].type)]
            found, shown = prf(each), result.videos[video.index].get(group)
            assert (shown is None) == (found is None)
            if shown and found:
                measured = [shown.precision, shown.recall, shown.f1]
                assert measured == pytest.approx([*map(float, found)])

    expected: dict[str, dict[str, list[tuple[Annotation, Scored]]]] = {
        "visual_characteristic": {
            name: [pair for pair in pairs if name in pair[0].visual_characteristic]
            for name in CHARACTERISTICS
        },
        "domain": {
            name: [pair for pair in pairs if pair[0].domain == name] for name in ("Film", "Sport")
        },
        "events": {
            name: [pair for pair in pairs if inside(len(pair[0].events))]
            for name, inside in EVENTS.items()
        },
    }
    for way, buckets in expected.items():
        by = getattr(result.by, way)
        assert set(by) == {name for name, inside in buckets.items() if inside}
        for name, bucket in by.items():
            check(bucket, buckets[name])


def values_of(result: Scores) -> dict[str, object]:
    """All but the intervals, rounded: sums in another order differ in the last bit."""
    return {
        "values": [
            [round(getattr(group, m).value, 12) if group.n else None for m in ("precision", "f1")]
            for _, group in result.overall
        ],
        "videos": {index: result.videos[index] for index in sorted(result.videos)},
        "counts": result.counts,
        "unmatched": result.unmatched_events,
    }


@settings(max_examples=15)
@given(judged_sets(smallest=2), st.randoms(use_true_random=False))
def test_order_of_videos_and_judgments_does_not_matter(judged: Set, random: object) -> None:
    videos, judgments = judged
    before = scores(videos, judgments)
    assert scores(videos, judgments[::-1]) == before
    assert values_of(scores(videos[::-1], judgments)) == values_of(before)


@settings(max_examples=15)
@given(judged_sets(smallest=1))
def test_failed_videos_change_nothing_but_the_counts(judged: Set) -> None:
    videos, judgments = judged
    only = [judgment for judgment in judgments if isinstance(judgment, Scored)]
    every, some = (scores(videos, given, captioned=9) for given in (judgments, only))
    assert every == some
