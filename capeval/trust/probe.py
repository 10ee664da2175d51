"""`capeval probe`: test a judge with captions whose correct verdicts are known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from capeval.errors import UsageError
from capeval.files.annotations import split_format
from capeval.files.jsonl import write_atomic, write_jsonl
from capeval.files.tables import csv_of_rows
from capeval.judging.judge import Judged, JudgingSession
from capeval.judging.judges import OpenJudge, open_judge
from capeval.judging.protocol import JudgingOptions, RunOptions
from capeval.options import INPUTS, command, declares, option, python_only
from capeval.runs.engine import functions
from capeval.runs.folder import RunFolder
from capeval.runs.resolve import Target
from capeval.runs.sources import SAMPLE, Source, annotations_of, run_name
from capeval.schema import Caption, Frozen, Scored
from capeval.scoring.judged_run import load_judged
from capeval.show.numbers import percent, share
from capeval.show.result import Result
from capeval.show.table import INTERVAL, SHARE, Page, Table, columns
from capeval.stats.video_ratios import design_effect, wilson
from capeval.text import counted, one_line
from capeval.trust.probe_kinds import KINDS, Probe, ProbeKind, build_probes

if TYPE_CHECKING:
    from capeval.schema import Annotation

MODEL = "probes"
"""The `model` of the captions, and their system in `labels.csv`."""


@declares
class ProbeOptions(JudgingOptions):
    """The arguments of `capeval.probe`.

    Parameters
    ----------
    annotations : Annotations to build from, or 'sample' for the bundled ones.
    count : How many videos, or all if there are fewer.
    seed : The seed of videos and probes.
    run : The probes' run. By default the annotations' name, without its
        ending.
    runs : The folder of this run, apart from other runs, so that no leaderboard ranks it.
    """

    annotations: str | Path | Sequence[Annotation | Mapping[str, Any]] = option(
        "sample", note="Or `Annotation`s, or dicts.", positional=True, metavar="ANNOTATIONS"
    )
    _: KW_ONLY
    count: int = option(40, panel=INPUTS, metavar="N", min=1)
    seed: int = python_only(0, min=0)
    explain: bool = python_only(False)
    max_concurrency: int = python_only(64, min=1, max=4096)
    run: str | None = option(None, panel=INPUTS, metavar="NAME")
    runs: str | Path = python_only("probes")


# ---- The probes as a run -----------------------------------------------------------------------


@dataclass(frozen=True)
class ProbeSource(Source):
    """Probes as captions to judge, stored with their annotations and `labels.csv`."""

    probes: Sequence[Probe] = ()

    def store(self) -> None:
        self.check()
        path = Path(self.annotations_path)
        write_jsonl(path, (one.model_dump(exclude_none=True) for one in self.annotations))
        rows = (
            (probe.index, MODEL, f"{event + 1}.{place + 1}", label, probe.kind)
            for probe in self.probes
            for (event, place), label in sorted(probe.labels.items())
        )
        text = csv_of_rows(("video_id", "system", "element_id", "label", "probe"), rows)
        write_atomic(RunFolder(path.parent).known_verdicts, text)
        super().store()


def probes_of(o: ProbeOptions) -> ProbeSource:
    """Build the probes as a run that can be judged; nothing is written.

    Each probe is judged against its video's annotation, under the probe's index.
    """
    named = o.annotations
    annotations = annotations_of(named)
    if isinstance(named, str | Path):
        name = o.run or split_format(named)[1].stem
    else:
        name = o.run or "annotations"
    probes = build_probes(annotations, videos=o.count, seed=o.seed)
    if not probes:
        raise UsageError("no probe can be built: no video has a sentence that can be used")
    run = RunFolder(Path(o.runs) / run_name(name))
    captions = (
        {"index": one.index, "caption": one.caption, "model": MODEL, "edits": list(one.edits)}
        for one in probes
    )
    videos = counted(min(o.count, len(annotations)), "video")
    return ProbeSource(
        name=run.name,
        run=run,
        annotations=tuple(
            probe.annotation.model_copy(update={"index": probe.index}) for probe in probes
        ),
        captions=tuple(map(Caption.model_validate, captions)),
        annotations_path=str(run.path / "annotations.jsonl"),
        origin=f"the probes of {videos} with seed {o.seed}",
        probes=probes,
    )


# ---- The result --------------------------------------------------------------------------------


class KindResult(Frozen):
    """The verdicts of one judge on one kind of probe.

    `right` of `n` verdicts are right; `low` and `high` are the 95% interval of their share.
    Unscored captions count in neither.
    """

    right: int
    n: int
    value: float | None
    low: float | None
    high: float | None
    captions: int
    unscored: int


class Probing(Result, Frozen):
    """How often a judge is right, by kind of probe, the worst kind first.

    `folder` holds the probes; `judge` is None if there is no verdict yet.
    """

    folder: str
    judge: str | None
    videos: int
    captions: int
    unscored: int
    kinds: dict[ProbeKind, KindResult]

    def headline(self) -> str:
        kind, worst = next(iter(self.kinds.items()))
        if self.judge is None or worst.value is None:
            return f"No verdict on {counted(self.captions, 'caption')} yet."
        unscored = share(self.unscored, self.captions)
        left = f"; {unscored} captions unscored" if self.unscored else ""
        ends = f"[{percent(worst.low)}, {percent(worst.high)}]"
        if worst.value == 1:
            total = sum(one.n for one in self.kinds.values())
            return (
                f"{one_line(self.judge)}: all {counted(total, 'known verdict')} right (probes of "
                f"{counted(self.videos, 'video')}{left})."
            )
        return (
            f"{one_line(self.judge)}: right least often on {kind} probes, in "
            f"{percent(worst.value)}% {ends} of {counted(worst.n, 'verdict')} (probes of "
            f"{counted(self.videos, 'video')}{left})."
        )

    def pages(self, *, full: bool = False) -> list[Page]:
        table = Table(
            "Right verdicts, worst kind first",
            columns("Probe", ("Right", SHARE), ("Share, % [95%]", INTERVAL), ("Unscored", SHARE)),
        )
        for kind, one in self.kinds.items():
            table.rows.append([kind, (one.right, one.n), one, (one.unscored, one.captions)])
        kinds = (
            "Captions: verbatim, the annotated sentences; dropped, without a part of them; "
            "reordered, with the first event last; contradicted, with false phrases; foreign, "
            "those of another video; injected, with instructions to the judge. Right: of the known "
            "verdicts. Unscored: of the captions."
        )
        where = f"Captions and known verdicts: captions.jsonl and labels.csv in {self.folder}."
        return [Page([table], notes=[kinds, where])]


def compared(source: ProbeSource, judged: Judged) -> Probing:
    """Compare a judge's verdicts with the known verdicts."""
    run = load_judged(judged.file.parent, annotations=source.annotations) if judged.file else None
    scored = run.scored if run else {}
    of_kind = {kind: [one for one in source.probes if one.kind == kind] for kind in KINDS}
    kinds = {kind: _kind_result(probes, scored) for kind, probes in of_kind.items() if probes}

    def quality(kind: ProbeKind) -> tuple[float, float]:
        # Among kinds without a mistake, the one with the widest interval comes first.
        one = kinds[kind]
        return (1.0, 1.0) if one.value is None or one.low is None else (one.value, one.low)

    return Probing(
        folder=str(source.run),
        judge=run.identity.judge if run else None,
        videos=len({probe.annotation.index for probe in source.probes}),
        captions=len(source.probes),
        unscored=sum(one.unscored for one in kinds.values()),
        kinds={kind: kinds[kind] for kind in sorted(kinds, key=quality)},
    )


def _kind_result(probes: Sequence[Probe], scored: Mapping[str, Scored]) -> KindResult:
    by_video: dict[str, list[bool]] = defaultdict(list)
    for probe in probes:
        if probe.index in scored:
            relations = scored[probe.index].relations
            for (event, place), label in probe.labels.items():
                given = relations[event][place]
                # A foreign caption may also contradict.
                is_right = given == label or (probe.kind == "foreign" and given != "entailment")
                by_video[probe.annotation.index].append(is_right)
    correct = np.array([sum(of) for of in by_video.values()], dtype=np.float64)
    n = np.array([len(of) for of in by_video.values()], dtype=np.float64)
    right, total = int(correct.sum()), int(n.sum())
    low = high = None
    if total:
        low, high = wilson(right / total, total / design_effect(correct, n))
    return KindResult(
        right=right,
        n=total,
        value=right / total if total else None,
        low=low,
        high=high,
        captions=len(probes),
        unscored=sum(probe.index not in scored for probe in probes),
    )


# ---- The work ----------------------------------------------------------------------------------


class ProbingSession(JudgingSession):
    """The probes of one judge."""

    def __init__(self, o: ProbeOptions, source: ProbeSource, opened: OpenJudge) -> None:
        target = Target(source.name, lambda: source, source.run)
        shared = {one.name for one in fields(RunOptions)} & {one.name for one in fields(o)}
        options = RunOptions(**{name: getattr(o, name) for name in shared})
        super().__init__(options, [target], opened)
        self._source = source

    def value(self, results: Sequence[Judged]) -> Probing:
        return compared(self._source, results[0])

    def shown(self, results: Sequence[Judged]) -> Probing:
        return self.value(results)


@command("probe", "max_failed", "yes", "dry_run", "as_json", options=ProbeOptions)
@asynccontextmanager
async def open_probing(o: ProbeOptions, *, dry_run: bool = False) -> AsyncIterator[ProbingSession]:
    """Check how far a judge can be trusted, without human labels.

    Captions are made of annotated sentences with known changes, so that the right verdicts are
    known. The table shows the share that the judge gets right, the worst kind of change first. The
    captions become a run in probes/, with the known verdicts in labels.csv.

    Run the same command again to resume: nothing is paid for twice.
    """
    source = probes_of(o)
    is_sample = o.annotations == SAMPLE
    async with open_judge(o, offline=dry_run, is_sample=is_sample) as opened:
        yield ProbingSession(o, source, opened)


probe_async, probe = functions("probe", open_probing, ProbeOptions, Probing)
