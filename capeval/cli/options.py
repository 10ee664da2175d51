"""Options that commands share, and commands whose options are declared by `capeval.api`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING
from typing import Annotated, Any, Literal, get_type_hints

import typer

from capeval.errors import UsageError
from capeval.options import (
    LIMITS,
    OUTPUT,
    PANELS,
    Option,
    checked,
    options_of,
    refuse_empty,
)

Yes = Annotated[
    bool,
    typer.Option(
        "--yes", "-y", help="Do not ask before spending more than $1.", rich_help_panel=LIMITS
    ),
]
MaxFailed = Annotated[
    str,
    typer.Option(
        metavar="SHARE",
        help="How many may get no result before the exit code is 3: a number, or a share such as "
        "1%.",
        rich_help_panel=LIMITS,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Show what there is to do and its expected cost, and stop.",
        rich_help_panel=OUTPUT,
    ),
]
Json = Annotated[
    bool,
    typer.Option(
        "--json", help="Print everything as JSON, alone on stdout.", rich_help_panel=OUTPUT
    ),
]
TableFormat = Annotated[
    Literal["table", "markdown", "latex"] | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="The format of the tables: table, markdown or latex. By default table.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
Full = Annotated[
    bool,
    typer.Option(
        "--full", help="Print everything, not only the most important.", rich_help_panel=OUTPUT
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="Print only errors, and warnings about money or lost work.",
        rich_help_panel=OUTPUT,
    ),
]


def check_format(form: str | None, *, as_json: bool) -> None:
    """Refuse --format with --json."""
    if as_json and form is not None:
        raise UsageError("--format is for tables, and --json prints none; omit one of them")


def listed(values: Sequence[str] | None, option: str) -> list[str]:
    """Return the values of a repeatable option that also takes commas.

    >>> listed(["a, b", "c"], "--only")
    ['a', 'b', 'c']
    """
    found = [part.strip() for value in values or () for part in value.split(",") if part.strip()]
    if values and not found:
        raise UsageError(f"{option} is empty; name at least one, or omit it")
    return found


def column_names(texts: Sequence[str]) -> dict[str, str]:
    """Return the columns of --columns by capeval's names.

    >>> column_names(["system=model", "score = MOS (1=bad)"])
    {'system': 'model', 'score': 'MOS (1=bad)'}
    """
    found: dict[str, str] = {}
    for text in texts:
        name, _, column = (part.strip() for part in text.partition("="))
        if not name or not column:
            raise UsageError(f"--columns: {text!r} must be NAME=COLUMN, as in system=model")
        if name in found:
            raise UsageError(f"--columns: {name} is mapped twice")
        found[name] = column
    return found


def declared_by(
    options: type, **parsed: Callable[[Any], Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options that a class declares, before those of its own.

    The command gets the declared values as one dictionary, its first parameter, checked as those of
    the Python function. `parsed` are functions that read values that are typed as text.
    """
    declared = options_of(options)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command).parameters.values())[1:]
        hints = get_type_hints(command, include_extras=True)

        def call(**typed: Any) -> None:
            values = {}
            for name, (found, default) in declared.items():
                label = _name(name, found)
                value = _value(typed.pop(name), label, found, default)
                refuse_empty(value, label)
                if name in parsed:
                    value = parsed[name](value)
                values[name] = checked(options, name, value, label)
            for name, value in typed.items():
                refuse_empty(value, f"--{name.replace('_', '-')}")
            command(values, **typed)

        parameters = [_parameter(name, *declared[name]) for name in declared]
        parameters += [
            one.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[one.name])
            for one in own
        ]
        parameters.sort(key=_place)
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {one.name: one.annotation for one in parameters}
        paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
        call.__doc__ = "\n\n".join(" ".join(text.split()) for text in paragraphs)
        call.__name__ = command.__name__
        return call

    return decorate


def _name(name: str, found: Option) -> str:
    """Return the name of an option as it is typed, or of an argument as the help shows it."""
    if found.positional:
        return str(found.metavar)
    return f"--{name.replace('_', '-')}"


def _value(typed: Any, name: str, found: Option, default: Any) -> Any:
    if found.commas:
        return listed([typed] if isinstance(typed, str) else typed, name)
    return () if typed is None and default == () else typed


def _parameter(name: str, found: Option, default: Any) -> inspect.Parameter:
    # Where there is no value by default, the help text says what happens instead.
    shown = default not in (None, (), MISSING)
    settings: dict[str, Any] = {
        "help": found.help + _limits(found) + _several(found),
        "show_default": shown,
        "rich_help_panel": found.panel,
        "metavar": found.metavar,
    }
    # In `Annotated` the positional arguments of typer.Option are its names.
    made = (
        typer.Argument(**settings)
        if found.positional
        else typer.Option(_name(name, found), **settings)
    )
    if default == ():
        default = None
    elif default is MISSING:
        default = inspect.Parameter.empty
    elif isinstance(default, tuple):
        default = list(default)
    elif isinstance(default, int | float) and found.kind is not bool:
        default = str(default).removesuffix(".0")
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[found.kind, made],
    )


def _limits(found: Option) -> str:
    """Return the limits of a number for the help; that it is at least 0 or 1 goes without saying.

    >>> _limits(Option(min=1, max=4096)), _limits(Option(min=16)), _limits(Option(min=1))
    (' 1 to 4,096.', ' At least 16.', '')
    """
    if found.max is not None:
        return f" {found.min:,} to {found.max:,}."
    return f" At least {found.min:,}." if found.min is not None and found.min > 1 else ""


def _several(found: Option) -> str:
    """Return how several values are given, for the help of an option that takes them."""
    if found.positional or found.kind not in (list[str], list[str] | None):
        return ""
    return " Repeatable, or separated by commas." if found.commas else " Repeatable."


def _place(parameter: inspect.Parameter) -> int:
    """Return the place of a parameter's heading in the help: the same order in all commands."""
    info = next(iter(getattr(parameter.annotation, "__metadata__", ())), None)
    return PANELS.index(getattr(info, "rich_help_panel", None))
