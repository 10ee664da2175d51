"""Human files and judged runs in a folder, from shorthand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from capeval.files.judgments import write_judgments
from capeval.schema import Annotation, Judgment
from tests.typed import Said, typed

ROOT = Path(__file__).resolve().parents[2]

__all__ = ["ROOT", "correlate", "make_run", "write_annotations"]


def correlate(folder: Path, *arguments: str) -> Said:
    """Type `capeval correlate` in a folder."""
    return typed(folder, "correlate", *arguments)


def write_annotations(folder: Path, annotations: list[Annotation]) -> Path:
    path = folder / "annotations.json"
    path.write_text(json.dumps([a.model_dump(mode="json") for a in annotations]), "utf-8")
    return path


def make_run(
    folder: Path, name: str, judgments: list[Judgment], *, judge: str = "judge", **manifest: Any
) -> Path:
    """Write a judged run and return its folder."""
    run = folder / "runs" / name
    (run / judge).mkdir(parents=True)
    captions = [
        {"index": j.index, "caption": "A dog runs.", "model": f"{name}-model"} for j in judgments
    ]
    (run / "captions.jsonl").write_text("".join(json.dumps(c) + "\n" for c in captions), "utf-8")
    stored = {"annotations": {"path": "annotations.json"}} | manifest
    (run / "manifest.json").write_text(json.dumps(stored), "utf-8")
    write_judgments(run / judge / "judgments.jsonl", judgments)
    return run
