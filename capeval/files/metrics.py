"""Scores of metrics made elsewhere: CSV of `video_id,system?,score`, or a `metrics.jsonl`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from capeval.files.ratings import Key
from capeval.files.table_reading import read_table
from capeval.text import cut, shown


@dataclass
class MetricScores:
    """One metric's scores by caption; `missing` are those without, with the reason.

    `measure` is "precision", "recall" or "f1" of a judge's, None of any other metric.
    """

    name: str
    scores: dict[Key, float] = field(default_factory=dict)
    missing: dict[Key, str] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    signatures: list[str] = field(default_factory=list)
    measure: str | None = None


def load_metrics(path: Path | str, name: str) -> list[MetricScores]:
    """Read a file of metric scores: one metric `name`, or of a metrics.jsonl each that it holds.

    Raises
    ------
    InputError
        Names the file, the line and the column.
    """
    table = read_table(path)
    if "index" not in table.columns:
        table.only({"video_id", "system", "score"}, ["video_id", "score"])
        videos = table.names("video_id")
        systems = table.names("system") if "system" in table.columns else [None] * len(videos)
        keys: list[Key] = list(zip(videos, systems, strict=True))
        table.unique(keys, "video_id, system")
        values = table.numbers("score", gaps=True)
        return [_scores(name, keys, values, ["no score in the file"] * len(keys), str(path))]
    table.only(
        {"index", "system", "metric", "value", "reason", "signature"}, ["index", "metric", "value"]
    )
    videos = table.names("index")
    systems = table.names("system") if "system" in table.columns else [None] * len(videos)
    metrics = table.names("metric")
    keys = list(zip(videos, systems, strict=True))
    table.unique(
        [(*key, metric) for key, metric in zip(keys, metrics, strict=True)],
        "index, system, metric",
    )
    values = table.numbers("value", gaps=True)
    reasons = table.columns.get("reason", [None] * len(videos))
    signatures = table.columns.get("signature", [None] * len(videos))
    names = list(dict.fromkeys(metrics))
    result = []
    for metric in names:
        rows = [row for row, told in enumerate(metrics) if told == metric]
        found = _scores(
            name if len(names) == 1 else f"{name}:{metric}",
            [keys[row] for row in rows],
            values[rows],
            [reasons[row] if isinstance(reasons[row], str) else "no value" for row in rows],
            str(path),
        )
        told_by = dict.fromkeys(s for row in rows if isinstance(s := signatures[row], str))
        found.signatures.extend(told_by)
        result.append(found)
    return result


def _scores(
    name: str,
    keys: list[Key],
    values: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    reasons: list[str],
    source: str,
) -> MetricScores:
    there = ~np.isnan(values)
    if there.all():
        return MetricScores(name, dict(zip(keys, values.tolist(), strict=True)), {}, [source])
    result = MetricScores(name, sources=[source])
    for key, value, reason in zip(keys, values.tolist(), reasons, strict=True):
        if np.isnan(value):
            result.missing[key] = reason
        else:
            result.scores[key] = value
    return result


def merge(first: MetricScores, second: MetricScores) -> None:
    """Add the captions of another source to a metric's.

    Raises
    ------
    ValueError
        Both have scores of one caption.
    """
    twice = (first.scores.keys() | first.missing.keys()) & (
        second.scores.keys() | second.missing.keys()
    )
    if twice:
        video, system = min(twice, key=str)
        told = shown(video) + (f" of {cut(system)}" if system else "")
        raise ValueError(f"{cut(first.name)} has two scores of {told}")
    first.scores.update(second.scores)
    first.missing.update(second.missing)
    first.sources.extend(second.sources)
    first.signatures.extend(s for s in second.signatures if s not in first.signatures)
