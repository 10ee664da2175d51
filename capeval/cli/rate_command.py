"""`capeval rate` and `capeval correlate`: human ratings, and how metrics agree with them."""

from __future__ import annotations

import shlex
from typing import Any

import typer

from capeval.api.run_options import CorrelateOptions, MergeOptions, SheetOptions
from capeval.cli.options import declared_by
from capeval.show.output import Output
from capeval.text import counted

rate = typer.Typer(
    help="Have humans rate captions without knowing who wrote them.", no_args_is_help=True
)


@rate.command()
@declared_by(SheetOptions)
def sheet(declared: dict[str, Any], output: Output) -> None:
    """Sample captions to rate: sheet.html for raters, key.csv only for you."""
    from capeval.api import rating_files

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
    output.line(f"{made.key}  only for you: which system wrote which caption")


@rate.command()
@declared_by(MergeOptions)
def merge(declared: dict[str, Any], output: Output) -> None:
    """Merge the raters' files into human.csv, and show how well the raters agree."""
    from capeval.api import rating_files
    from capeval.reporting.rating_tables import print_agreement

    merged = rating_files.rate_merge(**declared, on_notice=output.notice)
    print_agreement(merged.raters, merged.agreement, merged.by_type, output.console)
    labels = sum(len(file.labels) for file in merged.raters)
    output.line(f"{merged.file}  {labels:,} labels")
    file = shlex.quote(str(merged.file))
    output.line(f"Next, for a judged run: capeval calibrate RUN --labels {file}")
    output.line(f"or, for several: capeval correlate --human {file}")


@declared_by(CorrelateOptions, "as_json", "form", "full")
def correlate(declared: dict[str, Any], output: Output) -> None:
    """Correlate metrics with human ratings: does the judge rank captions as humans do?

    The human file is CSV, XLSX or JSON lines of `video_id, system?, rater?` with `score`, or with
    `element_id, label`; or wide, with `human, human_2, ...`.

    By default the metrics are all judged runs under runs/, and what `capeval metrics` has computed
    for them; if there is none of yours, the sample.
    """
    from capeval.api import correlating
    from capeval.cli.progress import ProgressLine
    from capeval.correlation.notices import notice_lines
    from capeval.reporting.correlations.tables import print_correlations

    with ProgressLine(output) as progress:
        found = correlating.correlate(**declared, on_notice=output.warning, progress=progress)
    for line in notice_lines(found.warnings, full=output.full):
        output.warning(line)
    form, full = output.table_form, output.full
    output.show(found, lambda: print_correlations(found, output.console, form=form, full=full))
