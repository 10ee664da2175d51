from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from capeval.comparing.comparison import (
    BucketDifference,
    Comparison,
    Difference,
    Differences,
    Matrix,
)
from capeval.schema import CHARACTERISTICS, RELATIONS, Annotation, Scored
from capeval.scoring.counts import GROUPS, MEASURES, AnnotationArrays, measures
from capeval.stats.sign_flips import holm
from tests.comparing.making import compared as compare
from tests.scoring.making import annotation, scored, scores, verdict

Run = list[Scored]


def compared(videos: Sequence[Annotation], first: Run, second: Run, **more: Any) -> Comparison:
    found = compare(videos, first, second, **({"resamples": 300} | more))
    assert isinstance(found, Comparison)
    return found


def f1_of(videos: Sequence[Annotation], run: Run) -> Any:
    """Return the F1 of each video by the final labels."""
    arrays = AnnotationArrays(videos)
    return measures(arrays.counts(range(len(videos)), [j.relations for j in run]))[:, 0, 2]


def made(count: int, seed: int = 0, repeats: int = 0) -> tuple[list[Annotation], Run, Run]:
    """Videos of 1 to 4 events; the second run is a little better."""
    rng = np.random.default_rng(seed)
    videos = []
    for n in range(count):
        events = [
            " ".join(f"{rng.choice(list('csat'))}{rng.integers(1, 4)}" for _ in range(4))
            for _ in range(rng.integers(1, 5))
        ]
        tags = [tag for tag in CHARACTERISTICS if rng.random() < 0.5]
        domain = str(rng.choice(["Film", "Sport", "Food"]))
        videos.append(annotation(f"v{n}", *events, domain=domain, visual_characteristic=tags))

    def labels(video: Annotation, chance: float) -> str:
        p = [chance, 0.8 - chance, 0.2]
        return " ".join(
            "".join(rng.choice(list("+0-"), size=len(event.visual_elements), p=p))
            for event in video.events
        )

    def run(chance: float) -> Run:
        return [
            scored(
                video.index,
                labels(video, chance),
                repeats=tuple(verdict(labels(video, chance)) for _ in range(repeats)),
            )
            for video in videos
        ]

    return videos, run(0.4), run(0.5)


def every(found: Comparison) -> list[BucketDifference]:
    ways = (getattr(found.by, way) for way in Differences.model_fields)
    return [found.overall, *(bucket for way in ways for bucket in way.values())]


def numbers(bucket: BucketDifference) -> list[Difference]:
    return [getattr(getattr(bucket, group), m) for group in GROUPS for m in MEASURES]


def test_means_are_the_scores_of_the_paired_videos_and_the_second_is_less_the_first() -> None:
    videos, first, second = made(30)
    found = compared(videos, first, second)
    overall, by = found.overall, found.by
    one, other = (scores(videos, list(run)) for run in (first, second))
    assert set(by.domain) == set(one.by.domain)
    for way in Differences.model_fields:
        for name, bucket in [("", overall), *getattr(by, way).items()]:
            before = getattr(one.by, way)[name] if name else one.overall
            after = getattr(other.by, way)[name] if name else other.overall
            for group in GROUPS:
                assert getattr(bucket, group).n == getattr(before, group).n
                for measure in MEASURES:
                    of = getattr(getattr(bucket, group), measure)
                    means = [getattr(getattr(s, group), measure).value for s in (before, after)]
                    if getattr(bucket, group).n == 0:
                        assert (of.value, of.low, of.p, means) == (None, None, None, [None, None])
                        continue
                    assert [of.first, of.second] == pytest.approx(means)
                    assert of.value == pytest.approx(means[1] - means[0])


def gaps_of(videos: Sequence[Annotation], first: Run, second: Run) -> Any:
    return f1_of(videos, second) - f1_of(videos, first)


def test_interval_and_p_are_those_of_scipy() -> None:
    videos, first, second = made(40, seed=1)
    f1 = compared(videos, first, second, resamples=20_000).overall.all.f1
    gaps = gaps_of(videos, first, second)
    # Their skewness is so small that the correction moves the ends by a hundredth of the width.
    theirs = stats.t.interval(0.95, len(gaps) - 1, gaps.mean(), stats.sem(gaps))
    width = theirs[1] - theirs[0]
    assert (f1.low, f1.high) == pytest.approx(theirs, abs=0.01 * width)
    few, one, other = made(10, seed=2)
    exact = stats.permutation_test(
        (gaps_of(few, one, other), np.zeros(10)),
        lambda a, b: float(np.mean(a - b)),
        permutation_type="samples",
        n_resamples=2**10,
        vectorized=False,
    ).pvalue
    found = compared(few, one, other, resamples=20_000).overall.all.f1.p
    assert found == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize("count", [2, 3])
def test_the_seed_decides_the_resamples(count: int) -> None:
    videos, first, second = made(40, seed=1)
    runs = (first, second, [*first[:20], *second[20:]])[:count]
    one, same, other = (
        compare(videos, *runs, seed=seed).model_dump(exclude={"settings"}) for seed in (1, 1, 2)
    )
    assert one == same != other


def test_holm_is_over_the_f1_of_all_buckets_and_not_over_the_whole() -> None:
    whole, *buckets = every(compared(*made(60, seed=3), resamples=999))
    assert whole.p_adjusted is None
    assert len(buckets) > 8
    raw = [bucket.all.f1.p for bucket in buckets]
    assert all(p is not None for p in raw)
    assert [bucket.p_adjusted for bucket in buckets] == holm([p for p in raw if p is not None])


@st.composite
def two_runs(draw: st.DrawFn) -> tuple[list[Annotation], Run, Run]:
    videos, runs = [], ([], [])  # type: tuple[list[Annotation], tuple[Run, Run]]
    element = st.builds("{}{}".format, st.sampled_from("csat"), st.integers(1, 3))
    repeats = draw(st.integers(0, 3))
    for number in range(draw(st.integers(1, 4))):
        events = draw(st.lists(st.lists(element, min_size=1, max_size=3), min_size=1, max_size=3))
        tags = draw(st.lists(st.sampled_from(CHARACTERISTICS), unique=True))
        videos.append(annotation(f"v{number}", *map(" ".join, events), visual_characteristic=tags))
        for run in runs:
            rows = [
                " ".join(draw(st.text("+0-", min_size=len(e), max_size=len(e))) for e in events)
                for _ in range(repeats + 1)
            ]
            run.append(scored(f"v{number}", rows[0], repeats=tuple(map(verdict, rows[1:]))))
    return videos, *runs


@settings(deadline=None, max_examples=40)
@given(two_runs())
def test_swapping_the_runs_turns_every_sign_and_nothing_else(
    given: tuple[list[Annotation], Run, Run],
) -> None:
    videos, first, second = given
    there = every(compared(videos, first, second, resamples=60))
    back = every(compared(videos, second, first, resamples=60))
    for one, other in zip(there, back, strict=True):
        assert one.p_adjusted == other.p_adjusted
        for a, b in zip(numbers(one), numbers(other), strict=True):
            assert (a.first, a.second, a.p) == (b.second, b.first, b.p)
            assert (a.value is None) == (b.value is None)
            if a.value is not None and b.value is not None:
                assert a.value == pytest.approx(-b.value)
            if a.low is not None and a.high is not None:
                assert b.high is not None
                assert (a.low, a.high) == pytest.approx((-b.high, -(b.low or 0.0)), abs=1e-12)


@settings(deadline=None, max_examples=20)
@given(two_runs())
def test_a_run_does_not_differ_from_itself(given: tuple[list[Annotation], Run, Run]) -> None:
    videos, run, _ = given
    for bucket in every(compared(videos, run, run, resamples=60)):
        for one in numbers(bucket):
            assert one.value in (0.0, None)
            assert one.p in (1.0, None)
            if one.low is not None and one.high is not None:
                # The largest share of other videos that these could have missed.
                assert one.low < 0
                assert one.low == pytest.approx(-one.high)
    found = compared(videos, run, run, resamples=60)
    assert found.flips.elements == ()
    assert {move.f1.value for move in found.videos.values()} == {0.0}


def test_one_video_has_a_difference_and_no_interval() -> None:
    video = annotation("v", "c1 c1")
    found = compared([video], [scored("v", "+0")], [scored("v", "++")])
    overall, by = found.overall, found.by
    recall = overall.all.recall
    assert (recall.value, recall.low, recall.high, recall.p) == (0.5, None, None, 1.0)
    assert (overall.scene.n, overall.scene.f1.value, overall.scene.f1.p) == (0, None, None)
    assert (set(by.events), set(by.domain)) == ({"<=2"}, set())


def test_repeats_widen_the_interval_by_how_much_the_judge_varies() -> None:
    videos, first, second = made(12, seed=5, repeats=3)
    found = compared(videos, first, second, resamples=4_000).overall.all.f1

    def f1(run: Run, k: int) -> Any:
        return f1_of(
            videos, [j.model_copy(update={"relations": j.repeats[k].relations}) for j in run]
        )

    majority = gaps_of(videos, first, second)
    by_repeat = np.array([f1(second, k) - f1(first, k) for k in range(3)])
    assert found.value == pytest.approx(majority.mean())
    rows = (majority + by_repeat - by_repeat.mean(axis=0)).ravel()
    half = stats.t.ppf(0.975, 11) * np.sqrt(rows.var() / 11)
    ends = (majority.mean() - half, majority.mean() + half)
    assert (found.low, found.high) == pytest.approx(ends, abs=0.1 * half)
    # A judge that is not sure of itself makes the interval wider than the videos alone do.
    once = [[j.model_copy(update={"repeats": ()}) for j in run] for run in (first, second)]
    alone = compared(videos, *once, resamples=4_000).overall.all.f1
    assert alone.value == found.value
    assert alone.p == found.p
    assert None not in (alone.low, alone.high, found.low, found.high)
    assert (found.high or 0) - (found.low or 0) > 1.1 * ((alone.high or 0) - (alone.low or 0))


def test_a_run_with_fewer_repeats_reuses_them() -> None:
    videos, first, second = made(12, seed=5, repeats=2)
    once = [j.model_copy(update={"repeats": ()}) for j in first]
    overall = compared(videos, once, second, resamples=400).overall
    back = compared(videos, second, once, resamples=400).overall
    assert overall.all.f1.value == pytest.approx(gaps_of(videos, once, second).mean())
    assert overall.all.f1.low == pytest.approx(-(back.all.f1.high or 0))


@pytest.mark.parametrize("videos", [9, 40])
def test_the_detectable_difference_is_that_of_the_differences_of_f1(videos: int) -> None:
    given, first, second = made(videos)
    found = compared(given, first, second).detectable
    reach = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    sd = gaps_of(given, first, second).std(ddof=1)
    assert found == (None if videos < 10 else pytest.approx(reach * sd / np.sqrt(videos)))


def test_flips_are_counted_from_the_first_to_the_second() -> None:
    videos = [annotation("a", "c3 s2", "a1"), annotation("b", "c1")]
    runs = [
        [scored(v.index, row) for v, row in zip(videos, labels, strict=True)]
        for labels in (("+0 -", "+"), ("0- -", "-"))
    ]
    found = compared(videos, runs[0], runs[1]).flips
    flipped = [(f.index, f.element_id, f.type, f.weight, f.first, f.second) for f in found.elements]
    assert flipped == [
        ("a", "1.1", "camera", 3, "entailment", "lack"),
        ("a", "1.2", "scene", 2, "lack", "contradiction"),
        ("b", "1.1", "camera", 1, "entailment", "contradiction"),
    ]
    table = [[found.counts["all"][x][y] for y in RELATIONS] for x in RELATIONS]
    assert table == [[0, 1, 1], [0, 0, 1], [0, 0, 1]]
    camera = found.counts["camera"]["entailment"]
    assert camera == {"entailment": 0, "lack": 1, "contradiction": 1}


def test_several_runs_are_ranked_and_every_pair_is_tested() -> None:
    videos, low, _ = made(60)
    best = [
        scored(v.index, " ".join("+" * len(e.visual_elements) for e in v.events)) for v in videos
    ]
    found = compare(videos, low, best, low, names="xyz", resamples=999)
    assert isinstance(found, Matrix)
    means = [(run.precision, run.recall, run.f1) for run in found.runs]
    assert means[1] == (1.0, 1.0, 1.0)
    assert means[0] == means[2]
    assert [run.cluster for run in found.runs] == [2, 1, 2]
    pairs = found.pairs
    assert [pair.first + pair.second for pair in pairs] == ["xy", "xz", "yz"]
    assert pairs[0].value == pytest.approx(-pairs[2].value)
    assert [pair.p for pair in pairs] == [0.001, 1.0, 0.001]
    assert [pair.p_adjusted for pair in pairs] == [0.003, 1.0, 0.003]
    # The two agree in 60 videos: others may differ, in any direction.
    missed = 1 - 0.025 ** (1 / 60)
    assert (pairs[1].low, pairs[1].high) == pytest.approx((-missed, missed))
    alone = compared(videos, low, best, resamples=999).overall.all.f1
    assert (pairs[0].low, pairs[0].high) == pytest.approx((alone.low, alone.high))
