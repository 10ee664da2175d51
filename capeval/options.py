"""Options that are declared once for Python and for the command line.

Each field is an argument of the Python function. A field declared with `option` is an option of the
command as well; its help text describes both.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

INPUTS, LIMITS, OUTPUT = "Inputs", "Limits", "Output"
JUDGE, MODEL, FRAMES, MACHINES = "Judge", "Model", "Frames", "Several machines"

P = ParamSpec("P")
OptionsT = TypeVar("OptionsT")
R = TypeVar("R")


@dataclass(frozen=True)
class Option:
    """How the command line takes a field.

    `kind` is the type that typer parses, `flag` the option's name where it is not the field's, and
    `settings` are further arguments of `typer.Option`.
    """

    kind: Any
    help: str
    panel: str
    flag: str | None
    settings: dict[str, Any]


def option(
    text: str,
    panel: str,
    default: Any = None,
    kind: Any = None,
    *,
    flag: str | None = None,
    **settings: Any,
) -> Any:
    """Declare a field that is an option of the command too, by default a text or None."""
    kind = kind or (str | None if default is None else type(default))
    metadata = {"option": Option(kind, text, panel, flag, settings)}
    return field(default=default, metadata=metadata)


def options_of(options: type) -> dict[str, tuple[Option, Any]]:
    """Return the command's options by field, each with its default."""
    return {
        one.name: (one.metadata["option"], one.default)
        for one in dataclasses.fields(options)
        if "option" in one.metadata
    }


def takes(
    options: Callable[P, OptionsT],
) -> Callable[[Callable[[OptionsT], Coroutine[Any, Any, R]]], Callable[P, Coroutine[Any, Any, R]]]:
    """Give a function of one options object the arguments of that object's class.

    Type checkers and `help()` show the fields of the class as the parameters of the function.
    """

    def decorate(
        work: Callable[[OptionsT], Coroutine[Any, Any, R]],
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        @functools.wraps(work)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return await work(options(*args, **kwargs))

        call.__signature__ = inspect.signature(options)  # type: ignore[attr-defined]
        return call

    return decorate


ONLY = "Only these indexes (repeat, or separate by commas)."
LIMIT = "Only the first N."
ENDPOINT = "An OpenAI-compatible endpoint, such as http://localhost:8000/v1"
MAX_COST = "Stop calling after this many US dollars; implies --yes."
