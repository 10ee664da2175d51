"""`capeval.list_runs` and `capeval.remove_runs`: what is under runs/, and what may go."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from capeval.api import FilePath
from capeval.api.run_options import RemoveOptions, RunsOptions
from capeval.errors import CapevalError, InputError
from capeval.options import takes
from capeval.runs.folder import JudgeFolder, RunFolder
from capeval.runs.judged_run import load_judged
from capeval.runs.resolve import locate
from capeval.scoring import Scores


@dataclass(frozen=True)
class StoredJudge:
    """One judge's verdicts on a run; `date` is that of the newest, `size` in bytes.

    If they cannot be read, there are no `scores`, and `problem` says why.
    """

    name: str
    scores: Scores | None
    date: datetime
    size: int
    problem: str = ""


@dataclass(frozen=True)
class StoredRun:
    """A run and its judges, the newest first; `date` is that of the newest verdict or caption."""

    name: str
    path: Path
    judges: tuple[StoredJudge, ...]
    date: datetime
    size: int


@takes(RunsOptions)
def list_runs(o: RunsOptions) -> list[StoredRun]:
    """Return all runs of captions under runs/, the newest first."""
    return sorted(map(_stored, RunFolder.all(Path(o.runs))), key=lambda run: run.date, reverse=True)


def _stored(run: RunFolder) -> StoredRun:
    judges = sorted(map(_judge, run.judges()), key=lambda one: one.date, reverse=True)
    dates = [one.date for one in judges] or [_date(file) for file in run.caption_files]
    return StoredRun(run.name, run.path, tuple(judges), max(dates), _size(run.path))


def _judge(folder: JudgeFolder) -> StoredJudge:
    date, size = _date(folder.judgments), _size(folder.path)
    try:
        scores = load_judged(folder.path).scores
    except CapevalError as error:
        return StoredJudge(folder.path.name, None, date, size, str(error))
    return StoredJudge(folder.path.name, scores, date, size)


def _date(file: Path) -> datetime:
    return datetime.fromtimestamp(file.stat().st_mtime, UTC).astimezone()


def _size(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())


@takes(RemoveOptions)
def remove_runs(o: RemoveOptions) -> dict[Path, int]:
    """Delete runs, or single judges' folders of runs; returns the bytes of each that are freed.

    Raises
    ------
    InputError, UsageError
        A target is no run under `runs`, nor a judge's folder in one; nothing is deleted.
    RunLocked
        Another process is working on a run; nothing is deleted.
    """
    found = removable(o)
    with ExitStack() as locks:
        for run in {path if RunFolder(path).exists() else path.parent for path in found}:
            for file in (run / ".lock", *run.glob(".lock.*")):  # the run's, and its shards'
                part = file.name.removeprefix(".lock").removeprefix(".")
                locks.enter_context(RunFolder(run).locked(part=part))
        # A judge's folder before its run, if both are named.
        for path in sorted(found, key=lambda one: -len(one.parts)):
            shutil.rmtree(path)
    return found


def removable(o: RemoveOptions) -> dict[Path, int]:
    """Return the folders that the targets mean, with their sizes in bytes."""
    found = [_folder(target, Path(o.runs)) for target in o.targets]
    return {path: _size(path) for path in found}


def _folder(target: FilePath, runs: Path) -> Path:
    named = Path(runs / target)
    # RUN/JUDGE is a name, although it looks like a path.
    is_judge = isinstance(target, str) and "/" in target and named.is_dir()
    path = named if is_judge else locate(target, runs, _is_run, "a run's folder", files=False)
    # Anywhere else a folder with a captions.jsonl may be somebody's project.
    place, home = path.resolve(), runs.resolve()
    if place.parent == home and _is_run(path):
        return path
    if place.parent.parent == home and _is_run(path.parent) and JudgeFolder(path).has_verdicts():
        return path
    raise InputError(f"is neither a run under {runs}/ nor a judge's folder in one", file=path)


def _is_run(folder: Path) -> bool:
    return RunFolder(folder).exists()
