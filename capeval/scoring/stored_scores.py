"""`scores.json`, the export of the scores of one judge's verdicts.

Commands compute scores from the verdicts. Only `capeval judge` reads the file, where nothing has
changed since it wrote it (see `fingerprint`).
"""

from __future__ import annotations

import hashlib
import json

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from capeval.files.annotations import annotations_hash
from capeval.files.jsonl import dumps, write_atomic
from capeval.runs.folder import JudgeFolder, RunFolder
from capeval.schema import Annotation
from capeval.scoring import Scores
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
