"""Recomputing a published `scores.json` from verdicts and annotations, number by number."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from capeval.errors import InputError
from capeval.runs.rescoring import rescore
from capeval.runs.stored_scores import LARGEST, TOLERANCE, joined, read_scores, signature_parts
from capeval.schema import Annotation
from capeval.scoring import DRAWS, Scores
from capeval.text import shown

MOST_DRAWS = 50_000
"""Draws of a bootstrap beyond which a file is refused: who checks must not wait for hours."""

_NEARLY_ALL = 0.9


class Missing(Enum):
    """Stands where one of two files has no value."""

    MISSING = "–"


@dataclass(frozen=True)
class Difference:
    """A value that is not the same: in the file, and recomputed; either may be missing."""

    path: str
    theirs: Any
    ours: Any


@dataclass(frozen=True)
class Checked:
    """What came of a check: how many numbers agree, all differences, and what else to know."""

    file: Path
    numbers: int
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]


def check_scores(
    path: Path,
    annotations: Sequence[Annotation],
    file: Path,
    *,
    ignore_unknown: bool = False,
) -> Checked:
    """Recompute what a file of scores says from stored verdicts, and list all that differs.

    Intervals are drawn anew with the seed and the number of draws that the file's own settings
    name. Numbers agree that differ by no more than 1e-9: what floating point may differ by from
    one platform to another. Another version of capeval is noted, and is no difference.

    Parameters
    ----------
    path : a judged run, a judge's folder, a `judgments.jsonl` or a TUNA result file
    file : the scores to check

    Raises
    ------
    InputError
        The file is no scores.json or names more than 50,000 draws, or there is nothing to
        recompute it from.
    """
    theirs = read_scores(file)
    seed, draws = _interval(theirs, file)
    rescored = rescore(path, annotations, seed=seed, draws=draws, ignore_unknown=ignore_unknown)
    ours = rescored.scores.model_dump(mode="json")
    # As it is read from a file: tuples are lists there.
    ours = json.loads(json.dumps(ours))
    found = _Comparison()
    notes = found.signatures(theirs.pop("signature", Missing.MISSING), ours.pop("signature"))
    signed_alike = not found.differences
    found.compare("", theirs, ours)
    if signed_alike and (hint := _another_run(theirs.get("videos"), ours["videos"])):
        notes.append(hint)
    return Checked(file, found.agree, tuple(found.differences), tuple(notes))


def _another_run(theirs: Any, ours: Mapping[str, Any]) -> str | None:
    """Return a hint where nearly all videos differ: an edited or outdated file differs in few."""
    if not isinstance(theirs, dict):
        return None
    videos = {*theirs, *ours}
    differ = 0
    for index in videos:
        found = _Comparison()
        found.compare("", theirs.get(index, Missing.MISSING), ours.get(index, Missing.MISSING))
        differ += bool(found.differences)
    if differ < 2 or differ < _NEARLY_ALL * len(videos):
        return None
    return (
        f"{differ:,} of {len(videos):,} videos differ under the same judge and annotations: the "
        "file may be of another run, or of other captions"
    )


def why_not_those(file: Path, ours: Scores) -> str | None:
    """Return in what a file of scores first differs from those of its verdicts; None if in nothing.

    Held are the counts, every mean and its number of videos; ends of intervals, which depend on a
    seed, are passed over.
    """
    try:
        theirs = read_scores(file)
    except InputError:
        return "it cannot be read as scores"
    made = ours.model_dump(mode="json", include={"counts", "overall", "by"})
    found = _Comparison()
    found.compare("", {part: theirs[part] for part in made if part in theirs}, made)
    for one in found.differences:
        if not one.path.endswith((".low", ".high")):
            return f"{one.path} is {_told(one.theirs)} there and {_told(one.ours)} here"
    return None


def _told(value: Any) -> str:
    if value is Missing.MISSING or value is None:
        return "missing"
    return f"{value:.6g}" if isinstance(value, float) else shown(value)


def _interval(theirs: Mapping[str, Any], file: Path) -> tuple[int, int]:
    """Return the seed and the draws that a file names; what it does not, differs later."""
    settings = theirs.get("settings")
    named = settings.get("interval") if isinstance(settings, dict) else None
    interval = named if isinstance(named, dict) else {}
    seed, draws = interval.get("seed", 0), interval.get("draws", DRAWS)
    for name, value, least, most in (("seed", seed, 0, LARGEST), ("draws", draws, 1, MOST_DRAWS)):
        if type(value) is not int or not least <= value <= most:
            raise InputError(
                f"must be an integer from {least} to {most:,}, not {shown(value)}",
                file=file,
                field=f"settings.interval.{name}",
            )
    return seed, draws


class _Comparison:
    def __init__(self) -> None:
        self.agree = 0
        self.differences: list[Difference] = []

    def compare(self, path: str, theirs: Any, ours: Any) -> None:
        """Go down both values at once; of what one side lacks, each value is a difference."""
        if ours and isinstance(ours, dict | list) and theirs is Missing.MISSING:
            theirs = type(ours)()
        elif theirs and isinstance(theirs, dict | list) and ours is Missing.MISSING:
            ours = type(theirs)()
        if isinstance(theirs, dict) and isinstance(ours, dict):
            for key in [*ours, *(key for key in theirs if key not in ours)]:
                self.compare(
                    joined(path, key),
                    theirs.get(key, Missing.MISSING),
                    ours.get(key, Missing.MISSING),
                )
        elif isinstance(theirs, list) and isinstance(ours, list):
            for at in range(max(len(theirs), len(ours))):
                self.compare(
                    joined(path, str(at + 1)),
                    theirs[at] if at < len(theirs) else Missing.MISSING,
                    ours[at] if at < len(ours) else Missing.MISSING,
                )
        elif _is_number(theirs) and _is_number(ours):
            if math.isclose(theirs, ours, rel_tol=0, abs_tol=TOLERANCE):
                self.agree += 1
            else:
                self.differences.append(Difference(path, theirs, ours))
        elif type(theirs) is not type(ours) or theirs != ours:
            self.differences.append(Difference(path, theirs, ours))

    def signatures(self, theirs: Any, ours: str) -> list[str]:
        """Compare part by part; return what else there is to say."""
        if not isinstance(theirs, str):
            self.compare("signature", theirs, ours)
            return []
        told, made = signature_parts(theirs), signature_parts(ours)
        versions = told.pop("v", None), made.pop("v", None)
        self.compare("signature", told, made)
        notes = []
        if versions[0] != versions[1]:
            notes.append(f"scored by capeval {versions[0] or 'unknown'}, checked by {versions[1]}")
        if told.get("data") != made.get("data"):
            notes.append("the annotations are not those that the file was made with")
        if any(told.get(part) != made.get(part) for part in ("judge", "prompts", "repeats")):
            notes.append("the verdicts are not of the judge that the file names")
        return notes


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
