"""A judged run: its captions, verdicts, annotations and scores."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capeval.errors import InputError, UsageError
from capeval.files.annotations import annotations_hash
from capeval.files.jsonl import collection_paused, dumps
from capeval.language import word_count
from capeval.runs.folder import JudgeFolder, RunFolder
from capeval.runs.resolve import RUNS, find_judgments
from capeval.runs.sources import (
    GivenAnnotations,
    annotations_file,
    annotations_of,
    run_around,
    tested_model_warnings,
)
from capeval.schema import Annotation, Caption, Judgment, Scored, Usage
from capeval.scoring.counts import (
    GROUPS,
    MEASURES,
    AnnotationArrays,
    Membership,
    arrays_of,
    by_way,
    measures,
    memberships,
)
from capeval.scoring.scores import (
    Breakdown,
    Bucket,
    Counts,
    Estimate,
    RepeatSpread,
    Scores,
    TypeScores,
    UnmatchedEvents,
    VideoScore,
    by_type,
)
from capeval.scoring.verdicts import (
    VERSION,
    JudgeIdentity,
    addresses_of,
    judged_by,
    recorded,
    signature_text,
    snapshots_notice,
    stored_judgments,
)
from capeval.stats.values import mean_intervals
from capeval.text import counted, distinct
from capeval.version import __version__

INTERVAL = "t interval over videos, corrected for skewness (Hall, 1992)"
"""The method of the intervals, as scores.json records it."""


# ---- From verdicts to scores --------------------------------------------------------------------


def signature_of(annotations: Sequence[Annotation], judgments: Sequence[Judgment]) -> str:
    """Return the signature of scores from the judgments of one judge."""
    identity, models = judged_by(judgments)
    data = annotations_hash(tuple(annotations))
    named = next((one.provenance.endpoint for one in judgments if one.provenance.endpoint), None)
    parts = {
        "capeval": "tuna-cap",
        "judge": "+".join(models) or identity.judge,
        **({"endpoint": named} if named else {}),
        "prompts": identity.prompts or "none",
        **({"reasoning": identity.reasoning} if identity.reasoning else {}),
        "repeats": str(identity.repeats),
        "avg": "macro",
        "data": f"{data[:6]}@{len(annotations)}",
        VERSION: __version__,
    }
    return signature_text(parts)


def score_judgments(
    annotations: Sequence[Annotation], judgments: Sequence[Judgment], *, captioned: int
) -> Scores:
    """Score the verdicts of one judge: means over videos, overall and in every bucket.

    Unscored judgments are left out of all means; only the counts show them.

    Parameters
    ----------
    annotations : of the whole set
    judgments : at most one for each annotated video, in any order
    captioned : number of videos that have a caption
    """
    reference = arrays_of(tuple(annotations))
    by_index = {one.index: one for one in judgments if isinstance(one, Scored)}
    scored = {row: by_index[i] for i, row in reference.rows.items() if i in by_index}
    counts = reference.counts([*scored], [judgment.relations for judgment in scored.values()])
    values = measures(counts)
    overall, by = _tables(values, memberships([annotations[row] for row in scored]))
    identity, models = judged_by(judgments)
    verdicts = [*scored.values()]
    return Scores(
        signature=signature_of(annotations, judgments),
        counts=Counts(
            annotated=len(annotations),
            captioned=captioned,
            scored=len(scored),
            unscored=captioned - len(scored),
            empty=sum(not judgment.candidate_events for judgment in verdicts),
        ),
        overall=overall,
        by=by,
        videos=video_scores([judgment.index for judgment in verdicts], counts, values),
        unmatched_events=_unmatched(verdicts),
        repeat_spread=_spread(reference, scored),
        usage=_usage(judgments),
        settings={
            "judge": identity.judge,
            "baseline": identity.baseline,
            "base_url": addresses_of(verdicts or judgments),
            "prompts": identity.prompts,
            **({"reasoning": identity.reasoning} if identity.reasoning else {}),
            "repeats": identity.repeats,
            "models": models,
            "fingerprints": recorded("fingerprints", verdicts),
            "left_off": recorded("left_off", verdicts),
            "data": annotations_hash(tuple(annotations)),
            "interval": {"level": 0.95, "method": INTERVAL},
        },
    )


def _tables(values: NDArray[np.float64], members: Sequence[Membership]) -> tuple[Bucket, Breakdown]:
    members = [Membership("overall", "", np.ones(len(values), dtype=bool)), *members]
    shape = (len(members), len(GROUPS), len(MEASURES))
    present = ~np.isnan(values)
    filled = np.where(present, values, 0.0)
    n = np.array([present[of.inside].sum(axis=0) for of in members])
    sums = np.array([filled[of.inside].sum(axis=0) for of in members])
    mean = np.divide(sums, n, out=np.full(shape, np.nan), where=n > 0)
    flat = values.reshape(len(values), mean[0].size)
    # Bucket by bucket: all of them at once take more memory than the verdicts.
    ends = [
        mean_intervals(np.where(of.inside[:, None], flat, np.nan), limits=(0, 1)) for of in members
    ]
    low, high = np.array(ends).swapaxes(0, 1).reshape(2, *shape)
    table = np.stack([mean, low, high], axis=-1)
    of = partial(by_type, TypeScores, Estimate, ("value", "low", "high"))
    buckets = [Bucket(**of(*one)) for one in zip(table, n[:, :, 0], strict=True)]
    return buckets[0], Breakdown(**by_way(members[1:], buckets[1:]))


def video_scores(
    indexes: Sequence[str], counts: NDArray[np.int64], values: NDArray[np.float64]
) -> dict[str, dict[str, VideoScore]]:
    """Return the score of each video by type, from arrays (videos, 5 groups, 3)."""
    return {
        index: {
            group: VideoScore(*of_group, *measured)
            for group, of_group, measured in zip(
                GROUPS, *(one.tolist() for one in of_video), strict=True
            )
            if of_group[-1] > 0
        }
        for index, *of_video in zip(indexes, counts, values, strict=True)
    }


def _unmatched(judgments: Sequence[Scored]) -> UnmatchedEvents:
    candidate = sum(len(judgment.matches) for judgment in judgments)
    unmatched = sum(judgment.matches.count(None) for judgment in judgments)
    share = unmatched / candidate if candidate else None
    return UnmatchedEvents(unmatched=unmatched, candidate=candidate, share=share)


def _usage(judgments: Sequence[Judgment]) -> dict[str, Usage]:
    stages: dict[str, list[Usage]] = {}
    for judgment in judgments:
        for stage, usage in judgment.usage.items():
            stages.setdefault(stage, []).append(usage)
    return {
        stage: Usage(**{name: sum(getattr(u, name) for u in used) for name in Usage.model_fields})
        for stage, used in stages.items()
    }


def _spread(reference: AnnotationArrays, scored: Mapping[int, Scored]) -> RepeatSpread | None:
    repeated = {row: judgment.repeats for row, judgment in scored.items() if judgment.repeats[1:]}
    if not repeated:
        return None
    rows, repeats = list(repeated), min(map(len, repeated.values()))
    means = np.array(
        [
            measures(reference.counts(rows, [v[k].relations for v in repeated.values()]))[
                :, 0
            ].mean(axis=0)
            for k in range(repeats)
        ]
    )
    alike = [
        len(set(labels)) == 1
        for verdicts in repeated.values()
        for labels in zip(*(chain(*v.relations) for v in verdicts), strict=True)
    ]
    return RepeatSpread(
        repeats=repeats,
        precision=tuple(means[:, 0].tolist()),
        recall=tuple(means[:, 1].tolist()),
        f1=tuple(means[:, 2].tolist()),
        f1_sd=float(means[:, 2].std(ddof=1)),
        unanimous=sum(alike) / len(alike),
    )


# ---- Files and runs -----------------------------------------------------------------------------


def scores_text(scores: Scores) -> str:
    return dumps(scores.model_dump(mode="json"), indent=1) + "\n"


def fingerprint(folder: JudgeFolder, annotations: tuple[Annotation, ...], repeats: int) -> str:
    """Return the SHA-256 (hex) of the inputs of a run's scores, and of `scores.json`.

    As long as it is the same, judging and scoring the run again would write the same files.
    """
    run = RunFolder(folder.path.parent)
    found = [__version__, annotations_hash(annotations), repeats]
    for file in (*run.caption_files, folder.judgments, folder.scores):
        if file.exists():
            with file.open("rb") as stream:
                found += [file.name, hashlib.file_digest(stream, "sha256").hexdigest()]
    return hashlib.sha256(dumps(found).encode()).hexdigest()


@dataclass(frozen=True)
class JudgedRun:
    """One run as judged by one judge.

    `file` is the file of judgments; `run` is the run that it is in, None for verdicts outside a
    run. `captions` and `judgments` are by index; a video without a caption is in neither.
    """

    name: str
    file: Path
    run: RunFolder | None
    annotations: tuple[Annotation, ...]
    annotations_path: str
    captions: Mapping[str, Caption]
    judgments: Mapping[str, Judgment]
    captioned: int
    manifest: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def scores(self) -> Scores:
        found = score_judgments(
            self.annotations, list(self.judgments.values()), captioned=self.captioned
        )
        return found.model_copy(update={"mean_words": self.mean_words(self.scored)})

    @cached_property
    def _words(self) -> dict[str, int]:
        return {index: word_count(one.caption) for index, one in self.captions.items()}

    def mean_words(self, videos: Collection[str]) -> float | None:
        """Return the mean number of words of some captions; None unless all are known."""
        if not videos or any(index not in self._words for index in videos):
            return None
        return fmean(self._words[index] for index in videos)

    @cached_property
    def signature(self) -> str:
        return signature_of(self.annotations, list(self.judgments.values()))

    @cached_property
    def identity(self) -> JudgeIdentity:
        """The judge, and how often it judged each caption."""
        return judged_by(list(self.judgments.values()))[0]

    @cached_property
    def annotated(self) -> dict[str, Annotation]:
        return {annotation.index: annotation for annotation in self.annotations}

    @cached_property
    def scored(self) -> dict[str, Scored]:
        return {index: j for index, j in self.judgments.items() if isinstance(j, Scored)}

    @cached_property
    def unscored(self) -> dict[str, str]:
        """The reasons of the captions that could not be judged, by index."""
        return {j.index: j.reason for j in self.judgments.values() if not isinstance(j, Scored)}

    @cached_property
    def notices(self) -> list[str]:
        """Warnings about the scores: captions without a verdict, several snapshots of the judge."""
        found = []
        unjudged = len(self.captions.keys() - self.judgments.keys()) if self.run else 0
        if unjudged:
            found.append(
                f"{self.name}: {unjudged:,} of {counted(self.captioned, 'caption')} "
                f"{'is' if unjudged == 1 else 'are'} not judged yet; "
                f"finish with {self.identity.command}"
            )
        if self.identity.judge == JudgeIdentity().judge:
            found.append(f"{self.name}: the judge is unknown, the verdicts do not record it")
        judgments = list(self.judgments.values())
        models, addresses = judged_by(judgments)[1], addresses_of(judgments)
        if notice := snapshots_notice(self.name, models, addresses):
            found.append(notice)
        return [*found, *self.warnings]

    @property
    def warnings(self) -> list[str]:
        drafted = ({"drafted_by": one.drafted_by} for one in self.annotations)
        models = (self.model, *(caption.model for caption in self.captions.values()))
        return tested_model_warnings(self.name, "annotations", drafted, models)

    @cached_property
    def model(self) -> str | None:
        """The model that wrote the captions, if they or the manifest name one."""
        models = {caption.model for caption in self.captions.values()}
        only = models.pop() if len(models) == 1 else None
        return (self.manifest.get("generation") or {}).get("model") or only

    @property
    def frames(self) -> str | None:
        """The frame sampling policy of the captions, as typed on the command line."""
        policy: str | None = (self.manifest.get("generation") or {}).get("frames")
        return policy


@collection_paused()
def load_judged(
    name_or_path: str | Path,
    *,
    runs: Path = RUNS,
    judge: str | None = None,
    annotations: GivenAnnotations | None = None,
    ignore_unknown: bool = False,
    repeats: int | None = None,
) -> JudgedRun:
    """Load a judged run.

    Parameters
    ----------
    name_or_path, runs, judge : as in `capeval.runs.resolve.find_judgments`
    annotations : their file, or the annotations themselves; else the run's manifest names them
    ignore_unknown : skip verdicts on videos without an annotation
    repeats : how many repeats count; by default the number of the last request
    """
    file = find_judgments(name_or_path, runs, judge)
    around = run_around(file)
    manifest = around.read_manifest() if around else {}
    if annotations is None or isinstance(annotations, str | Path):
        named = str(annotations or (around and around.annotations_in(manifest)) or "")
        if not named:
            raise UsageError(f"{name_or_path}: name its annotations with --annotations")
        if not annotations and not annotations_file(named).exists():
            what = f"its annotations {named} do not exist here; name them with --annotations"
            raise InputError(what, file=name_or_path)
        annotations = named
    else:
        named = "memory"
    loaded = annotations_of(annotations)
    run = JudgeFolder(file.parent).run
    read = run.read_captions() if run else None
    judgments = stored_judgments(file, loaded, read, ignore_unknown=ignore_unknown, repeats=repeats)
    known = {annotation.index for annotation in loaded}
    captions = {caption.index: caption for caption in read or () if caption.index in known}
    return JudgedRun(
        name=run.name if run else file.stem,
        file=file,
        run=run,
        annotations=loaded,
        annotations_path=named,
        captions=captions,
        judgments={judgment.index: judgment for judgment in judgments},
        captioned=len(captions) if run else len(judgments),
        manifest=manifest if run else {},
    )


def load_judged_runs(
    names_or_paths: Sequence[str | Path],
    *,
    runs: Path = RUNS,
    judge: str | None = None,
    annotations: str | Path | None = None,
) -> dict[str, JudgedRun]:
    """Load judged runs by distinct names: the run's, with the judge's if two runs share one."""
    loaded = [
        load_judged(one, runs=runs, judge=judge, annotations=annotations) for one in names_or_paths
    ]
    files = Counter(run.file.resolve() for run in loaded)
    for run in loaded:
        if files[run.file.resolve()] > 1:
            raise UsageError(f"{run.file} is named twice")
    with_judge = [f"{run.name} ({run.file.parent.name})" for run in loaded]
    names = distinct([run.name for run in loaded], with_judge, [str(run.file) for run in loaded])
    return dict(zip(names, loaded, strict=True))


def files_behind(loaded: Iterable[JudgedRun]) -> list[Path]:
    """Return the files that judged runs were read from, so that none of them is overwritten."""
    return [file for run in loaded for file in (run.file, annotations_file(run.annotations_path))]
