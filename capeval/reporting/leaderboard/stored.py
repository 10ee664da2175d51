"""The scores of one judge on one run, with what is known of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from capeval.captioners.catalogue import ModelEntry
from capeval.errors import CapevalError, InputError
from capeval.files.annotations import annotations_hash
from capeval.files.reading import read_text
from capeval.reporting.score_tables import ScoreRow, means_of
from capeval.runs.folder import JudgeFolder, RunFolder
from capeval.runs.labels import labels_of
from capeval.runs.sources import annotations_named_by, annotations_of
from capeval.runs.verdicts import stored_judgments, summarise
from capeval.scoring import AnnotationArrays, Scores, Signature

COMPARED = ("capeval", "judge", "prompts", "reasoning", "repeats", "avg", "data")


@dataclass(frozen=True)
class Entry(ScoreRow):
    """One run judged by one judge, or one row of the paper.

    `scores` are all the numbers of a run, None for a row of the paper. `rank` is None for a run
    that has too few videos to be ranked.
    """

    version: str | None = None
    base_url: str | None = None
    folder: Path | None = None
    scores: Scores | None = None

    @property
    def coverage(self) -> float | None:
        """Scored of annotated videos, a fraction; None where it is not known."""
        if self.scored is None or not self.annotated:
            return None
        return self.scored / self.annotated


@dataclass(frozen=True)
class StoredScores:
    """An entry and what decides its section; `data` is the SHA-256 of its annotations.

    `models` are the snapshots of the judge that answered.
    """

    entry: Entry
    signature: Mapping[str, str]
    baseline: bool
    data: str
    models: tuple[str, ...] = ()


def read_stored(
    folder: JudgeFolder, references: References, catalogue: Mapping[str, ModelEntry]
) -> StoredScores:
    """Score what one judge made of a run; raises `InputError` if files are damaged or missing."""
    run = folder.run
    manifest = run.read_manifest() if run else {}
    reference, data = references.of(run, folder, manifest)
    judgments, captioned = stored_judgments(folder.judgments, reference.annotations)
    scores = summarise(
        reference,
        judgments,
        captioned=captioned,
        data=data,
        labels=labels_of(run, reference.annotations, judgments) if run else None,
    )
    signature = Signature.parse(scores.signature)
    model, frames = _made_by(run, manifest)
    counts, f1 = scores.counts, scores.overall.all.f1
    entry = Entry(
        name=run.name if run else folder.path.absolute().name,
        model=model,
        frames=frames,
        parameters=parameters_of(model, catalogue),
        annotated=counts.annotated,
        captioned=counts.captioned,
        scored=counts.scored,
        cells=means_of(scores),
        low=f1.low,
        high=f1.high,
        calibrated=scores.calibrated,
        version=signature.get("v"),
        base_url=_text(scores.settings.get("base_url")),
        folder=folder.path,
        # Of hundreds of runs, those of every video may not fit in memory.
        scores=scores.model_copy(update={"videos": {}}),
    )
    parts = dict(signature.parts)
    shared = {name: parts[name] for name in COMPARED if name in parts}
    models = tuple(scores.settings["models"])
    return StoredScores(entry, shared, scores.settings["baseline"] is True, data, models)


_Loaded = tuple[AnnotationArrays, str]


class References:
    """The annotations of runs with their SHA-256, each set loaded once."""

    def __init__(self, fallback: str | Path | None) -> None:
        self._fallback = fallback
        self._loaded: dict[str, _Loaded | CapevalError] = {}

    def of(
        self, run: RunFolder | None, folder: JudgeFolder, manifest: Mapping[str, Any]
    ) -> _Loaded:
        """Return a run's own annotations, or those named for runs that have lost theirs.

        Raises
        ------
        InputError
            There are none.
        """
        own = annotations_named_by(run.path) if run else None
        found = self._load(own) if own else None
        if isinstance(found, tuple):
            return found
        if self._fallback:
            named = self._load(str(self._fallback))
            if isinstance(named, CapevalError):
                raise named
            if named[1] == manifest.get("annotations", {}).get("sha256", named[1]):
                return named
        why = f" ({found})" if found else ""
        raise InputError(
            f"cannot be scored without its annotations{why}; name them with --annotations",
            file=folder.path,
        )

    def _load(self, path: str) -> _Loaded | CapevalError:
        if path not in self._loaded:
            try:
                annotations = annotations_of(path)
                self._loaded[path] = AnnotationArrays(annotations), annotations_hash(annotations)
            except CapevalError as fault:
                self._loaded[path] = fault
        return self._loaded[path]


def _made_by(run: RunFolder | None, manifest: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the model and the sampling policy, from the manifest or the captions' own lines."""
    generation = manifest.get("generation")
    if isinstance(generation, Mapping):
        return _text(generation.get("model")), _text(generation.get("frames"))
    if run is None:
        return None, None
    models, frames = set(), set()
    lines = (text for file in run.caption_files for text in read_text(file).split("\n"))
    for text in lines:
        try:
            line = from_json(text)
        except ValueError:  # blank, or torn while captions are still written
            continue
        if isinstance(line, dict):
            made = line.get("frames")
            models.add(_text(line.get("model")))
            frames.add(_text(made.get("policy")) if isinstance(made, dict) else None)
    return (
        models.pop() if len(models) == 1 else None,
        frames.pop() if len(frames) == 1 else None,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def parameters_of(model: str | None, catalogue: Mapping[str, ModelEntry]) -> float | None:
    """Return the billions of parameters of a model, by its name or hub id; None if not known."""
    if model is None:
        return None
    wanted = model.removeprefix("hf:")
    if wanted in catalogue:
        return catalogue[wanted].parameters
    hubs = (entry for entry in catalogue.values() if entry.hub)
    return next((e.parameters for e in hubs if str(e.hub).lower() == wanted.lower()), None)
