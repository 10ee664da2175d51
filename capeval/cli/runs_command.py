"""`capeval runs`: what is under runs/, and what may go."""

from __future__ import annotations

from typing import Any

import typer

from capeval.api.run_options import RemoveOptions, RunsOptions
from capeval.cli.options import declared_by
from capeval.cli.output import YES, Output, confirm_deletion
from capeval.text import counted, listed

app = typer.Typer(invoke_without_command=True)


@app.callback()
@declared_by(RunsOptions, "as_json")
def runs(declared: dict[str, Any], output: Output) -> None:
    """List all runs with their judges, scores and sizes.

    The scores are computed from the verdicts. Runs of questions are in `capeval leaderboard
    --questions`.
    """
    from capeval.api import stored_runs
    from capeval.reporting.run_tables import print_runs

    found = stored_runs.list_runs(**declared)
    if output.as_json:
        output.json([_summary(run) for run in found])
    elif not found:
        output.line("There is no run under runs/.")
    else:
        rows: list[Any] = []
        for run in found:
            judged = [(run.name, one.name, one.scores, one.date, run.size) for one in run.judges]
            rows += judged or [(run.name, None, None, run.date, run.size)]
        print_runs(rows, output.console)
    for run in found:
        for judge in run.judges:
            if judge.problem:
                output.notice(f"no score: {judge.problem}")


def _summary(run: Any) -> dict[str, Any]:
    return {
        "run": run.name,
        "path": str(run.path),
        "date": run.date.isoformat(),
        "size": run.size,
        "judges": [
            {
                "judge": one.name,
                "counts": one.scores.counts.model_dump() if one.scores else None,
                "f1": one.scores.overall.all.f1.model_dump() if one.scores else None,
                "signature": one.scores.signature if one.scores else None,
                "date": one.date.isoformat(),
                "size": one.size,
                "problem": one.problem or None,
            }
            for one in run.judges
        ],
    }


@app.command()
@declared_by(RemoveOptions)
def rm(declared: dict[str, Any], output: Output, *, yes: YES = False) -> None:
    """Delete runs, or with RUN/JUDGE one judge's verdicts on a run."""
    from capeval.api import stored_runs
    from capeval.reporting.numbers import file_size

    found = stored_runs.removable(RemoveOptions(**declared))
    size = file_size(sum(found.values()))
    confirm_deletion(f"{counted(len(found), 'folder')} ({listed(found)}), {size}", yes=yes)
    for path, freed in stored_runs.remove_runs(**declared).items():
        output.line(f"deleted {path}, {file_size(freed)} freed")
