"""What an argument means among runs of questions: one in `runs/mcq/BENCHMARK/`, or a path.

The rule is that of every command (`capeval.runs.resolve`). A run has the same name as the runs of
its model on other benchmarks, so a name that several of them have must be given as a path.
"""

from __future__ import annotations

from pathlib import Path

from capeval.errors import InputError
from capeval.runs.folder import RunFolder, shards_in
from capeval.runs.resolve import RUNS, locate
from capeval.text import listed

RESPONSES, GRADES = "responses.jsonl", "grades.json"

MCQ = "mcq"
"""The folder of the runs of questions, in the folder of runs."""


def find_responses(name_or_path: str | Path, runs: Path = RUNS) -> Path:
    """Return what a name or a path means: a run's responses.jsonl, or the file or folder named."""
    path = locate(
        name_or_path,
        runs,
        lambda place: any(place.glob("*.jsonl")),
        "a file of responses",
        folders=_folders(runs),
    )
    return path / RESPONSES if (path / RESPONSES).is_file() or shards_in(path) else path


def find_grades(name_or_path: str | Path, runs: Path = RUNS) -> Path:
    """Return the grades.json that a name or a path means; there must be one."""
    path = locate(
        name_or_path,
        runs,
        lambda place: bool(_grades_in(place)),
        "a graded run",
        folders=_folders(runs),
    )
    if not path.is_dir():
        return path
    found = _grades_in(path)
    if not found:
        how = f"write it with `capeval mcq grade {path}`"
        raise InputError(f"has no {GRADES}; {how}", file=path)
    if len(found) > 1:
        raise InputError(f"has several graded runs; name one of {listed(found)}", file=path)
    return found[0]


def all_grades(runs: Path = RUNS) -> list[Path]:
    """Return every grades.json of the runs in a folder."""
    if not runs.is_dir():
        return []
    places = [*_folders(runs), *(place for place in runs.iterdir() if place.is_dir())]
    return sorted({file for place in places for file in _grades_in(place)})


def grades_file(responses: Path) -> Path | None:
    """Return where the grades of a run's responses go; None for responses of another kind."""
    return responses.with_name(GRADES) if responses.name == RESPONSES else None


def questions_of_run(responses: Path) -> int | None:
    """Return how many questions a run is about, as its manifest says; None if it does not."""
    if responses.name != RESPONSES:
        return None
    about = RunFolder(responses.parent).read_manifest().get("questions")
    count = about.get("count") if isinstance(about, dict) else None
    return count if isinstance(count, int) else None


def _folders(runs: Path) -> list[Path]:
    of_questions = runs / MCQ
    found = sorted(of_questions.iterdir()) if of_questions.is_dir() else []
    return [*(one for one in found if one.is_dir()), runs, of_questions]


def _grades_in(place: Path) -> list[Path]:
    """Return the graded runs of a folder: its own, or else those of the folders in it."""
    return [place / GRADES] if (place / GRADES).is_file() else sorted(place.glob(f"*/{GRADES}"))
