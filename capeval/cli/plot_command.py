"""`capeval plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from capeval.cli import options


def plot(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="Which figures.", show_default=False)],
    run: options.JudgedRuns,
    out: Annotated[
        str, typer.Option(metavar="DIR", help="The folder to write them to.")
    ] = "figures",
    form: Annotated[
        list[str] | None,
        options.optional(
            "FORMAT",
            "svg, pdf or png; repeat the option or separate them by commas. By default pdf.",
            "--format",
        ),
    ] = None,
    width: Annotated[
        Literal["column", "text"],
        typer.Option(metavar="WIDTH", help="That of a column (3.3 in) or of the text (6.9 in)."),
    ] = "column",
    human: options.Human = None,
    judge: options.WhichJudge = None,
    annotations: options.RunAnnotations = None,
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
    runs: options.Runs = Path("runs"),
) -> None:
    """Draw figures for a paper: SVG, PDF or PNG.

    WHAT is all, or some of these, separated by commas: types, characteristics, domains, events,
    elements, frames; for two runs forest (second − first F1); with --human scatter and confusion.
    """
    from capeval.api import plotting
    from capeval.cli.output import Output

    output = Output(quiet=quiet)
    files = plotting.plot(
        options.listed([what], "WHAT"),
        run,
        out=out,
        formats=options.listed(form, "--format") or ["pdf"],
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
