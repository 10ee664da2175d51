"""Scores of metrics made elsewhere: CSV of `video_id,system?,score`, or a `metrics.jsonl`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from capeval.files.ratings import Key, Keys
from capeval.files.table_reading import read_table
from capeval.text import cut, shown


@dataclass
class MetricScores:
    """The scores of one metric by caption; `missing` has the reason for each unscored caption.

    `measure` is "precision", "recall" or "f1" for a judge's scores, None for any other metric.
    """

    name: str
    scores: dict[Key, float] = field(default_factory=dict)
    missing: dict[Key, str] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    signatures: list[str] = field(default_factory=list)
    measure: str | None = None


def load_metrics(path: Path | str, name: str) -> list[MetricScores]:
    """Read a file of metric scores.

    A CSV has one metric, called `name`. A metrics.jsonl can have several: `name:metric` each.
    """
    table = read_table(path)
    stored = "index" in table.columns
    if stored:
        needed = ["index", "metric", "value"]
        table.check_columns({*needed, "system", "reason", "signature"}, needed)
    else:
        table.check_columns({"video_id", "system", "score"}, ["video_id", "score"])
    keys = Keys.of_table(table, "index" if stored else "video_id")
    if stored:
        metrics = table.names("metric")
        keyed = [(*key, metric) for key, metric in zip(keys, metrics, strict=True)]
        table.check_unique(keyed, "index, system, metric")
    else:
        metrics = [name] * len(keys)
        keys.check_unique(table)
    values = table.numbers("value" if stored else "score", gaps=True).tolist()
    none = [None] * len(keys)
    reasons = table.columns.get("reason", none)
    signatures = table.columns.get("signature", none)
    no_reason = "no value" if stored else "no score in the file"
    found = {metric: MetricScores(metric, sources=[str(path)]) for metric in dict.fromkeys(metrics)}
    for metric, key, value, reason, signature in zip(
        metrics, keys, values, reasons, signatures, strict=True
    ):
        scores = found[metric]
        if math.isnan(value):
            scores.missing[key] = reason if isinstance(reason, str) else no_reason
        else:
            scores.scores[key] = value
        if isinstance(signature, str) and signature not in scores.signatures:
            scores.signatures.append(signature)
    for metric, scores in found.items():
        scores.name = name if len(found) == 1 else f"{name}:{metric}"
    return list(found.values())


def merge(first: MetricScores, second: MetricScores) -> None:
    """Add the captions of another source to a metric; ValueError if both score a caption."""
    common = (first.scores.keys() | first.missing.keys()) & (
        second.scores.keys() | second.missing.keys()
    )
    if common:
        video, system = min(common, key=str)
        caption = shown(video) + (f" of {cut(system)}" if system else "")
        raise ValueError(f"{cut(first.name)} has two scores of {caption}")
    first.scores.update(second.scores)
    first.missing.update(second.missing)
    first.sources.extend(second.sources)
    first.signatures.extend(s for s in second.signatures if s not in first.signatures)
