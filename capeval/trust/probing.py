"""Probes as a run with its certain verdicts in `labels.csv`, and verdicts compared with these."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from capeval.errors import InputError, UsageError
from capeval.files.jsonl import write_atomic, write_jsonl
from capeval.rating.sheet import csv_text
from capeval.runs.folder import RunFolder
from capeval.runs.judged_run import load_judged
from capeval.runs.sources import Source, run_name
from capeval.schema import Annotation, Caption, Scored
from capeval.stats.proportions import design_effect, wilson
from capeval.text import counted
from capeval.trust.probe_kinds import KINDS, Kind, Probe
from capeval.trust.probe_set import build_probes

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
    def folder(self) -> Path:
        """The run's folder."""
        assert self.run is not None  # noqa: S101 - probes always have one
        return self.run.path

    @property
    def labels(self) -> Path:
        """`labels.csv`: the certain verdicts."""
        return self.folder / "labels.csv"

    def build(self) -> None:
        """Store the probes, to be judged later."""
        assert self.run is not None  # noqa: S101 - probes always have one
        with self.run.locked():
            self.store()

    def store(self) -> None:
        """Write everything that a judge, or a comparison with its verdicts, needs.

        Raises
        ------
        InputError
            The folder has such files that are of no probes.
        """
        self.check()
        assert self.run is not None  # noqa: S101 - probes always have one
        for file in (Path(self.annotations_path), self.labels):
            if file.exists() and not self.run.exists():
                raise InputError("exists, and is of no probes; name another --run", file=file)
        annotations = (one.model_dump(exclude_none=True) for one in self.annotations)
        write_jsonl(Path(self.annotations_path), annotations)
        rows = (
            (probe.index, MODEL, f"{event + 1}.{place + 1}", label, kind)
            for probe in self.probes
            for (event, place), (label, kind) in sorted(probe.labels.items())
        )
        text = csv_text(("video_id", "system", "element_id", "label", "probe"), rows)
        write_atomic(self.labels, text)
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
    if len({annotation.index for annotation in annotations}) < len(annotations):
        raise UsageError("the annotations have the same index twice")
    probes = build_probes(annotations, videos=videos, seed=seed)
    if not probes:
        raise UsageError("no probe can be built: no video has a sentence that can be used")
    drawn = len({probe.annotation.index for probe in probes})
    run = RunFolder(runs / run_name(name))
    return ProbeSource(
        name=run.name,
        run=run,
        annotations=tuple(
            probe.annotation.model_copy(update={"index": probe.index}) for probe in probes
        ),
        captions=tuple(
            Caption.model_validate(
                {
                    "index": probe.index,
                    "caption": probe.caption,
                    "model": MODEL,
                    "edits": list(probe.edits),
                }
            )
            for probe in probes
        ),
        annotations_path=str(run.path / "annotations.jsonl"),
        origin=f"the probes of {counted(drawn, 'video')} with seed {seed}",
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

    `folder` holds the probes; `judge` is None where they were only built.
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
    kinds = {kind: _agreement(kind, source.probes, scored) for kind in KINDS}
    found = [(kind, one) for kind, one in kinds.items() if one.captions]
    # Of kinds without a mistake, the one that the fewest verdicts speak for.
    found.sort(key=lambda item: (_or_one(item[1].value), _or_one(item[1].low)))
    return Probing(
        folder=str(source.run),
        judge=judged.identity.judge if judged else None,
        videos=len({probe.annotation.index for probe in source.probes}),
        captions=len(source.probes),
        unscored=sum(probe.index not in scored for probe in source.probes),
        kinds=dict(found),
    )


def _or_one(value: float | None) -> float:
    return 1.0 if value is None else value


def _agreement(kind: Kind, probes: Sequence[Probe], scored: Mapping[str, Scored]) -> Agreement:
    of_kind = [probe for probe in probes if any(k == kind for _, k in probe.labels.values())]
    by_video: dict[str, list[bool]] = defaultdict(list)
    for probe in of_kind:
        if probe.index in scored:
            by_video[probe.annotation.index] += _right(probe, kind, scored[probe.index])
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
        captions=len(of_kind),
        unscored=sum(probe.index not in scored for probe in of_kind),
    )


def _right(probe: Probe, kind: Kind, judgment: Scored) -> Iterator[bool]:
    """Yield whether each verdict of a kind is right: a foreign caption may contradict."""
    for (event, place), (label, of) in probe.labels.items():
        if of == kind:
            given = judgment.relations[event][place]
            yield given == label or (kind == "foreign" and given != "entailment")
