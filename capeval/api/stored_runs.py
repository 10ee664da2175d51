"""`capeval.list_runs`: what is under runs/."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from capeval.api.run_options import RunsOptions
from capeval.errors import CapevalError
from capeval.options import takes
from capeval.reporting.run_tables import StoredRun
from capeval.runs.folder import JudgeFolder, RunFolder
from capeval.scoring.judged_run import load_judged


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
