"""`capeval mcq`: multiple-choice questions about videos."""

from __future__ import annotations

import typer

from capeval.cli.mcq_diagnostics_command import leaderboard, temporal

app = typer.Typer(help="Answer and grade multiple-choice questions.", no_args_is_help=True)
app.command()(temporal)
app.command()(leaderboard)
