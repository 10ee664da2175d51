"""From verdicts to `Scores`: means over videos, overall and in every bucket, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from capeval.schema import CHARACTERISTICS, Annotation, Judgment, Relation, Scored, Usage
from capeval.scoring.counts import COUNTS, GROUPS, MEASURES, measures, weight_counts
from capeval.scoring.result import (
    Breakdown,
    Bucket,
    Counts,
    Estimate,
    RepeatSpread,
    Scores,
    TypeScores,
    UnmatchedEvents,
    VideoScore,
)
from capeval.stats import bootstrap_means

B = TypeVar("B")

DRAWS = 10_000
EVENT_BUCKETS = ((2, "<=2"), (4, "3-4"), (6, "5-6"), (8, "7-8"), (None, ">=9"))
ELEMENT_BUCKETS = ((15, "<=15"), (20, "16-20"), (25, "21-25"), (30, "26-30"), (None, ">=31"))


def bucket_name(count: int, buckets: Sequence[tuple[int | None, str]]) -> str:
    """Return the name of the bucket that a count falls in.

    >>> bucket_name(16, ELEMENT_BUCKETS), bucket_name(31, ELEMENT_BUCKETS)
    ('16-20', '>=31')
    """
    return next(name for top, name in buckets if top is None or count <= top)


def score_judgments(
    annotations: Sequence[Annotation],
    judgments: Sequence[Judgment],
    *,
    captioned: int,
    signature: str,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    draws: int = DRAWS,
) -> Scores:
    """Score stored verdicts.

    Unscored judgments enter no mean; only the counts show them.

    Parameters
    ----------
    annotations : of the whole set
    judgments : at most one per annotated video, in any order
    captioned : number of videos that have a caption
    draws : of the bootstrap over videos

    Raises
    ------
    ValueError
        A judgment is of no annotated video, or its relations do not fit the annotation.
    """
    by_index = {judgment.index: judgment for judgment in judgments}
    stray = by_index.keys() - {annotation.index for annotation in annotations}
    if stray or len(by_index) != len(judgments):
        raise ValueError(f"judgments do not belong to the annotations: {sorted(stray)[:3]}")
    pairs = [
        (annotation, judgment)
        for annotation in annotations
        if isinstance(judgment := by_index.get(annotation.index), Scored)
    ]
    videos = [annotation for annotation, _ in pairs]
    counts = _stack([weight_counts(a, j.relations) for a, j in pairs])
    values = measures(counts)
    overall, by = _tables(videos, values, seed=seed, draws=draws)
    return Scores(
        signature=signature,
        counts=Counts(
            annotated=len(annotations),
            captioned=captioned,
            scored=len(pairs),
            unscored=captioned - len(pairs),
        ),
        overall=overall,
        by=by,
        videos={
            video.index: _video_scores(counts[row], values[row]) for row, video in enumerate(videos)
        },
        unmatched_events=_unmatched([judgment for _, judgment in pairs]),
        repeat_spread=_spread(pairs),
        usage=_usage(judgments),
        settings=dict(settings or {}),
    )


def _stack(counts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.stack(counts) if counts else np.zeros((0, len(GROUPS), len(COUNTS)), dtype=np.int64)


def _tables(
    videos: Sequence[Annotation], values: NDArray[np.float64], *, seed: int, draws: int
) -> tuple[Bucket, Breakdown]:
    every = Membership("overall", "", np.ones(len(videos), dtype=bool))
    members = [every, *memberships(videos)]
    # (videos, buckets, groups, measures): NaN where the video is not of the bucket.
    masks = np.array([of.inside for of in members]).T
    spread = np.where(masks[:, :, None, None], values[:, None], np.nan)
    flat = spread.reshape(len(videos), len(members) * len(GROUPS) * len(MEASURES))
    low, high = bootstrap_means(flat, draws=draws, seed=seed)
    n = (~np.isnan(flat)).sum(axis=0)
    mean = np.divide(np.nansum(flat, axis=0), n, out=np.full(len(n), np.nan), where=n > 0)
    shape = (len(members), len(GROUPS), len(MEASURES))
    table = np.stack([mean, low, high], axis=-1).reshape(*shape, 3)
    sizes = n.reshape(shape)[:, :, 0]

    buckets = [_bucket(table[b], sizes[b]) for b in range(len(members))]
    return buckets[0], Breakdown(**by_way(members[1:], buckets[1:]))


@dataclass(frozen=True)
class Membership:
    """One bucket of one way to group videos; `inside` is (videos,) and says which are in it."""

    way: str
    name: str
    inside: NDArray[np.bool_]


def memberships(videos: Sequence[Annotation]) -> list[Membership]:
    """Return every bucket that holds a video, by the ways of `Breakdown`, each in its order."""
    result = []
    for way, tags_of, names in _ways(videos):
        tags = [tags_of(video) for video in videos]
        for name in names:
            inside = np.array([name in of_video for of_video in tags], dtype=bool)
            if inside.any():
                result.append(Membership(way, name, inside))
    return result


def by_way(members: Sequence[Membership], buckets: Sequence[B]) -> dict[str, dict[str, B]]:
    """Return what is known of each bucket by the ways of `Breakdown`, then by its name."""
    grouped: dict[str, dict[str, B]] = {way: {} for way in Breakdown.model_fields}
    for member, bucket in zip(members, buckets, strict=True):
        grouped[member.way][member.name] = bucket
    return grouped


_Way = tuple[str, Callable[[Annotation], Sequence[str]], Sequence[str]]


def _ways(videos: Sequence[Annotation]) -> list[_Way]:
    domains = sorted({video.domain for video in videos if video.domain})
    return [
        ("visual_characteristic", lambda video: video.visual_characteristic, CHARACTERISTICS),
        ("domain", lambda video: (video.domain or "",), domains),
        (
            "events",
            lambda video: (bucket_name(len(video.events), EVENT_BUCKETS),),
            [name for _, name in EVENT_BUCKETS],
        ),
        (
            "elements",
            lambda video: (bucket_name(video.element_count, ELEMENT_BUCKETS),),
            [name for _, name in ELEMENT_BUCKETS],
        ),
    ]


def _bucket(table: NDArray[np.float64], sizes: NDArray[np.int64]) -> Bucket:
    return Bucket(
        **{
            group: TypeScores(
                **{
                    measure: Estimate(
                        value=_number(table[g, m, 0]),
                        low=_number(table[g, m, 1]),
                        high=_number(table[g, m, 2]),
                    )
                    for m, measure in enumerate(MEASURES)
                },
                n=int(sizes[g]),
            )
            for g, group in enumerate(GROUPS)
        }
    )


def _number(value: np.float64) -> float | None:
    return None if np.isnan(value) else float(value)


def _video_scores(counts: NDArray[np.int64], values: NDArray[np.float64]) -> dict[str, VideoScore]:
    return {
        group: VideoScore(
            **dict(zip(COUNTS, counts[g].tolist(), strict=True)),
            **dict(zip(MEASURES, values[g].tolist(), strict=True)),
        )
        for g, group in enumerate(GROUPS)
        if counts[g, 2] > 0
    }


def _unmatched(judgments: Sequence[Scored]) -> UnmatchedEvents:
    candidate = sum(len(judgment.matches) for judgment in judgments)
    unmatched = sum(judgment.matches.count(None) for judgment in judgments)
    share = unmatched / candidate if candidate else None
    return UnmatchedEvents(unmatched=unmatched, candidate=candidate, share=share)


def _usage(judgments: Sequence[Judgment]) -> dict[str, Usage]:
    total: dict[str, Usage] = {}
    for judgment in judgments:
        for stage, usage in judgment.usage.items():
            total[stage] = total.get(stage, Usage()) + usage
    return total


def _spread(pairs: Sequence[tuple[Annotation, Scored]]) -> RepeatSpread | None:
    repeated = [(a, j.repeats) for a, j in pairs if len(j.repeats) > 1]
    if not repeated:
        return None
    repeats = min(len(verdicts) for _, verdicts in repeated)
    means = np.array(
        [
            measures(_stack([weight_counts(a, verdicts[k].relations) for a, verdicts in repeated]))[
                :, 0
            ].mean(axis=0)
            for k in range(repeats)
        ]
    )
    alike = [
        len(set(labels)) == 1
        for _, verdicts in repeated
        for labels in zip(*(_flat(v.relations) for v in verdicts), strict=True)
    ]
    return RepeatSpread(
        repeats=repeats,
        precision=tuple(means[:, 0].tolist()),
        recall=tuple(means[:, 1].tolist()),
        f1=tuple(means[:, 2].tolist()),
        f1_sd=float(means[:, 2].std(ddof=1)),
        unanimous=sum(alike) / len(alike),
    )


def _flat(relations: Sequence[Sequence[Relation]]) -> list[Relation]:
    return [relation for event in relations for relation in event]
