"""`capeval.list_runs` and `capeval.remove_runs`: what is under runs/, and what may go."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from capeval.api.run_options import RemoveOptions, RunsOptions
from capeval.errors import CapevalError, InputError
from capeval.options import takes
from capeval.reporting.run_tables import StoredRun
from capeval.runs.folder import JudgeFolder, RunFolder
from capeval.runs.judged_run import load_judged
from capeval.runs.resolve import locate


@takes(RunsOptions)
def list_runs(o: RunsOptions) -> list[StoredRun]:
    """Return each judge's verdicts on each run under runs/, and runs without any, newest first."""
    rows = [row for run in RunFolder.all(Path(o.runs)) for row in _rows(run)]
    return sorted(rows, key=lambda row: row.date, reverse=True)


def _rows(run: RunFolder) -> list[StoredRun]:
    return [_row(run, one) for one in run.judges()] or [_row(run, None)]


def _row(run: RunFolder, judge: JudgeFolder | None) -> StoredRun:
    scores, problem = None, ""
    try:
        scores = load_judged(judge.path).scores if judge else None
    except CapevalError as error:
        problem = str(error)
    files = [judge.judgments] if judge else run.caption_files
    newest = max(file.stat().st_mtime for file in files)
    place = judge.path if judge else run.path
    return StoredRun(
        run=run.name,
        judge=judge.path.name if judge else None,
        counts=scores and scores.counts,
        f1=scores and scores.overall.all.f1,
        signature=scores and scores.signature,
        problem=problem,
        date=datetime.fromtimestamp(newest, UTC).astimezone(),
        size=_size(place),
    )


def _size(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())


@takes(RemoveOptions)
def remove_runs(o: RemoveOptions) -> dict[Path, int]:
    """Delete runs, or single judges' folders of runs; returns the bytes of each that are freed.

    Raises
    ------
    InputError, UsageError, RunLocked
        A target is no run under `runs` and no judge's folder in one, or another process is working
        on it; nothing is deleted.
    """
    found = removable(o)
    with ExitStack() as locks:
        for run in {path if _is_run(path) else path.parent for path in found}:
            for file in (run / ".lock", *run.glob(".lock.*")):  # the run's, and its shards'
                part = file.name.removeprefix(".lock").removeprefix(".")
                locks.enter_context(RunFolder(run).locked(part=part))
        # A judge's folder before its run, if both are named.
        for path in sorted(found, key=lambda one: -len(one.parts)):
            shutil.rmtree(path)
    return found


def removable(o: RemoveOptions) -> dict[Path, int]:
    """Return the folders that the targets mean, with their sizes in bytes."""
    found: dict[Path, int] = {}
    runs = Path(o.runs)
    for target in o.targets:
        # RUN/JUDGE is a name, although it looks like a path.
        path = runs / target
        if not (isinstance(target, str) and "/" in target and path.is_dir()):
            path = locate(target, runs, _is_run, "a run's folder", files=False)
        # Anywhere else a folder with a captions.jsonl may be somebody's project.
        above = path.resolve().parents
        is_judge = JudgeFolder(path).has_verdicts() and above[1:2] == (runs.resolve(),)
        is_run = _is_run(path) and above[0] == runs.resolve()
        if path.is_symlink() or not (is_judge or is_run):
            what = f"is neither a run under {runs}/ nor a judge's folder in one"
            raise InputError(what, file=path)
        if not any(path.samefile(other) for other in found):
            found[Path(os.path.normpath(path))] = _size(path)
    return found


def _is_run(folder: Path) -> bool:
    return RunFolder(folder).exists()
