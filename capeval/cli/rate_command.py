"""`capeval rate`: rating sheets for human raters, and their ratings merged."""

from __future__ import annotations

import shlex
from typing import Any

import typer

from capeval.api.run_options import MergeOptions, SheetOptions
from capeval.cli.options import declared_by
from capeval.cli.output import Output
from capeval.text import counted

app = typer.Typer(
    help="Have humans rate captions without knowing who wrote them.", no_args_is_help=True
)


@app.command()
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


@app.command()
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
