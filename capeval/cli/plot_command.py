"""`capeval plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from capeval.cli.options import (
    Human,
    JudgedRuns,
    Quiet,
    RunAnnotations,
    Runs,
    Seed,
    WhichJudge,
    listed,
)

HELP = """Draw figures for a paper: SVG, PDF or PNG.

WHAT is all, or some of these, separated by commas: types, characteristics, domains, events,
elements, frames; for two runs forest (second − first F1); with --human scatter and confusion.
"""


def plot(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="Which figures.", show_default=False)],
    run: JudgedRuns,
    out: Annotated[
        str, typer.Option(metavar="DIR", help="The folder to write them to.")
    ] = "figures",
    form: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="svg, pdf or png; repeat the option or separate them by commas. By default pdf.",
            show_default=False,
        ),
    ] = None,
    width: Annotated[
        Literal["column", "text"],
        typer.Option(metavar="WIDTH", help="That of a column (3.3 in) or of the text (6.9 in)."),
    ] = "column",
    human: Human = None,
    judge: WhichJudge = None,
    annotations: RunAnnotations = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    runs: Runs = Path("runs"),
) -> None:
    """Draw figures."""
    from capeval.api import plotting
    from capeval.cli.output import Output

    output = Output(quiet=quiet)
    files = plotting.plot(
        listed([what], "WHAT"),
        run,
        out=out,
        formats=listed(form, "--format") or ["pdf"],
        width=width,
        human=human,
        judge=judge,
        annotations=annotations,
        seed=seed,
        runs=runs,
        on_notice=output.notice,
    )
    for file in files:
        output.line(str(file))
