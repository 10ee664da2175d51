"""Commands whose options are declared by a class of `capeval.options`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from capeval.options import Option, options_of


def declared_by(options: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options that a class declares, before those of its own.

    The command gets the declared values as one dictionary, its first parameter.
    """
    declared = options_of(options)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command).parameters.values())[1:]
        hints = get_type_hints(command, include_extras=True)

        def call(**typed: Any) -> None:
            command({name: typed.pop(name) for name in declared}, **typed)

        parameters = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None if default == () else default,
                annotation=_annotation(name, found, default),
            )
            for name, (found, default) in declared.items()
        ]
        parameters += [
            one.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[one.name])
            for one in own
        ]
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {one.name: one.annotation for one in parameters}
        call.__name__, call.__doc__ = command.__name__, command.__doc__
        return call

    return decorate


def _annotation(name: str, found: Option, default: Any) -> Any:
    flag = found.flag or f"--{name.replace('_', '-')}"
    # Where there is no value by default, the help text says what happens instead.
    settings: dict[str, Any] = {"show_default": False} if default in (None, ()) else {}
    return Annotated[
        found.kind,
        # In `Annotated` the positional arguments of typer.Option are its names.
        typer.Option(
            flag, help=found.help, rich_help_panel=found.panel, **settings, **found.settings
        ),
    ]
