"""How fast scores are calibrated with human labels, against the target that the project set."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator

from benchmarks.data import make_set
from benchmarks.judging import Row
from capeval.schema import (
    RELATIONS,
    Annotation,
    LabelledVideo,
    Provenance,
    Relation,
    RunLabels,
    Scored,
)
from capeval.scoring import AnnotationArrays, score_judgments

__all__ = ["measure"]

_VIDEOS = 1_000
_LABELLED = 100
_RATERS = 2
_SECONDS = 1.0


def measure() -> Iterator[Row]:
    """Yield the rows one by one."""
    rng = random.Random(0)
    videos = [Annotation.model_validate(made) for made in make_set(_VIDEOS)]
    judgments = [
        Scored(
            index=video.index,
            candidate_events=("Told.",) * len(video.events),
            matches=tuple(range(1, len(video.events) + 1)),
            relations=_relations(video, rng),
            provenance=Provenance(judge="bench", prompts="bench@1"),
        )
        for video in videos
    ]
    labels = RunLabels(
        source="human.csv",
        sha256="",
        scale="three-way",
        raters=_RATERS,
        strata={},
        videos={
            video.index: LabelledVideo(
                caption="",
                reference="",
                stratum=None,
                relations=tuple(_relations(video, rng) for _ in range(_RATERS)),
            )
            for video in rng.sample(videos, _LABELLED)
        },
        left_out={},
    )
    reference = AnnotationArrays(videos)

    def seconds(given: RunLabels | None) -> float:
        times = []
        for _ in range(5):
            began = time.perf_counter()
            score_judgments(
                reference, judgments, captioned=_VIDEOS, signature="bench", draws=0, labels=given
            )
            times.append(time.perf_counter() - began)
        return statistics.median(times)

    plain = seconds(None)
    extra = seconds(labels) - plain
    yield Row(
        f"calibrated scores of {_VIDEOS} videos with {_LABELLED} labelled by {_RATERS} raters, all "
        "types and buckets (median of 5)",
        f"{extra:.2f} s beyond {plain:.2f} s of scoring",
        f"<= {_SECONDS:g} s",
        extra <= _SECONDS,
    )


def _relations(video: Annotation, rng: random.Random) -> tuple[tuple[Relation, ...], ...]:
    return tuple(
        tuple(rng.choice(RELATIONS) for _ in event.visual_elements) for event in video.events
    )
