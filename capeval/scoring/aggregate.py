"""From verdicts to `Scores`: means over videos, overall and in every bucket, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capeval.schema import Annotation, Judgment, Relation, Scored, Usage
from capeval.scoring.counts import (
    GROUPS,
    MEASURES,
    AnnotationArrays,
    Membership,
    as_arrays,
    by_way,
    measures,
)
from capeval.scoring.score_parts import (
    Breakdown,
    Bucket,
    Counts,
    Estimate,
    RepeatSpread,
    TypeScores,
    UnmatchedEvents,
    VideoScore,
)
from capeval.scoring.scores import Scores
from capeval.stats import mean_intervals


def score_judgments(
    annotations: Sequence[Annotation] | AnnotationArrays,
    judgments: Sequence[Judgment],
    *,
    captioned: int,
    signature: str,
    settings: Mapping[str, Any] | None = None,
) -> Scores:
    """Score stored verdicts.

    Unscored judgments enter no mean; only the counts show them.

    Parameters
    ----------
    annotations : of the whole set; as `AnnotationArrays`, they serve several runs
    judgments : at most one per annotated video, in any order
    captioned : number of videos that have a caption

    Raises
    ------
    ValueError
        A judgment is of a video that is not annotated, or does not fit its annotation.
    """
    reference = as_arrays(annotations)
    by_index = {judgment.index: judgment for judgment in judgments}
    stray = by_index.keys() - reference.rows.keys()
    if stray or len(by_index) != len(judgments):
        raise ValueError(f"judgments do not belong to the annotations: {sorted(stray)[:3]}")
    scored = {
        row: judgment
        for index, row in reference.rows.items()
        if isinstance(judgment := by_index.get(index), Scored)
    }
    rows = list(scored)
    counts = reference.counts(rows, [judgment.relations for judgment in scored.values()])
    values = measures(counts)
    indexes = [judgment.index for judgment in scored.values()]
    members = reference.members_of(rows)
    overall, by = _tables(values, members)
    return Scores(
        signature=signature,
        counts=Counts(
            annotated=len(reference.annotations),
            captioned=captioned,
            scored=len(rows),
            unscored=captioned - len(rows),
            empty=sum(not judgment.candidate_events for judgment in scored.values()),
        ),
        overall=overall,
        by=by,
        videos=_videos(indexes, counts, values),
        unmatched_events=_unmatched(list(scored.values())),
        repeat_spread=_spread(reference, scored),
        usage=_usage(judgments),
        settings=dict(settings or {}),
    )


def _tables(values: NDArray[np.float64], members: Sequence[Membership]) -> tuple[Bucket, Breakdown]:
    members = [Membership("overall", "", np.ones(len(values), dtype=bool)), *members]
    shape = (len(members), len(GROUPS), len(MEASURES))
    present = ~np.isnan(values)
    filled = np.where(present, values, 0.0)
    n = np.array([present[of.inside].sum(axis=0) for of in members])
    sums = np.array([filled[of.inside].sum(axis=0) for of in members])
    mean = np.divide(sums, n, out=np.full(shape, np.nan), where=n > 0)
    flat = values.reshape(len(values), mean[0].size)
    # Bucket by bucket: all of them at once take more memory than the verdicts.
    ends = [
        mean_intervals(np.where(of.inside[:, None], flat, np.nan), limits=(0, 1)) for of in members
    ]
    low, high = np.array(ends).swapaxes(0, 1).reshape(2, *shape)
    table = np.stack([mean, low, high], axis=-1)
    buckets = [_bucket(table[b], n[b, :, 0]) for b in range(len(members))]
    return buckets[0], Breakdown(**by_way(members[1:], buckets[1:]))


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


def _videos(
    indexes: Sequence[str], counts: NDArray[np.int64], values: NDArray[np.float64]
) -> dict[str, dict[str, VideoScore]]:
    return {
        index: {
            group: VideoScore(*of_group, *measured)
            for group, of_group, measured in zip(
                GROUPS, *(one.tolist() for one in of_video), strict=True
            )
            if of_group[-1] > 0
        }
        for index, *of_video in zip(indexes, counts, values, strict=True)
    }


def _unmatched(judgments: Sequence[Scored]) -> UnmatchedEvents:
    candidate = sum(len(judgment.matches) for judgment in judgments)
    unmatched = sum(judgment.matches.count(None) for judgment in judgments)
    share = unmatched / candidate if candidate else None
    return UnmatchedEvents(unmatched=unmatched, candidate=candidate, share=share)


def _usage(judgments: Sequence[Judgment]) -> dict[str, Usage]:
    stages: dict[str, list[Usage]] = {}
    for judgment in judgments:
        for stage, usage in judgment.usage.items():
            stages.setdefault(stage, []).append(usage)
    return {
        stage: Usage(**{name: sum(getattr(u, name) for u in used) for name in Usage.model_fields})
        for stage, used in stages.items()
    }


def _spread(reference: AnnotationArrays, scored: Mapping[int, Scored]) -> RepeatSpread | None:
    repeated = {row: judgment.repeats for row, judgment in scored.items() if judgment.repeats[1:]}
    if not repeated:
        return None
    rows, repeats = list(repeated), min(map(len, repeated.values()))
    means = np.array(
        [
            measures(reference.counts(rows, [v[k].relations for v in repeated.values()]))[
                :, 0
            ].mean(axis=0)
            for k in range(repeats)
        ]
    )
    alike = [
        len(set(labels)) == 1
        for verdicts in repeated.values()
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
