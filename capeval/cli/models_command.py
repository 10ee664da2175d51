"""`capeval models`."""

from __future__ import annotations

from typing import Annotated

import typer


def models(
    name: Annotated[
        str | None,
        typer.Argument(help="Show all of one model: its name or its hub id.", show_default=False),
    ] = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="Only the models of the TUNA paper's table 7.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the entries as JSON.")] = False,
) -> None:
    """List the models that `capeval generate` knows.

    Entries of your own go into capeval.toml, as [models."NAME"].
    """
    from rich.console import Console

    from capeval.captioners.catalogue import find_model, read_catalogue
    from capeval.config import CONFIG
    from capeval.files.jsonl import dumps
    from capeval.reporting.model_tables import print_model, print_models

    catalogue = read_catalogue(CONFIG)
    if name is not None:
        chosen = [find_model(name, catalogue)]
    else:
        chosen = [entry for entry in catalogue.values() if entry.paper or not paper]
    if as_json:
        rows = {e.name: e.model_dump(exclude={"name"}) | {"memory": e.memory} for e in chosen}
        typer.echo(dumps(rows, indent=1))
    elif name is not None:
        print_model(chosen[0], Console())
    else:
        print_models(chosen, Console())
