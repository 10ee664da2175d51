"""From what is typed to what is shown: the one way of all commands."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from capeval.cli.commands import typed
from capeval.options import Command

if TYPE_CHECKING:
    from capeval.show.result import Output


def work_of(command: Command) -> Callable[..., None]:
    """Return the function that typer makes a command of."""
    return typed(command, partial(_run, command))


def _run(command: Command, values: dict[str, Any], output: Output) -> None:
    """Do the work of a command and show its result."""
    # The list of all commands must not wait for what shows progress.
    from capeval.cli.long_command import ProgressLine

    taken = {one.name for one in fields(command.options)}
    if "on_notice" in taken:
        values["on_notice"] = output.notice
    progress = ProgressLine(output)
    if "progress" in taken:
        values["progress"] = progress
    try:
        with progress:
            options = command.options(**values)
            if command.also is None:
                found = command.work(**values)
            else:
                also = {one: getattr(output, one, output) for one in command.also}
                found = command.work(options, **also)
            if command.show:
                found = command.show(found, options)
    except KeyboardInterrupt:
        if "progress" not in taken:
            raise
        progress.report_stop(caches_replies=False)
        raise typer.Exit(130) from None
    if isinstance(found, AbstractAsyncContextManager):
        from capeval.cli.long_command import run_long

        run_long(output, found)
    elif found is not None:
        from capeval.show.result import emit

        emit(found, output, values.get("out"))
        if code := found.exit_code():
            raise typer.Exit(code)
