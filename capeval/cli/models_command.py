"""`capeval models`."""

from __future__ import annotations

from typing import Annotated

import typer

from capeval.cli import options


def models(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Show every field of one model: its name or its hub id.",
            show_default=False,
        ),
    ] = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="Only the models of the TUNA paper's table 7.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """List the models that `capeval generate` knows.

    Add your own to capeval.toml, as [models."NAME"].
    """
    from capeval.api import resources
    from capeval.cli.output import Output
    from capeval.reporting.model_tables import print_model, print_models

    output = Output()
    found = resources.models(name, paper=paper)
    if as_json:
        output.json({e.name: e.model_dump(exclude={"name"}) | {"memory": e.memory} for e in found})
    elif name is not None:
        print_model(found[0], output.console)
    else:
        print_models(found, output.console)
