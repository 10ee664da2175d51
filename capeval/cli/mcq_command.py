"""`capeval mcq`: its commands in the table of commands, and those that construct questions."""

from __future__ import annotations

import typer

from capeval.cli.construct_command import construct

mcq = typer.Typer(
    help="Answer and grade multiple-choice questions: TUNA-MCQ, TOMATO, Video-MME, your own.",
    no_args_is_help=True,
)
mcq.add_typer(construct, name="construct")
