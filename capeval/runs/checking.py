"""Whether stored scores still match their verdicts: the one comparison of two sets of scores.

`capeval score --check` lists every difference, intervals included. The report and the leaderboard
ask only whether there is one, and leave out the intervals, which would need a bootstrap.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from capeval.errors import InputError
from capeval.runs.judged_run import JudgedRun
from capeval.runs.stored_scores import LARGEST, TOLERANCE, json_path, load_scores, read_scores
from capeval.scoring import DRAWS, Scores, Signature
from capeval.scoring.result import Calibrated
from capeval.scoring.signature import VERSION, differing_parts
from capeval.text import counted, shown

MOST_DRAWS = 50_000
"""The most resamples that a file may ask for: recomputing more would take hours."""

_NEARLY_ALL = 0.9
"""The share of videos that differ from which a file is taken for that of another run."""

OTHER_JUDGE = (
    "the verdicts are not of the judge that the file names, so its numbers are not compared"
)
"""The note on a file of which only the signature is compared."""

_INTERVAL_ENDS = ("low", "high")


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
        return f"{self.path} is {_short(self.theirs)}, but {_short(self.ours)} by the verdicts"


@dataclass(frozen=True)
class Checked:
    """The result of a check: how many numbers agree, all differences, and remarks on them."""

    file: Path
    numbers: int
    differences: tuple[ValueDifference, ...]
    notes: tuple[str, ...]


def check_scores(judged: JudgedRun, file: Path) -> Checked:
    """Recompute a file of scores from the verdicts of a judged run, and list all that differs.

    Intervals are recomputed with the seed and the number of resamples that the file's own settings
    name. Numbers agree if they differ by no more than 1e-9: what floating point may differ by from
    one platform to another. Another version of capeval is noted, and is no difference. If the file
    names another judge, prompts or repeats, only the signatures are compared.
    """
    theirs = read_scores(file)
    seed, draws = _interval(theirs, file)
    ours = judged.rescored(seed=seed, draws=draws).model_dump(mode="json")
    found = _Comparison()
    notes = found.signatures(theirs.pop("signature", Absent.MISSING), ours.pop("signature"))
    notes += _derived(theirs, ours)
    same_signature = not found.differences
    if OTHER_JUDGE in notes:
        return Checked(file, found.agree, tuple(found.differences), tuple(notes))
    found.compare("", theirs, ours)
    if same_signature and (hint := _another_run(theirs.get("videos"), ours["videos"])):
        notes.append(hint)
    return Checked(file, found.agree, tuple(found.differences), tuple(notes))


def why_stale(stored: Path | Scores, ours: Scores) -> str | None:
    """Return the first way in which stored scores differ from those of their verdicts, or None.

    Intervals, the version of capeval and settings that the verdicts do not determine are left out.

    Parameters
    ----------
    stored : the scores, or their file
    ours : recomputed from the verdicts; intervals are not needed
    """
    try:
        theirs = load_scores(stored) if isinstance(stored, Path) else stored
    except InputError as fault:
        where = ": ".join(part for part in (fault.field, fault.message) if part)
        return f"it cannot be read as scores ({where})"
    found = _Comparison(intervals=False)
    found.signatures(theirs.signature, ours.signature)
    known = {key: value for key, value in ours.settings.items() if key != "interval"}
    recorded = {key: theirs.settings.get(key, Absent.MISSING) for key in known}
    found.compare("settings", recorded, known)
    for part in ("counts", "overall", "by", "unmatched_events", "repeat_spread", "usage", "videos"):
        if found.differences:
            break
        # The comparison in detail is slow for thousands of videos; it is needed only to say where.
        if getattr(theirs, part) != getattr(ours, part):
            of_part = {part}
            found.compare(
                "",
                theirs.model_dump(mode="json", include=of_part),
                ours.model_dump(mode="json", include=of_part),
            )
    if not found.differences and theirs.calibrated and ours.calibrated:
        # These intervals are closed forms: they need no bootstrap.
        found = _Comparison()
        found.compare("calibrated", *map(_unversioned, (theirs.calibrated, ours.calibrated)))
    return str(found.differences[0]) if found.differences else None


def _unversioned(calibrated: Calibrated) -> dict[str, Any]:
    value = calibrated.model_dump(mode="json")
    return value | {"signature": Signature.parse(calibrated.signature).without_version()}


def _derived(theirs: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """Leave out what only one side has beside a judge's own scores; return notes on it."""
    notes = []
    if "calibrated" in theirs and "calibrated" not in ours:
        del theirs["calibrated"]
        notes.append(
            "its calibrated scores are not checked, as the human labels are not here; name their "
            "file with --human"
        )
    elif "calibrated" in ours and "calibrated" not in theirs:
        del ours["calibrated"]
        notes.append("it has no calibrated scores, although the run has human labels")
    elif "calibrated" in ours:
        for side in (theirs["calibrated"], ours["calibrated"]):
            if isinstance(side, dict) and isinstance(side.get("signature"), str):
                side["signature"] = Signature.parse(side["signature"]).without_version()
    if theirs.pop("bridged", None) is not None:
        notes.append("its bridged scores are not checked; `capeval bridge` recomputes them")
    ours.pop("bridged", None)
    return notes


def _another_run(theirs: Any, ours: Mapping[str, Any]) -> str | None:
    """Return a hint where nearly all videos differ: an edited or outdated file differs in few."""
    if not isinstance(theirs, dict):
        return None
    videos = {*theirs, *ours}
    differ = 0
    for index in videos:
        found = _Comparison()
        found.compare("", theirs.get(index, Absent.MISSING), ours.get(index, Absent.MISSING))
        differ += bool(found.differences)
    if differ < 2 or differ < _NEARLY_ALL * len(videos):
        return None
    return (
        f"{differ:,} of {counted(len(videos), 'video')} differ under the same judge and "
        "annotations: the file may be of another run, or of other captions"
    )


def _short(value: Any) -> str:
    if value is Absent.MISSING:
        return "missing"
    return shown(value)


def _interval(theirs: Mapping[str, Any], file: Path) -> tuple[int, int]:
    """Return the seed and the resamples that a file names; where it names none, the usual."""
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
    """Walks two JSON values at once, counts the numbers that agree and collects the differences."""

    def __init__(self, *, intervals: bool = True) -> None:
        self.agree = 0
        self.differences: list[ValueDifference] = []
        self._intervals = intervals

    def compare(self, path: str, theirs: Any, ours: Any) -> None:
        """Compare two values; of an object that one side lacks, each value is a difference."""
        if ours and isinstance(ours, dict | list) and theirs is Absent.MISSING:
            theirs = type(ours)()
        elif theirs and isinstance(theirs, dict | list) and ours is Absent.MISSING:
            ours = type(theirs)()
        if isinstance(theirs, dict) and isinstance(ours, dict):
            for key in [*ours, *(key for key in theirs if key not in ours)]:
                if self._intervals or key not in _INTERVAL_ENDS:
                    self.compare(
                        json_path(path, key),
                        theirs.get(key, Absent.MISSING),
                        ours.get(key, Absent.MISSING),
                    )
        elif isinstance(theirs, list) and isinstance(ours, list):
            for at in range(max(len(theirs), len(ours))):
                self.compare(
                    json_path(path, str(at + 1)),
                    theirs[at] if at < len(theirs) else Absent.MISSING,
                    ours[at] if at < len(ours) else Absent.MISSING,
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


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_close(one: float, other: float) -> bool:
    try:
        return math.isclose(one, other, rel_tol=0, abs_tol=TOLERANCE)
    except OverflowError:
        return one == other
