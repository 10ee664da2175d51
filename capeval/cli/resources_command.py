"""`capeval check`, `models`, `frames`, `runs` and `cache`: what others use and leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from capeval.api.run_options import CheckSetOptions, FramesOptions, ModelsOptions, RunsOptions
from capeval.cli.options import declared_by
from capeval.errors import UsageError
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


@declared_by(ModelsOptions, "as_json", "full")
def models(declared: dict[str, Any], output: Output) -> None:
    """List the models that `capeval generate` knows.

    Add your own to capeval.toml, as \\[models."NAME"].
    """
    from capeval.api import resources
    from capeval.reporting.model_tables import print_model, print_models

    found = resources.models(**declared)
    if output.as_json:
        output.json({e.name: e.model_dump(exclude={"name"}) | {"memory": e.memory} for e in found})
    elif declared["name"] is not None:
        print_model(found[0], output.console)
    else:
        print_models(found, output.console, full=output.full)


@declared_by(FramesOptions, "as_json")
def frames(declared: dict[str, Any], output: Output) -> None:
    """Show which frames of a video a model would see.

    By default it writes a contact sheet named after the video, NAME.frames.png.
    """
    from capeval.api import resources
    from capeval.show.numbers import plain_number, tenths
    from capeval.video import read_policy

    video, sheet, out = (declared[name] for name in ("video", "sheet", "out"))
    if sheet is not None and out is not None:
        raise UsageError("--sheet and --out: choose one of them")
    if sheet is None and out is None and not output.as_json:
        sheet = f"{Path(video).stem}.frames.png"
    taken = resources.sample_frames(**declared | {"sheet": sheet})
    if output.as_json:
        policy = str(read_policy(str(declared["frames"])))
        output.json({"video": str(video), "frames": policy} | taken.record())
        return
    output.line(
        f"{video}: {len(taken)} of {taken.total} frames, {taken.width}x{taken.height}, "
        f"{tenths(taken.duration)} s at {plain_number(taken.fps)} a second, {taken.version}"
    )
    for warning in taken.warnings:
        output.line(f"warning: {warning}")
    output.line(f"written: {out if sheet is None else sheet}")


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
