import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from capeval.files.judgments import write_judgments
from capeval.schema import Annotation, Judgment
from tests.world import Said, typed, write_lines

ROOT = Path(__file__).resolve().parents[2]

LABELS = {"+": "entailment", "0": "lack", "-": "contradiction"}


def correlate(folder: Path, *arguments: str) -> Said:
    return typed(folder, "correlate", *arguments)


def write_annotations(folder: Path, annotations: list[Annotation]) -> Path:
    path = folder / "annotations.json"
    path.write_text(json.dumps([a.model_dump(mode="json") for a in annotations]), "utf-8")
    return path


def make_run(
    folder: Path,
    name: str,
    judgments: Sequence[Judgment],
    *,
    judge: str = "judge",
    captions: Mapping[str, str] | None = None,
    **manifest: Any,
) -> Path:
    run = folder / "runs" / name
    (run / judge).mkdir(parents=True)
    texts = captions or {one.index: "A dog runs." for one in judgments}
    model = f"{name}-model"
    write_lines(
        run / "captions.jsonl",
        ({"index": index, "caption": text, "model": model} for index, text in texts.items()),
    )
    stored = {"annotations": {"path": "annotations.json"}} | manifest
    (run / "manifest.json").write_text(json.dumps(stored), "utf-8")
    write_judgments(run / judge / "judgments.jsonl", judgments)
    return run


def labelled(folder: Path, labels: dict[tuple[str, str], str], *, binary: bool = False) -> Path:
    """Write labels of elements: by (video, system), events apart by blanks."""
    lines = ["video_id,system,element_id,label"]
    for (video, system), letters_of in labels.items():
        for event, letters in enumerate(letters_of.split(), start=1):
            for place, letter in enumerate(letters, start=1):
                label = str(int(letter == "+")) if binary else LABELS[letter]
                lines.append(f"{video},{system},{event}.{place},{label}")
    path = folder / "human.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
