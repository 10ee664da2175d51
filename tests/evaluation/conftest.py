"""Annotations with files for their videos."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from capeval.captioners.prompting import load_caption_prompts
from capeval.evaluation.generating.plan import Wanted
from capeval.files.annotations import load_annotations
from tests.generating import annotation


@pytest.fixture(autouse=True)
def _alone(alone: None) -> None:
    """Around every test."""


@pytest.fixture
def wanted_of(tmp_path: Path) -> Callable[..., Wanted]:
    """Makes annotations with (empty) files for their videos."""

    def make(
        indexes: Sequence[str | dict[str, Any]], *, files: Sequence[str] | None = None, **more: Any
    ) -> Wanted:
        rows = [i if isinstance(i, dict) else annotation(i) for i in indexes]
        path = tmp_path / "annotations.json"
        path.write_text(json.dumps(rows), encoding="utf-8")
        folder = tmp_path / "videos"
        folder.mkdir(exist_ok=True)
        for row in rows if files is None else ():
            (folder / f"{row['index']}.mp4").touch()
        for file in files or ():
            (folder / file).touch()
        settings: dict[str, Any] = {
            "annotations": load_annotations(path),
            "annotations_path": str(path),
            "videos": folder,
            "prompts": load_caption_prompts(None),
        }
        return Wanted(**(settings | more))

    return make
