"""A judged run as a whole: its captions, verdicts, annotations and scores."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from capeval.errors import InputError, UsageError
from capeval.files.annotations import annotations_hash
from capeval.files.jsonl import dumps, write_atomic
from capeval.runs.folder import JudgeFolder, RunFolder
from capeval.runs.resolve import RUNS, find_judgments
from capeval.runs.sources import (
    annotations_file,
    annotations_in_memory,
    annotations_named_by,
    annotations_of,
    tested_model_warnings,
)
from capeval.schema import Annotation, Caption, Judgment, Scored
from capeval.scoring import Scores
from capeval.scoring.verdicts import (
    JudgeIdentity,
    addresses_of,
    judged_by,
    signature_of,
    snapshots_notice,
    stored_judgments,
    summarise,
)
from capeval.text import counted, distinct
from capeval.version import __version__


def write_scores(folder: JudgeFolder, scores: Scores) -> None:
    """Write `scores.json`."""
    write_atomic(folder.scores, scores_text(scores))


def scores_text(scores: Scores) -> str:
    """Return the content of a file of scores."""
    try:
        # Of a million videos, it takes a twentieth of the time and the memory of `dumps`.
        return scores.model_dump_json(indent=1) + "\n"
    except PydanticSerializationError:  # an unpaired surrogate in a name
        return dumps(scores.model_dump(mode="json"), indent=1) + "\n"


def fingerprint(folder: JudgeFolder, annotations: tuple[Annotation, ...], repeats: int) -> str:
    """Return the SHA-256 (hex) of all that the scores of a run depend on, and of `scores.json`.

    As long as it is the same, judging and scoring the run again would write the same files.
    """
    run = RunFolder(folder.path.parent)
    found = [__version__, annotations_hash(annotations), repeats]
    for file in (*run.caption_files, folder.judgments, folder.scores):
        if file.exists():
            with file.open("rb") as stream:
                found += [file.name, hashlib.file_digest(stream, "sha256").hexdigest()]
    return hashlib.sha256(dumps(found).encode()).hexdigest()


def load_scores(folder: JudgeFolder) -> Scores:
    """Return what `write_scores` wrote."""
    data = folder.scores.read_bytes()
    try:
        return Scores.model_validate_json(data)
    except ValidationError:  # an unpaired surrogate in a name
        return Scores.model_validate(json.loads(data))


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
        """The scores of the verdicts, computed from them."""
        return summarise(
            self.annotations,
            list(self.judgments.values()),
            captioned=self.captioned,
        )

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
        """The verdicts that count, by index."""
        return {index: j for index, j in self.judgments.items() if isinstance(j, Scored)}

    @cached_property
    def unscored(self) -> dict[str, str]:
        """The reasons of the captions that could not be judged, by index."""
        return {j.index: j.reason for j in self.judgments.values() if not isinstance(j, Scored)}

    @cached_property
    def notices(self) -> list[str]:
        """What a reader of the scores must know: they are of a part, or of several snapshots."""
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
        """That the model that wrote the captions drafted the annotations, if so."""
        drafted = ({"drafted_by": one.drafted_by} for one in self.annotations)
        models = (self.model, *(caption.model for caption in self.captions.values()))
        return tested_model_warnings(self.name, "annotations", drafted, models)

    @cached_property
    def model(self) -> str | None:
        """The model that wrote the captions, if they or the manifest name one."""
        generation = self.manifest.get("generation")
        named = generation.get("model") if isinstance(generation, Mapping) else None
        if isinstance(named, str):
            return named
        models = {caption.model for caption in self.captions.values()}
        return models.pop() if len(models) == 1 else None

    @property
    def frames(self) -> str | None:
        """The frame sampling policy of the captions, as typed on the command line."""
        generation = self.manifest.get("generation")
        policy = generation.get("frames") if isinstance(generation, Mapping) else None
        return policy if isinstance(policy, str) else None


def load_judged(
    name_or_path: str | Path,
    *,
    runs: Path = RUNS,
    judge: str | None = None,
    annotations: str | Path | Sequence[Annotation | Mapping[str, Any]] | None = None,
    ignore_unknown: bool = False,
    repeats: int | None = None,
) -> JudgedRun:
    """Load a judged run.

    Parameters
    ----------
    name_or_path, runs, judge : as in `capeval.runs.resolve.find_judgments`
    annotations : their file, or the annotations themselves; else the run's manifest names them
    ignore_unknown : skip verdicts on videos without an annotation
    repeats : how many repeats count; by default the number last asked for
    """
    file = find_judgments(name_or_path, runs, judge)
    if annotations is None or isinstance(annotations, str | Path):
        named = str(annotations or annotations_named_by(file) or "")
        if not named:
            raise UsageError(f"{name_or_path}: name its annotations with --annotations")
        if not annotations and not annotations_file(named).exists():
            what = f"its annotations {named} do not exist here; name them with --annotations"
            raise InputError(what, file=name_or_path)
        loaded = annotations_of(named)
    else:
        named, loaded = "memory", annotations_in_memory(annotations)
    judgments, captioned = stored_judgments(
        file, loaded, ignore_unknown=ignore_unknown, repeats=repeats
    )
    run = JudgeFolder(file.parent).run
    known = {annotation.index for annotation in loaded}
    loaded_captions = run.read_captions() if run else ()
    captions = {caption.index: caption for caption in loaded_captions if caption.index in known}
    return JudgedRun(
        name=run.name if run else file.stem,
        file=file,
        run=run,
        annotations=loaded,
        annotations_path=named,
        captions=captions,
        judgments={judgment.index: judgment for judgment in judgments},
        captioned=captioned,
        manifest=run.read_manifest() if run else {},
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
