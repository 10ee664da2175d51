"""`capeval annotate`: from a folder of videos to annotations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from capeval.cli.options import declared_by
from capeval.cli.output import Output
from capeval.construct.options import FilterOptions
from capeval.files.annotations import VIDEO_LIST

app = typer.Typer(
    help="Annotate videos: filter, draft, review, compare annotators, merge.",
    no_args_is_help=True,
)


@app.command("filter")
@declared_by(FilterOptions, "as_json", "full")
def filter_videos(declared: dict[str, Any], output: Output) -> None:
    """Find the videos that are fit to be annotated: videos.jsonl. Nothing is deleted.

    Left out are videos that cannot be read, are too small, too long, black, frozen or near static,
    and near duplicates. Edit "keep" in videos.jsonl to decide otherwise. A rerun leaves what was
    edited, and decodes only what is new or changed.
    """
    from capeval.api import annotate_filtering
    from capeval.cli.progress import ProgressLine
    from capeval.reporting.filter_tables import print_filtered

    progress = ProgressLine(output)
    try:
        with progress:
            rows = annotate_filtering.annotate_filter(**declared, progress=progress)
    except KeyboardInterrupt:
        progress.report_stop(caches_replies=False)
        raise typer.Exit(130) from None
    found = [row.model_dump(mode="json") for row in rows]
    output.show(found, lambda: print_filtered(rows, output.console, full=output.full))
    output.line(str(Path(declared["folder"]) / VIDEO_LIST))
