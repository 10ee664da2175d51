"""Judged runs on disk, as `capeval judge` leaves them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from capeval.files.jsonl import dumps
from capeval.files.judgments import write_judgments
from capeval.schema import Annotation, Judgment, Provenance
from capeval.scoring.judged_run import load_judged
from tests.scoring.making import annotation, scored

VIDEOS = [
    annotation("a", "c3 s2 a3", "t1 a1 c2", visual_characteristic="Low-Dynamic", domain="Film"),
    annotation("b", "c1 a3 t2", visual_characteristic="High-Dynamic,Multi-Scene", domain="Film"),
    annotation("c", "s3 a3", "a2", visual_characteristic="High-Dynamic,Multi-Subject"),
]
# Ten, because fewer than eight have no interval: the first two again, then all five again.
VIDEOS += [
    VIDEOS[place].model_copy(update={"index": index})
    for place, index in zip((0, 1, 0, 1, 2, 0, 1), "defghij", strict=True)
]
BY = Provenance(judge="gpt-4o", prompts="tuna-cap-v1@c23452", models=("gpt-4o-2024-08-06",))


def write_annotations(path: Path, videos: Sequence[Annotation] = VIDEOS) -> None:
    path.write_text(json.dumps([video.model_dump() for video in videos]), encoding="utf-8")


def judgments(labels: str, by: Provenance = BY, **fields: Any) -> list[Judgment]:
    """Judgments of `VIDEOS`: `"+0- 0++ | 0+- | 00 +"`; the others repeat these three.

    Fewer labels judge only the first videos.
    """
    rows = [one.strip() for one in labels.split("|")]
    rows += rows[:2] if len(rows) == 3 else []
    rows += rows if len(rows) == 5 else []
    return [
        scored(video.index, one, provenance=by, **fields)
        for video, one in zip(VIDEOS, rows, strict=False)
    ]


def make_run(
    name: str,
    labels: str,
    *,
    runs: Path = Path("runs"),
    by: Provenance = BY,
    annotations: Path = Path("a.json"),
    generation: Mapping[str, Any] | None = None,
    captioned: int = len(VIDEOS),
    folder: str = "judge",
) -> Path:
    """Make a run and what a judge made of it."""
    run = runs / name
    judge = run / folder
    judge.mkdir(parents=True)
    lines = [{"index": v.index, "caption": "A dog.", "model": name} for v in VIDEOS[:captioned]]
    (run / "captions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    manifest: dict[str, Any] = {"annotations": {"path": str(annotations.absolute())}}
    if generation:
        manifest["generation"] = dict(generation)
    (run / "manifest.json").write_text(json.dumps(manifest))
    write_judgments(judge / "judgments.jsonl", judgments(labels, by))
    scores = load_judged(judge, annotations=annotations).scores
    (judge / "scores.json").write_text(
        dumps(scores.model_dump(mode="json"), indent=1) + "\n", encoding="utf-8"
    )
    return judge
