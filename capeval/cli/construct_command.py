"""`capeval mcq construct`: from annotations to multiple-choice questions."""

from __future__ import annotations

import typer

app = typer.Typer(
    help="Make questions: draft, check, filter, review.",
    no_args_is_help=True,
)
