"""`capeval cache`: the replies that were paid for."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(help="The cache of judges' replies.", no_args_is_help=True)


@app.command()
def info() -> None:
    """Show where the cache is and what it holds."""
    from capeval.llm import ReplyCache
    from capeval.text import one_line

    cache = ReplyCache()
    try:
        held = cache.info()
    finally:
        cache.close()
    typer.echo(f"path     {held.path}")
    typer.echo(f"size     {held.bytes / 1e6:.1f} MB")
    typer.echo(f"replies  {held.entries:,}")
    for state, count in sorted(held.states.items()):
        typer.echo(f"  {state:<12} {count:,}")
    for model, count in sorted(held.models.items()):
        typer.echo(f"  {one_line(model)}: {count:,}")


@app.command()
def clear(
    model: Annotated[
        str | None, typer.Option(help="Only the replies of this model.", show_default=False)
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Forget stored replies; judging again will pay for them again."""
    import sys

    from capeval.errors import UsageError
    from capeval.llm import ReplyCache

    cache = ReplyCache()
    try:
        held = cache.info()
        count = held.models.get(model, 0) if model else held.entries
        if count and not yes:
            if not sys.stdin.isatty():
                raise UsageError(f"this forgets {count:,} replies that were paid for; add --yes")
            typer.confirm(f"Forget {count:,} replies that were paid for?", abort=True)
        typer.echo(f"forgot {cache.clear(model):,} replies")
    finally:
        cache.close()
