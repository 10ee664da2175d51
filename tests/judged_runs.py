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
from tests.world import write_lines

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


def write_annotations(at: Path, videos: Sequence[Annotation] = VIDEOS) -> Path:
    """Write a file of annotations, named `annotations.json` in a folder."""
    path = at / "annotations.json" if at.is_dir() else at
    path.write_text(json.dumps([video.model_dump(mode="json") for video in videos]), "utf-8")
    return path


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
    folder: Path,
    name: str,
    judgments: Sequence[Judgment],
    *,
    judge: str = "judge",
    captions: Mapping[str, str] | None = None,
    model: str | None = None,
    **manifest: Any,
) -> Path:
    """Make a run in a working folder, without scores; `manifest` holds fields of its manifest."""
    run = folder / "runs" / name
    (run / judge).mkdir(parents=True)
    texts = captions or {one.index: "A dog runs." for one in judgments}
    by = model or f"{name}-model"
    write_lines(
        run / "captions.jsonl",
        ({"index": index, "caption": text, "model": by} for index, text in texts.items()),
    )
    stored = {"annotations": {"path": "annotations.json"}} | manifest
    (run / "manifest.json").write_text(json.dumps(stored), "utf-8")
    write_judgments(run / judge / "judgments.jsonl", judgments)
    return run


def score_run(
    name: str,
    labels: str,
    *,
    folder: Path = Path(),
    by: Provenance = BY,
    annotations: Path = Path("a.json"),
    captioned: int = len(VIDEOS),
    judge: str = "judge",
    **manifest: Any,
) -> Path:
    """Make a run of `VIDEOS` with its scores; return the judge's folder."""
    run = make_run(
        folder,
        name,
        judgments(labels, by),
        judge=judge,
        captions={video.index: "A dog." for video in VIDEOS[:captioned]},
        model=name,
        annotations={"path": str(annotations.absolute())},
        **{name: value for name, value in manifest.items() if value},
    )
    scores = load_judged(run / judge, annotations=annotations).scores
    text = dumps(scores.model_dump(mode="json"), indent=1) + "\n"
    (run / judge / "scores.json").write_text(text, encoding="utf-8")
    return run / judge
