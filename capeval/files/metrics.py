"""Scores of metrics made elsewhere: a table of `video_id,system?,score`, or a `metrics.jsonl`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from capeval.files.ratings import Key, Keys
from capeval.files.tables import FileTable, read_table


@dataclass
class MetricScores:
    """The scores of one metric by caption; `missing` has the reason for each unscored caption.

    `measure` is "precision", "recall" or "f1" for a judge's scores, None for any other metric;
    `own` is the name that a metrics.jsonl gives it, and `found` whether it was found in a run and
    not named by the user; `captions` are the hashes of the captions that it says it measured.
    """

    name: str
    scores: dict[Key, float] = field(default_factory=dict)
    missing: dict[Key, str] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    signatures: list[str] = field(default_factory=list)
    measure: str | None = None
    own: str | None = None
    found: bool = False
    captions: dict[Key, str] = field(default_factory=dict)

    @property
    def keys(self) -> set[Key]:
        """The captions that have a score, or a reason why there is none."""
        return {*self.scores, *self.missing}

    @property
    def source_name(self) -> str:
        """The judge whose measure this is, or the metric's own name."""
        return self.name if self.measure is None else self.name.removesuffix(f":{self.measure}")

    def of_system(self, system: str | None) -> MetricScores:
        """Return the same scores, of captions of a system."""
        return replace(
            self,
            scores={(video, system): score for (video, _), score in self.scores.items()},
            missing={(video, system): reason for (video, _), reason in self.missing.items()},
        )

    def leave_out_changed(self, now: Mapping[Key, str]) -> None:
        """Treat scores of captions whose text has another hash now as missing."""
        for key, measured in self.captions.items():
            if now.get(key, measured) != measured and self.scores.pop(key, None) is not None:
                self.missing[key] = (
                    "another caption of this video was measured; run `capeval metrics` again"
                )


@dataclass(frozen=True)
class MetricFile:
    """The metrics of a file, the names of all its columns, and the columns that are used."""

    metrics: list[MetricScores]
    header: tuple[str, ...]
    read: frozenset[str]


def load_metrics(
    path: Path | str,
    name: str,
    columns: Mapping[str, str] | None = None,
) -> MetricFile:
    """Read a file of metric scores.

    A table has one metric, called `name`: the column of that name, else `score`. A metrics.jsonl
    can have several: `name:metric` each. `columns` are the file's by capeval's names.
    """
    table = read_table(path)
    stored = {"metric", "value"} <= table.columns.keys()
    chosen = _columns(table, name, dict(columns or {}), stored=stored)
    keys = Keys.of_table(table, chosen)
    metrics = table.names("metric") if stored else [name] * len(table)
    keyed = [(*key, metric) for key, metric in zip(keys, metrics, strict=True)]
    table.check_unique(keyed, "video_id, system, metric")
    values = table.numbers(chosen["score"]).tolist()
    none = [None] * len(table)
    reasons, signatures, hashes = (
        table.columns[chosen[column]] if column in chosen else none
        for column in ("reason", "signature", "caption_hash")
    )
    no_reason = "no value" if stored else "no score in the file"
    found = {metric: MetricScores(metric, sources=[str(path)]) for metric in dict.fromkeys(metrics)}
    for metric, key, value, reason, signature, caption in zip(
        metrics, keys, values, reasons, signatures, hashes, strict=True
    ):
        scores = found[metric]
        if math.isnan(value):
            scores.missing[key] = str(reason or no_reason)
        else:
            scores.scores[key] = value
        if signature and str(signature) not in scores.signatures:
            scores.signatures.append(str(signature))
        if caption:
            scores.captions[key] = str(caption)
    for metric, scores in found.items():
        scores.own = metric if stored else None
        scores.name = name if len(found) == 1 else f"{name}:{metric}"
    return MetricFile([*found.values()], tuple(table.columns), frozenset(chosen.values()))


def _columns(
    table: FileTable, name: str, mapped: dict[str, str], *, stored: bool
) -> dict[str, str]:
    """Return the file's columns by capeval's names."""
    if not table.find("video_id", mapped):
        mapped.setdefault("video_id", "index")
    if stored:
        mapped["score"] = "value"
        more = ("system", "reason", "signature", "caption_hash")
        return {**table.choose(["video_id", "score"], more, mapped), "metric": "metric"}
    if mapped.get("score") not in table.columns and name in table.columns:
        mapped["score"] = name
    return table.choose(["video_id", "score"], ["system"], mapped)
