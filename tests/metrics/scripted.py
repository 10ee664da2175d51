"""Measuring captions with a chat model that follows a script."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import capeval
from capeval.llm.types import ChatRequest
from capeval.metrics.measure import Measured
from capeval.metrics.metric_work import DetailLine
from tests.scripted_client import ScriptedClient

__all__ = ["CAPTION", "REFERENCE", "measured"]

CAPTION, REFERENCE = "A dog runs over a field.", "A brown dog runs."


def measured(
    metric: str,
    folder: Path,
    script: Sequence[Any] | Callable[[ChatRequest], Any],
    captions: Mapping[str, str] | None = None,
    references: Any = None,
    **options: Any,
) -> tuple[Measured, ScriptedClient, dict[str, DetailLine]]:
    """Measure captions with a scripted model; return the details by index too."""
    captions = captions or {"1": CAPTION}
    client = ScriptedClient(script)
    out = folder / "metrics.jsonl"
    file, other = folder / "c.json", folder / "r.json"
    file.write_text(json.dumps(captions), "utf-8")
    references = references or dict.fromkeys(captions, REFERENCE)
    other.write_text(json.dumps(references), "utf-8")
    (found,) = capeval.measure(
        candidates=[str(file)],
        references=str(other),
        out=str(out),
        client=client,
        cache=folder / "cache.sqlite",
        metric=metric,
        judge="model-1",
        **options,
    )
    details = folder / "metrics.details" / f"{metric}.jsonl"
    lines = [DetailLine.model_validate_json(one) for one in details.read_text("utf-8").splitlines()]
    return found, client, {line.index: line for line in lines}
