"""Probes as a run with its certain verdicts in `labels.csv`, and verdicts compared with these."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from capeval.errors import UsageError
from capeval.files.jsonl import write_atomic, write_jsonl
from capeval.files.tables import csv_of_rows
from capeval.runs.folder import RunFolder
from capeval.runs.sources import Source, run_name
from capeval.schema import Annotation, Caption, Scored
from capeval.scoring.judged_run import load_judged
from capeval.stats.proportions import design_effect, wilson
from capeval.text import counted
from capeval.trust.probe_kinds import KINDS, Kind, Probe, build_probes

MODEL = "probes"
"""The `model` of the captions, and their system in `labels.csv`."""


@dataclass(frozen=True)
class ProbeSource(Source):
    """Probes as captions to judge; storing them also writes their annotations and `labels.csv`."""

    probes: Sequence[Probe] = ()
    of_sample: bool = False

    @property
    def is_sample(self) -> bool:
        """Whether the probes are of the bundled sample."""
        return self.of_sample

    @property
    def videos(self) -> int:
        """The number of probed videos."""
        return len({probe.annotation.index for probe in self.probes})

    def store(self) -> None:
        """Write everything that a judge, or a comparison with its verdicts, needs."""
        self.check()
        path = Path(self.annotations_path)
        write_jsonl(path, (one.model_dump(exclude_none=True) for one in self.annotations))
        rows = (
            (probe.index, MODEL, f"{event + 1}.{place + 1}", label, probe.kind)
            for probe in self.probes
            for (event, place), label in sorted(probe.labels.items())
        )
        text = csv_of_rows(("video_id", "system", "element_id", "label", "probe"), rows)
        write_atomic(path.with_name("labels.csv"), text)
        super().store()


def probe_source(
    annotations: Sequence[Annotation],
    *,
    videos: int,
    seed: int,
    name: str,
    runs: Path,
    of_sample: bool = False,
) -> ProbeSource:
    """Build the probes of at most so many videos, as the run `name` in the folder `runs`.

    Each probe is judged against its video's annotation, under the probe's index.
    """
    probes = build_probes(annotations, videos=videos, seed=seed)
    if not probes:
        raise UsageError("no probe can be built: no video has a sentence that can be used")
    run = RunFolder(runs / run_name(name))
    captions = (
        {"index": one.index, "caption": one.caption, "model": MODEL, "edits": list(one.edits)}
        for one in probes
    )
    return ProbeSource(
        name=run.name,
        run=run,
        annotations=tuple(
            probe.annotation.model_copy(update={"index": probe.index}) for probe in probes
        ),
        captions=tuple(map(Caption.model_validate, captions)),
        annotations_path=str(run.path / "annotations.jsonl"),
        origin=f"the probes of {counted(min(videos, len(annotations)), 'video')} with seed {seed}",
        probes=probes,
        of_sample=of_sample,
    )


class Agreement(BaseModel):
    """The verdicts of one judge on one kind of probe.

    `right` of `n` verdicts are as they must be; `low` and `high` are the 95% interval of their
    share. A caption without a verdict is unscored: it counts in neither.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    right: int
    n: int
    value: float | None
    low: float | None
    high: float | None
    captions: int
    unscored: int


class Probing(BaseModel):
    """How a judge agrees with the certain verdicts, by kind of probe, the worst kind first.

    `folder` holds the probes; `judge` is None where there is no verdict yet.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: str
    judge: str | None
    videos: int
    captions: int
    unscored: int
    kinds: dict[Kind, Agreement]


def agreement(source: ProbeSource, judge: Path | None) -> Probing:
    """Compare the verdicts in a judge's folder with the certain ones; None is no verdict yet."""
    judged = load_judged(judge, annotations=source.annotations) if judge else None
    scored = judged.scored if judged else {}
    of_kind = {kind: [one for one in source.probes if one.kind == kind] for kind in KINDS}
    kinds = {kind: _agreement(probes, scored) for kind, probes in of_kind.items() if probes}
    # Of kinds without a mistake, the one with the widest interval.
    worst = sorted(kinds, key=lambda kind: (_or_one(kinds[kind].value), _or_one(kinds[kind].low)))
    return Probing(
        folder=str(source.run),
        judge=judged.identity.judge if judged else None,
        videos=source.videos,
        captions=len(source.probes),
        unscored=sum(one.unscored for one in kinds.values()),
        kinds={kind: kinds[kind] for kind in worst},
    )


def _or_one(value: float | None) -> float:
    return 1.0 if value is None else value


def _agreement(probes: Sequence[Probe], scored: Mapping[str, Scored]) -> Agreement:
    by_video: dict[str, list[bool]] = defaultdict(list)
    for probe in probes:
        if probe.index in scored:
            relations = scored[probe.index].relations
            for (event, place), label in probe.labels.items():
                given = relations[event][place]
                # A foreign caption may contradict.
                is_right = given == label or (probe.kind == "foreign" and given != "entailment")
                by_video[probe.annotation.index].append(is_right)
    correct = np.array([sum(of) for of in by_video.values()], dtype=np.float64)
    n = np.array([len(of) for of in by_video.values()], dtype=np.float64)
    right, total = int(correct.sum()), int(n.sum())
    low = high = None
    if total:
        low, high = wilson(right / total, total / design_effect(correct, n))
    return Agreement(
        right=right,
        n=total,
        value=right / total if total else None,
        low=low,
        high=high,
        captions=len(probes),
        unscored=sum(probe.index not in scored for probe in probes),
    )
