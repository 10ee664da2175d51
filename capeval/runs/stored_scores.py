"""The files of a judge: its verdicts, and `scores.json`, the export of their scores.

Commands compute scores from the verdicts. They read this file for bridged scores alone, which are
made of several runs, and `capeval score --check` compares it with the verdicts.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from capeval.errors import InputError
from capeval.files.jsonl import dumps, write_atomic
from capeval.files.judgments import load_judgments, write_judgments
from capeval.files.reading import parse_json, read_bytes, read_text
from capeval.runs.folder import JudgeFolder
from capeval.runs.human_labels import labels_of, read_labels
from capeval.runs.judged_run import JudgedRun
from capeval.runs.sources import Source
from capeval.runs.verdicts import summarise
from capeval.schema import Judgment
from capeval.scoring import Scores, Signature
from capeval.scoring.result import Bridged
from capeval.scoring.signature import VERSION, differing_parts
from capeval.text import complaint, shown

TOLERANCE = 1e-9
"""The most that floating-point sums in another order, or of another platform, may differ by."""

OTHER_JUDGE = (
    "the verdicts are not of the judge that the file names, so its numbers are not compared"
)
"""The note on a file of which only the signature is compared."""

_PLAIN = re.compile(r"[^\s.\"]+")


class VerdictStore:
    """Reads and writes the verdicts and scores of one judge; without a folder nothing is stored."""

    def __init__(self, source: Source, folder: JudgeFolder | None) -> None:
        self._source, self.folder = source, folder
        self.lines: dict[str, Judgment] = {}
        """What is stored, by index."""
        self._judgments: list[Judgment] = []

    def load(self) -> dict[str, Judgment]:
        """Return the stored judgments by index."""
        if self._source.run:
            # Labels that cannot be read must stop the command before it spends anything.
            read_labels(self._source.run)
        self.lines = load_judgments(self.folder.judgments) if self.folder else {}
        return self.lines

    def finish(self, done: Mapping[str, Judgment]) -> None:
        """Write all judgments in the order of the annotations, and the scores of those `done`.

        Judgments of videos that are no longer captioned or annotated are kept at the end.
        """
        order = {one.index: place for place, one in enumerate(self._source.annotations)}
        self._judgments = [done[index] for index in order if index in done]
        if self.folder:
            lines = sorted(self.lines.values(), key=lambda one: order.get(one.index, len(order)))
            write_judgments(self.folder.judgments, lines)
            write_scores(self.folder, self.scores)

    @cached_property
    def scores(self) -> Scores:
        """The scores of the judgments that were finished."""
        source, run = self._source, self._source.run
        captions = {caption.index: caption for caption in source.captions}
        return summarise(
            source.annotations,
            self._judgments,
            captioned=len(source.captions),
            labels=labels_of(run, source.annotations, captions) if run else None,
        )


def write_scores(folder: JudgeFolder, scores: Scores) -> None:
    """Write `scores.json`, with the bridged scores that it had if these are of the same verdicts.

    `capeval bridge` makes others again without a model.
    """
    bridged = stored_bridged(folder)
    if bridged is not None:
        verdicts = bridged.settings.get("verdicts") or {}
        is_same = _data(bridged.signature) == _data(scores.signature)
        if is_same and verdicts.get("new") == verdicts_hash(folder):
            scores = scores.model_copy(update={"bridged": bridged})
    write_atomic(folder.scores, dumps(scores.model_dump(mode="json"), indent=1) + "\n")


def stored_bridged(folder: JudgeFolder) -> Bridged | None:
    """Return the bridged scores in a judge's `scores.json`; None without a file or in a bad one."""
    try:
        return load_scores(folder.scores).bridged if folder.scores.is_file() else None
    except InputError:
        return None


def _data(signature: str) -> str | None:
    return Signature.parse(signature).get("data")


def verdicts_hash(folder: JudgeFolder) -> str:
    """Return the SHA-256 of a judge's `judgments.jsonl`, to which derived scores are tied."""
    return hashlib.sha256(read_bytes(folder.judgments)).hexdigest()


def read_scores(file: Path) -> dict[str, Any]:
    """Return the content of a file of scores as JSON values, even if they cannot be right."""
    value = parse_json(read_text(file), file=file)
    if not isinstance(value, dict) or not value.keys() & {"overall", "by", "videos"}:
        known = ", ".join(Scores.model_fields)
        raise InputError(f"is no scores.json: it must be an object of {known}", file=file)
    return value


def load_scores(file: Path) -> Scores:
    """Return the scores in a file; raises `InputError` if they do not have the format."""
    try:
        return Scores.model_validate_json(dumps(read_scores(file)))
    except ValidationError as faults:
        field, message = complaint(faults)
        raise InputError(message, file=file, field=field) from None


class Absent(Enum):
    """Stands in for a value that one of two files lacks."""

    MISSING = "–"


@dataclass(frozen=True)
class ValueDifference:
    """A value that differs: in the file and recomputed; either may be missing."""

    path: str
    theirs: Any
    ours: Any

    def __str__(self) -> str:
        theirs, ours = (
            "missing" if one is Absent.MISSING else shown(one) for one in (self.theirs, self.ours)
        )
        return f"{self.path} is {theirs}, but {ours} by the verdicts"


@dataclass(frozen=True)
class Checked:
    """The result of a check: how many numbers agree, all differences, and remarks on them."""

    file: Path
    numbers: int
    differences: tuple[ValueDifference, ...]
    notes: tuple[str, ...]


def check_scores(judged: JudgedRun, file: Path) -> Checked:
    """Recompute a file of scores from the verdicts of a judged run, and list all that differs.

    Numbers agree if they differ by no more than 1e-9: what floating point may differ by from one
    platform to another. Another version of capeval is noted, and is no difference. If the file
    names another judge, prompts or repeats, only the signatures are compared.
    """
    theirs, ours = read_scores(file), judged.scores.model_dump(mode="json")
    found = _Comparison()
    notes = found.signatures(theirs.pop("signature", Absent.MISSING), ours.pop("signature"))
    if theirs.pop("bridged", None) is not None:
        notes.append("its bridged scores are not checked; `capeval bridge` recomputes them")
    ours.pop("bridged", None)
    if theirs.get("calibrated") is None and ours.pop("calibrated", None) is not None:
        notes.append("it has no calibrated scores, although the run has human labels")
    elif isinstance(theirs.get("calibrated"), dict) and ours.get("calibrated") is None:
        del theirs["calibrated"]
        notes.append(
            "its calibrated scores are not checked, as the human labels are not here; name their "
            "file with --human"
        )
    for side in (theirs.get("calibrated"), ours.get("calibrated")):
        if isinstance(side, dict) and isinstance(side.get("signature"), str):
            side["signature"] = Signature.parse(side["signature"]).without_version()
    if OTHER_JUDGE not in notes:
        found.compare("", theirs, ours)
    return Checked(file, found.agree, tuple(found.differences), tuple(notes))


class _Comparison:
    """Walks two JSON values at once, counts the numbers that agree and collects the differences."""

    def __init__(self) -> None:
        self.agree = 0
        self.differences: list[ValueDifference] = []

    def compare(self, path: str, theirs: Any, ours: Any) -> None:
        """Compare two values; of an object that one side lacks, each value is a difference."""
        if ours and isinstance(ours, dict | list) and theirs is Absent.MISSING:
            theirs = type(ours)()
        elif theirs and isinstance(theirs, dict | list) and ours is Absent.MISSING:
            ours = type(theirs)()
        if isinstance(theirs, list) and isinstance(ours, list):
            theirs, ours = (
                {str(at): value for at, value in enumerate(side, start=1)}
                for side in (theirs, ours)
            )
        if isinstance(theirs, dict) and isinstance(ours, dict):
            for key in [*ours, *(key for key in theirs if key not in ours)]:
                self.compare(
                    _json_path(path, key),
                    theirs.get(key, Absent.MISSING),
                    ours.get(key, Absent.MISSING),
                )
        elif _is_number(theirs) and _is_number(ours) and _is_close(theirs, ours):
            self.agree += 1
        elif type(theirs) is not type(ours) or theirs != ours:
            self.differences.append(ValueDifference(path, theirs, ours))

    def signatures(self, theirs: Any, ours: str) -> list[str]:
        """Compare signatures part by part; return remarks on what differs."""
        if not isinstance(theirs, str):
            self.compare("signature", theirs, ours)
            return []
        stored, made = Signature.parse(theirs), Signature.parse(ours)
        self.compare("signature", stored.without_version(), made.without_version())
        notes = []
        if stored.get(VERSION) != made.get(VERSION):
            notes.append(
                f"scored by capeval {stored.get(VERSION) or 'unknown'}, "
                f"checked by {made.get(VERSION)}"
            )
        differing = differing_parts(stored, made)
        if "data" in differing:
            notes.append("the annotations are not those that the file was made with")
        if differing.keys() & {"judge", "prompts", "reasoning", "repeats"}:
            notes.append(OTHER_JUDGE)
        return notes


def _json_path(path: str, key: str) -> str:
    """Return the path of a key under `path`; the key is quoted unless it is a plain word."""
    name = key if _PLAIN.fullmatch(key) else json.dumps(key, ensure_ascii=False)
    return f"{path}.{name}" if path else name


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_close(one: float, other: float) -> bool:
    try:
        return math.isclose(one, other, rel_tol=0, abs_tol=TOLERANCE)
    except OverflowError:
        return one == other
