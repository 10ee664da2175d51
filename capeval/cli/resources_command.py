"""`capeval check`, `runs` and `cache`: what others use and leave."""

from __future__ import annotations

from typing import Any

import typer

from capeval.api.run_options import CheckSetOptions, RunsOptions
from capeval.cli.options import declared_by
from capeval.show.output import Output


@declared_by(CheckSetOptions, "as_json", "full")
def check(declared: dict[str, Any], output: Output) -> None:
    """Check a set of annotations: every problem, what may be a mistake, and statistics.

    The exit code is 2 if there is a problem. Statistics are those of the TUNA paper's table 5.
    """
    from capeval.api import checking
    from capeval.reporting.check_tables import check_json, print_check

    found = checking.check(**declared)
    shown = check_json(found)
    output.show(shown, lambda: print_check(found, output.console, full=output.full))
    if found.problems:
        raise typer.Exit(2)


@declared_by(RunsOptions, "as_json")
def runs(declared: dict[str, Any], output: Output) -> None:
    """List all runs with their judges, scores and sizes.

    Runs of questions are in `capeval leaderboard --questions`.
    """
    from capeval.api import stored_runs
    from capeval.reporting.run_tables import print_runs

    found = stored_runs.list_runs(**declared)
    shown = [one.model_dump(mode="json") for one in found]
    output.show(shown, lambda: print_runs(found, output.console))
    if not found:
        output.notice(f"there are no runs under {declared.get('runs', 'runs')}/")
    for one in found:
        if one.problem:
            output.notice(f"no score: {one.problem}")


def cache() -> None:
    """Show where the cache of models' replies is and what it contains."""
    from capeval.api import resources
    from capeval.llm.cache import STATE_NAMES
    from capeval.show.numbers import file_size

    output, found = Output(), resources.cache_info()
    output.line(f"path     {found.path}")
    output.line(f"size     {file_size(found.bytes)}")
    output.line(f"replies  {found.entries:,}")
    for state, name in STATE_NAMES.items():
        if count := found.states.get(state):
            output.line(f"  {name}: {count:,}")
    for model, count in sorted(found.models.items()):
        output.line(f"  by {model}: {count:,}")
