"""`capeval annotate`: from a folder of videos to annotations."""

from __future__ import annotations

import typer

app = typer.Typer(
    help="Annotate videos: filter, draft, review, compare annotators, merge.",
    no_args_is_help=True,
)
