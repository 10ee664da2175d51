"""`scores.json`, the export of the scores of one judge's verdicts.

Commands compute scores from the verdicts. Two read the file: `capeval score --check`, and `capeval
judge` where nothing has changed since it wrote it (see `fingerprint`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from capeval.errors import InputError
from capeval.files.annotations import annotations_hash
from capeval.files.jsonl import dumps, write_atomic
from capeval.files.reading import parse_json, read_text
from capeval.runs.folder import JudgeFolder, RunFolder
from capeval.runs.judged_run import JudgedRun
from capeval.schema import Annotation
from capeval.scoring import Scores, Signature
from capeval.scoring.signature import VERSION, differing_parts
from capeval.version import __version__

TOLERANCE = 1e-9
"""The most that floating-point sums in another order, or of another platform, may differ by."""


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
    for file in (*run.caption_files, run.labels, folder.judgments, folder.scores):
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


def read_scores(file: Path) -> dict[str, Any]:
    """Return the content of a file of scores as JSON values, even if they cannot be right."""
    value = parse_json(read_text(file), file=file)
    if not isinstance(value, dict) or not value.keys() & {"overall", "by", "videos"}:
        known = ", ".join(Scores.model_fields)
        raise InputError(f"is no scores.json: it must be an object of {known}", file=file)
    return value


@dataclass(frozen=True)
class Checked:
    """The result of a check: how many numbers agree, all differences, and remarks on them.

    A difference has a `path`, and the value in the file (`theirs`) and recomputed (`ours`); a side
    that lacks the value has no key.
    """

    file: Path
    numbers: int
    differences: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]


def check_scores(judged: JudgedRun, file: Path) -> Checked:
    """Recompute a file of scores from the verdicts of a judged run, and list all that differs.

    Numbers agree if they differ by no more than 1e-9: what floating point may differ by from one
    platform to another. Another version of capeval is noted, and is no difference. If the file
    names another judge, prompts or repeats, only the signatures are compared.
    """
    theirs, ours = read_scores(file), judged.scores.model_dump(mode="json")
    notes, is_same_judge = _about_signatures(str(theirs.get("signature")), ours["signature"])
    if theirs.get("calibrated") is None and ours.pop("calibrated", None) is not None:
        notes.append("it has no calibrated scores, although the run has labels")
    elif theirs.get("calibrated") is not None and ours.get("calibrated") is None:
        del theirs["calibrated"]
        notes.append(
            "its calibrated scores are not checked, as the labels are not here; name their file "
            "with --labels"
        )
    if not is_same_judge:
        theirs, ours = ({"signature": side.get("signature")} for side in (theirs, ours))
    sides = {"theirs": dict(_leaves(theirs)), "ours": dict(_leaves(ours))}
    agree, differences = 0, []
    for path in {**sides["ours"], **sides["theirs"]}:
        found = {name: values[path] for name, values in sides.items() if path in values}
        if len(found) < 2 or not _is_equal(**found):
            differences.append({"path": path, **found})
        else:
            agree += _is_number(found["ours"])
    return Checked(file, agree, tuple(differences), tuple(notes))


def _about_signatures(theirs: str, ours: str) -> tuple[list[str], bool]:
    """Return remarks on what differs, and whether the verdicts are of the judge that is named."""
    stored, made = Signature.parse(theirs), Signature.parse(ours)
    notes = []
    if stored.get(VERSION) != made.get(VERSION):
        notes.append(
            f"scored by capeval {stored.get(VERSION) or 'unknown'}, checked by {made.get(VERSION)}"
        )
    differing = differing_parts(stored, made).keys()
    if "data" in differing:
        notes.append("the annotations are not those that the file was made with")
    is_same_judge = not differing & {"judge", "prompts", "reasoning", "repeats"}
    if not is_same_judge:
        notes.append(
            "the verdicts are not of the judge that the file names, so its numbers are not compared"
        )
    return notes, is_same_judge


def _leaves(value: Any, path: str = "", name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path of every value that is no list or object; a signature is read as its parts."""
    if name == "signature" and isinstance(value, str):
        value = Signature.parse(value).without_version()
    elif isinstance(value, list):
        value = {str(number): inner for number, inner in enumerate(value, start=1)}
    if not isinstance(value, dict):
        yield path, value
        return
    for key, inner in value.items():
        yield from _leaves(inner, f"{path}.{key}" if path else key, key)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _is_equal(theirs: Any, ours: Any) -> bool:
    if _is_number(theirs) and _is_number(ours):
        return math.isclose(theirs, ours, rel_tol=0, abs_tol=TOLERANCE)
    return type(theirs) is type(ours) and bool(theirs == ours)
