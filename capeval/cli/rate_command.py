"""`capeval rate`: rating sheets for human raters, and their ratings merged."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

import typer

from capeval.api.run_options import MergeOptions, PlanOptions, SheetOptions
from capeval.cli.options import Quiet, declared_by
from capeval.cli.output import Output
from capeval.errors import UsageError
from capeval.options import typed_value
from capeval.text import counted

app = typer.Typer(
    help="Have humans rate captions without knowing who wrote them.", no_args_is_help=True
)


@app.command()
@declared_by(SheetOptions)
def sheet(
    declared: dict[str, Any],
    *,
    context: typer.Context,
    plan: Annotated[
        str | None,
        typer.Option(
            metavar="POINTS",
            help="Only print how many videos need labels for an interval of ± POINTS of F1.",
            show_default=False,
        ),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="With --plan: which of several judges, by the name of its folder or the "
            "beginning of it.",
            show_default=False,
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Sample captions to rate: sheet.html and sheet.csv for raters, key.csv only for you.

    `capeval rate sheet --run RUN --plan 3` writes no sheet: for a judged run, it prints how many
    videos need human labels for calibrated scores within ± 3 points.
    """
    from capeval.api import rating_files

    output = Output(quiet=quiet)
    if plan is not None:
        from capeval.reporting.rating_tables import plan_lines

        for name in ("videos", "per_video", "seed", "video_dir", "out", "ignore_unknown"):
            declared.pop(name)
            source = context.get_parameter_source(name)
            if source is None or source.name != "DEFAULT":
                raise UsageError(f"--plan writes no sheet; omit --{name.replace('_', '-')}")
        points = typed_value(PlanOptions, "points", plan, "--plan")
        judge = typed_value(PlanOptions, "judge", judge, "--judge")
        plans = rating_files.rate_plan(points, **declared, judge=judge, on_notice=output.notice)
        for line in plan_lines(plans):
            output.line(line)
        return
    if judge is not None:
        raise UsageError("--judge is for --plan alone: a sheet needs no judge; omit it")
    made = rating_files.rate_sheet(**declared, on_notice=output.notice)
    output.line(
        f"{counted(made.videos, 'video')}, {counted(len(made.sheet.items), 'caption')} of "
        f"{counted(made.runs, 'run')}, {counted(made.sheet.labels, 'label')}; "
        f"videos found: {made.videos_found} of {made.videos}"
    )
    for line in made.missing_videos[:5]:
        output.notice(line)
    if (left := len(made.missing_videos) - 5) > 0:
        output.notice(f"{counted(left, 'more video')} {'was' if left == 1 else 'were'} not found")
    output.line(f"{made.page}  for raters, in a browser")
    output.line(f"{made.table}  for raters, in a spreadsheet")
    output.line(f"{made.key}  only for you: which system wrote which caption")


@app.command()
@declared_by(MergeOptions)
def merge(declared: dict[str, Any], *, quiet: Quiet = False) -> None:
    """Merge the raters' files into human.csv, and show how well the raters agree."""
    from capeval.api import rating_files
    from capeval.reporting.rating_tables import print_agreement

    output = Output(quiet=quiet)
    merged = rating_files.rate_merge(**declared, on_notice=output.notice)
    print_agreement(merged.raters, merged.agreement, merged.by_type, output.console)
    labels = sum(len(file.labels) for file in merged.raters)
    output.line(f"{merged.file}  {labels:,} labels")
    file = shlex.quote(str(merged.file))
    output.line(f"Next, for a judged run: capeval score RUN --human {file}")
    output.line(f"or, for several: capeval correlate --human {file}")
