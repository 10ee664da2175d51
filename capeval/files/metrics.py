"""Scores of metrics made elsewhere: CSV of `video_id,system?,score`, or a `metrics.jsonl`."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from capeval.files.columns import Choice, Chosen, choose, folded, may_be
from capeval.files.ratings import Key, Keys
from capeval.files.table_reading import read_table
from capeval.files.tables import InputTable
from capeval.text import cut, shown


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
    def computed_by(self) -> str:
        """The name of the metric for `capeval metrics`, of which this is one value."""
        head = self.signatures[0].partition("|")[0] if self.signatures else ""
        return head.partition(":")[2] or self.own or self.name

    def leave_out_changed(self, now: Mapping[Key, str]) -> None:
        """Treat scores of captions whose text has another hash now as missing."""
        for key, measured in self.captions.items():
            if now.get(key, measured) != measured and self.scores.pop(key, None) is not None:
                self.missing[key] = (
                    "another caption of this video was measured; run `capeval metrics` again"
                )


@dataclass(frozen=True)
class MetricFile:
    """The metrics of a file, the names of all its columns, and those it reads.

    `hint` is what to do about an ignored column; `usual` are names that need no notice.
    """

    metrics: list[MetricScores]
    header: tuple[str, ...]
    chosen: Chosen
    hint: str
    usual: tuple[str, ...]

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about synonyms that are read and columns that are ignored."""
        return self.notices_besides(())

    def notices_besides(self, also_read: Collection[str]) -> tuple[str, ...]:
        """Return the notices of a file of which some columns are read as something else too."""
        return self.chosen.notices(self.hint, also_read, self.usual)


def load_metrics(path: Path | str, name: str, choice: Choice | None = None) -> MetricFile:
    """Read a file of metric scores.

    A CSV or workbook has one metric, called `name`: the column of that name, else `score`. A
    metrics.jsonl can have several: `name:metric` each.
    """
    choice = choice or Choice()
    table = read_table(path, lambda header: _may_be_metric(header, name, choice.mapped))
    stored = {"metric", "value"} <= {*map(folded, table.columns)}
    chosen = _stored(table, choice) if stored else _one_metric(table, name, choice)
    renamed = chosen.read()
    keys = Keys.of_table(renamed)
    if stored:
        metrics = renamed.names("metric")
        keyed = [(*key, metric) for key, metric in zip(keys, metrics, strict=True)]
        renamed.check_unique(keyed, "video_id, system, metric")
    else:
        metrics = [name] * len(keys)
        keys.check_unique(renamed)
    values = renamed.numbers("value" if stored else "score", gaps=True).tolist()
    none = [None] * len(keys)
    reasons = renamed.columns.get("reason", none)
    signatures = renamed.columns.get("signature", none)
    hashes = renamed.columns.get("caption_hash", none)
    no_reason = "no value" if stored else "no score in the file"
    found = {metric: MetricScores(metric, sources=[str(path)]) for metric in dict.fromkeys(metrics)}
    for metric, key, value, reason, signature, caption in zip(
        metrics, keys, values, reasons, signatures, hashes, strict=True
    ):
        scores = found[metric]
        if math.isnan(value):
            scores.missing[key] = reason if reason and isinstance(reason, str) else no_reason
        else:
            scores.scores[key] = value
        if signature and isinstance(signature, str) and signature not in scores.signatures:
            scores.signatures.append(signature)
        if caption and isinstance(caption, str):
            scores.captions[key] = caption
    for metric, scores in found.items():
        scores.own = metric if stored else None
        scores.name = name if len(found) == 1 else f"{name}:{metric}"
    usual = ("index",) if stored else (name, "score")
    hint = "" if stored else " (to read one as a metric: --metric COLUMN=FILE)"
    return MetricFile([*found.values()], tuple(table.columns), chosen, hint, usual)


def _stored(table: InputTable, choice: Choice) -> Chosen:
    return choose(
        table,
        ["video_id", "metric", "value"],
        ["system", "reason", "signature", "caption_hash"],
        choice,
        equal={"video_id": ("index",)},
    )


def _one_metric(table: InputTable, name: str, choice: Choice) -> Chosen:
    """Return the columns of a file with one metric, or with a column for each of several."""
    mapped = dict(choice.mapped)
    if mapped.get("score") not in table.columns and name in table.columns:
        mapped["score"] = name
    return choose(
        table,
        ["video_id", "score"],
        ["system"],
        replace(choice, mapped=mapped),
        equal={"score": (name, "value")},
        # A synonym of `score`, such as `rating`, is more likely to be a human score.
        strict=("score",),
        advice="; or name the metric like its column: --metric COLUMN=FILE",
    )


def _may_be_metric(header: Collection[str], name: str, mapped: Mapping[str, str]) -> bool:
    """Return whether a sheet with these columns may be meant."""
    values = {"score", "value", folded(name)}
    return any(may_be(one, "video_id") or one == mapped.get("video_id") for one in header) and any(
        folded(one) in values or one == mapped.get("score") for one in header
    )


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
