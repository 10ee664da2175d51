"""Join the scores of metrics with human scores, caption by caption."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from capeval.correlation.fields import Notice
from capeval.errors import InputError
from capeval.files.label_matching import hint_of, look_alike
from capeval.files.metrics import MetricScores
from capeval.files.ratings import IfMissing, Key, Keys, RatingTable, caption_name
from capeval.stats.correlation import Design
from capeval.stats.values import Floats
from capeval.text import counted, listed, one_line, shown

# Captions that are named in one message.
_NAMED = 5


@dataclass(frozen=True)
class Joined:
    """Captions that have a human score and a score of every metric.

    `ratings` is (raters, captions), each of `metrics` (captions,).
    """

    human: str
    keys: Keys
    raters: tuple[str, ...]
    ratings: Floats
    metrics: dict[str, Floats]
    warnings: tuple[Notice, ...] = ()

    @cached_property
    def design(self) -> Design:
        """The number of each caption's video and system, in the order of their names."""
        systems = self.keys.systems or [""] * len(self.keys)
        video, system = (
            np.unique(np.array(names, dtype=object), return_inverse=True)[1]
            for names in (self.keys.videos, systems)
        )
        return Design(video, system)


def unmatched(
    name: str,
    total: int,
    lacking: Sequence[Key],
    reasons: Mapping[Key, str],
    file: Path,
    missing: IfMissing,
    alike: tuple[str, str] | None = None,
) -> Notice:
    """Return a notice of rated captions without a score or verdict of `name`.

    Raises
    ------
    InputError
        `missing` is "error".
    """
    names = [
        caption_name(key) + (f" ({reasons[key]})" if key in reasons else "")
        for key in lacking[:_NAMED]
    ]
    values = {"matched": total - len(lacking), "total": total, "missing": names, "alike": alike}
    notice = Notice(kind="unmatched", metric=name, values=values)
    if missing == "error":
        raise InputError(f"{notice}; leave such captions out with --missing drop", file=file)
    return notice


def _renamed(human: RatingTable, metric: MetricScores) -> MetricScores:
    """Return a metric whose captions have the same names as in the human file.

    If one side names no systems, the other side must have only one.
    """
    keys = metric.keys
    theirs, ours = {system for _, system in keys}, {system for _, system in human.keys}
    if (None in theirs) == (None in ours) or not keys:
        return metric
    if len(theirs) > 1 or len(ours) > 1:
        several = sorted(str(name) for name in (theirs if len(theirs) > 1 else ours))
        where = "it has no column `system`" if None in ours else f"{metric.name} has no systems"
        raise InputError(
            f"{where}, but the captions are of {len(several)} systems ({listed(several)}); "
            "name the system of every caption",
            file=human.file,
        )
    return metric.of_system(next(iter(ours)))


def without_incomplete(
    metrics: Sequence[MetricScores],
    human: Sequence[RatingTable],
    on_notice: Callable[[str], None],
    missing: IfMissing,
) -> list[MetricScores]:
    """Return metrics without the ones that nobody named and that lack what others have.

    That is captions; or if captions without a score are dropped (`missing`), systems: a judge that
    has not judged one of two runs would cost every metric this run's captions.
    """
    lacking = {metric.name: _lacking(metric, human) for metric in metrics}
    costs = {
        name: len(keys) if missing == "error" else len(_systems_without(keys, human))
        for name, keys in lacking.items()
    }
    fewest = min(costs.values(), default=0)
    gone = [metric for metric in metrics if metric.found and costs[metric.name] > fewest]
    total = max((len(table.keys) for table in human), default=0)
    advice = "complete it with `capeval judge` or `capeval metrics`"
    if missing == "error":
        advice += ", or compare only the captions that have every value with --missing drop"
    for name, metric in {metric.source_name: metric for metric in gone}.items():
        reason = "".join(f" ({one_line(why)})" for why in [*metric.missing.values()][:1])
        scored = total - len(lacking[metric.name])
        all_rated = counted(total, "rated caption")
        on_notice(f"left out: {name}: {scored:,} of {all_rated} have a value{reason}; {advice}")
    left_out = {metric.name for metric in gone}
    return [metric for metric in metrics if metric.name not in left_out]


def _lacking(metric: MetricScores, human: Sequence[RatingTable]) -> set[Key]:
    """Return the rated captions that have no score of a metric."""
    return {
        key
        for table in human
        if metric.name not in table.metrics
        for scores in [_renamed(table, metric).scores]
        for key in table.keys
        if key not in scores
    }


def _systems_without(lacking: set[Key], human: Sequence[RatingTable]) -> set[str | None]:
    """Return the systems all of whose rated captions are lacking."""
    rated = {key for table in human for key in table.keys}
    return {system for _, system in rated} - {system for _, system in rated - lacking}


def join(
    human: RatingTable, metrics: Sequence[MetricScores], missing: IfMissing = "error"
) -> Joined:
    """Join on video and system; every metric is compared on the same captions.

    Unrated captions are ignored. A rated caption without a score of a metric is an error, or with
    "drop" it is left out with a notice. Captions are sorted by the names of video and system.
    """
    total = len(human.keys)
    kept = np.ones(total, dtype=bool)
    columns: dict[str, Floats] = {}
    notices: list[Notice] = []
    for metric in metrics:
        reasons: Mapping[Key, str] = {}
        if metric.name in human.metrics:
            values = human.metrics[metric.name]
        else:
            renamed = _renamed(human, metric)
            get, nan, reasons = renamed.scores.get, float("nan"), renamed.missing
            values = np.array([get(key, nan) for key in human.keys])
        there = ~np.isnan(values)
        if not there.any():
            raise InputError(_no_overlap(human, metric), file=human.file)
        if not there.all():
            lacking = [human.keys[int(row)] for row in np.flatnonzero(~there)]
            alike = _alike(lacking, metric)
            notices.append(
                unmatched(metric.name, total, lacking, reasons, human.file, missing, alike)
            )
            kept &= there
        columns[metric.name] = values
    if not kept.any():
        raise InputError(
            "no caption has a score of every metric; choose one of several judges with --judge, or "
            "name the metrics with --metric",
            file=human.file,
        )
    # By name, so that the order of the files' rows changes no number.
    rows = sorted(np.flatnonzero(kept).tolist(), key=lambda row: tuple(map(str, human.keys[row])))
    return Joined(
        human.name,
        human.keys.take(rows),
        human.raters,
        human.ratings[:, rows],
        {name: values[rows] for name, values in columns.items()},
        tuple(notices),
    )


def _no_overlap(human: RatingTable, metric: MetricScores) -> str:
    example = next(iter(metric.scores), None)
    if example is None:
        reason = next(iter(metric.missing.values()), "it has no captions")
        return f"{metric.name} has no score of any caption ({reason})"
    return (
        f"none of {counted(len(human.keys), 'caption')} has a score of {metric.name} "
        f"(rated: {shown(caption_name(human.keys[0]))}…; scored: {shown(caption_name(example))}…)"
        f"{hint_of(_alike(list(human.keys), metric))}"
    )


def _alike(lacking: Sequence[Key], metric: MetricScores) -> tuple[str, str] | None:
    """Return a rated id without a score and one that has a score under a similar name."""
    scored = metric.keys
    videos, systems = {video for video, _ in scored}, {system or "" for _, system in scored}
    return look_alike((v for v, _ in lacking if v not in videos), videos) or look_alike(
        (system for _, system in lacking if system and system not in systems), systems
    )
