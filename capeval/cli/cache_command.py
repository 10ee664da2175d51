"""`capeval cache`: the judges' replies, which were paid for."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(help="The cache of judges' replies.", no_args_is_help=True)


@app.command()
def info() -> None:
    """Show where the cache is and what it contains."""
    from capeval.api import resources
    from capeval.cli.output import Output

    output, cache = Output(), resources.cache_info()
    output.line(f"path     {cache.path}")
    output.line(f"size     {cache.bytes / 1e6:.1f} MB")
    output.line(f"replies  {cache.entries:,}")
    for state, count in sorted(cache.states.items()):
        output.line(f"  {state:<12} {count:,}")
    for model, count in sorted(cache.models.items()):
        output.line(f"  {model}: {count:,}")


@app.command()
def clear(
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only the replies of this model.", show_default=False),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete stored replies; judging again pays for them again."""
    import sys

    from capeval.api import resources
    from capeval.errors import UsageError

    cache = resources.cache_info()
    count = cache.models.get(model, 0) if model else cache.entries
    if count and not yes:
        if not sys.stdin.isatty():
            raise UsageError(f"this deletes {count:,} replies that were paid for; add --yes")
        typer.confirm(f"Delete {count:,} replies that were paid for?", abort=True)
    typer.echo(f"deleted {resources.clear_cache(model):,} replies")
