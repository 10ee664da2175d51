"""Scores of metrics made elsewhere: CSV of `video_id,system?,score`, or a `metrics.jsonl`."""

from __future__ import annotations

import math
from collections.abc import Sequence
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

    Raises
    ------
    InputError
        Names the file, the line and the column of the first mistake.
    """
    table = read_table(path)
    if "index" not in table.columns:
        table.check_columns({"video_id", "system", "score"}, ["video_id", "score"])
        keys = Keys.of_table(table, "video_id")
        keys.check_unique(table)
        values = table.numbers("score", gaps=True).tolist()
        return [_scores(name, keys, values, ["no score in the file"] * len(keys), str(path))]
    table.check_columns(
        {"index", "system", "metric", "value", "reason", "signature"}, ["index", "metric", "value"]
    )
    keys = Keys.of_table(table, "index")
    metrics = table.names("metric")
    table.check_unique(
        [(*key, metric) for key, metric in zip(keys, metrics, strict=True)],
        "index, system, metric",
    )
    values = table.numbers("value", gaps=True).tolist()
    reasons = table.columns.get("reason", [None] * len(keys))
    signatures = table.columns.get("signature", [None] * len(keys))
    names = list(dict.fromkeys(metrics))
    result = []
    for metric in names:
        rows = [row for row, of in enumerate(metrics) if of == metric]
        found = _scores(
            name if len(names) == 1 else f"{name}:{metric}",
            keys.take(rows),
            [values[row] for row in rows],
            [reasons[row] if isinstance(reasons[row], str) else "no value" for row in rows],
            str(path),
        )
        signed = dict.fromkeys(s for row in rows if isinstance(s := signatures[row], str))
        found.signatures.extend(signed)
        result.append(found)
    return result


def _scores(
    name: str,
    keys: Keys,
    values: Sequence[float],
    reasons: Sequence[str],
    source: str,
) -> MetricScores:
    result = MetricScores(name, sources=[source])
    for key, value, reason in zip(keys, values, reasons, strict=True):
        if math.isnan(value):
            result.missing[key] = reason
        else:
            result.scores[key] = value
    return result


def merge(first: MetricScores, second: MetricScores) -> None:
    """Add the captions of another source to a metric.

    Raises
    ------
    ValueError
        Both have scores of one caption.
    """
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
