"""Options that commands share, and commands whose options are declared by `capeval.api`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING
from typing import Annotated, Any, Literal

import typer

from capeval.cli.command_table import declared
from capeval.config import keyless_addresses
from capeval.errors import UsageError
from capeval.options import (
    LIMITS,
    OUTPUT,
    PANELS,
    Command,
    Option,
    checked,
    column_names,
    listed,
    options_of,
    refuse_empty,
)
from capeval.show.output import Output

ADDRESSES = {"base_url", "model_url", "judge_url"}
"""The options that name servers."""


def _option(kind: Any, *names: str, text: str, panel: str = OUTPUT, metavar: str = "") -> Any:
    info = typer.Option(
        *names, help=text, metavar=metavar, show_default=False, rich_help_panel=panel
    )
    return Annotated[kind, info]


def _form(*forms: str) -> Any:
    text = f"The format of the tables: {', '.join(forms)}. By default table."
    return _option(Literal[forms] | None, "--format", text=text, metavar="FORMAT")


_FEW = _option(str, text="Let this many fail: 3, or 1%.", panel=LIMITS, metavar="SHARE")
_YES = _option(bool, "--yes", "-y", text="Spend more than $1 without asking.", panel=LIMITS)
_DRY = _option(bool, "--dry-run", text="Show what is left to do and its cost, and stop.")
_JSON = _option(bool, "--json", text="Print the whole result as JSON.")
_FULL = _option(bool, "--full", text="Print everything, not only what matters most.")

_SHARED: dict[str, tuple[Any, Any]] = {
    "max_failed": (_FEW, "0"),
    "yes": (_YES, False),
    "dry_run": (_DRY, False),
    "as_json": (_JSON, False),
    "form": (_form("table", "markdown", "latex"), None),
    "form_or_csv": (_form("table", "markdown", "latex", "csv"), None),
    "full": (_FULL, False),
}
"""Options that commands share: the type of each for typer, and its default."""


def typed(command: Command, run: Callable[[dict[str, Any], Output], None]) -> Callable[..., None]:
    """Return the function that typer makes a command of.

    It calls `run` with the declared values, checked as those of the Python function, and with the
    `Output` that the shared options set.
    """
    options = command.options
    declared = options_of(options)
    # Probes have a folder of their own, so that no leaderboard ranks them.
    has_runs = getattr(options, "runs", None) == "runs"

    def call(context: typer.Context, **typed: Any) -> None:
        places = _places_in_file(context)
        values = {}
        for name, (found, default) in declared.items():
            label = places.get(name) or _name(name, found)
            value = _value(typed.pop(name), label, found, default)
            refuse_empty(value, label)
            values[name] = checked(
                options, name, found.parse(value) if found.parse else value, label
            )
        for name, value in typed.items():
            refuse_empty(value, places.get(name) or f"--{name.replace('_', '-')}")
        if has_runs and "runs" in places:
            runs = (context.default_map or {})["runs"]
            values["runs"] = checked(options, "runs", runs, places["runs"])
        for field, step in command.steps.items():
            values[field] = _step_defaults(context.find_root().command, step)
        how = {name.removesuffix("_or_csv"): typed.pop(name) for name in command.shared}
        if how.get("as_json") and how.get("form"):
            raise UsageError("--format is for tables, and --json prints none; omit one of them")
        try:
            run(values, Output(quiet=context.find_root().params["quiet"], **how))
        except UsageError as error:
            # Nobody remembers an option that was not typed.
            set_there = [places[n] for n in places if f"--{n.replace('_', '-')}" in str(error)]
            if set_there and type(error) is UsageError:
                raise UsageError(f"{error} (set in {', '.join(set_there)})") from None
            raise

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [_parameter(name, *declared[name]) for name in declared]
    parameters += [
        inspect.Parameter(name, keyword, default=_SHARED[name][1], annotation=_SHARED[name][0])
        for name in command.shared
    ]
    parameters.sort(key=_place)
    context = inspect.Parameter("context", keyword, annotation=typer.Context)
    call.__signature__ = inspect.Signature([context, *parameters])  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in (context, *parameters)}
    # The docstring, without what only Python needs.
    text = re.split(r"\n *(?:Parameters|Raises|>>>)", command.work.__doc__ or "")[0]
    paragraphs = inspect.cleandoc(text).split("\n\n")
    call.__doc__ = "\n\n".join(" ".join(text.split()) for text in paragraphs)
    return call


def _places_in_file(context: typer.Context) -> dict[str, str]:
    """Return where the user's file has the values that are not typed; its addresses get no key."""
    places = {
        name: place
        for name, place in (context.obj or {}).items()
        if "COMMANDLINE" not in str(context.get_parameter_source(name))
    }
    keyless_addresses.clear()
    for name in ADDRESSES & places.keys():
        keyless_addresses.add(context.params[name])
    return places


def _step_defaults(root: Any, step: str) -> dict[str, Any]:
    """Return what the user's file sets of a command that is a step of another."""
    command, options = root.commands[step], declared(step).options
    found = (command.context_settings or {}).get("default_map", {})
    known = options_of(options)
    values = {}
    for name, value in found.items():
        if name in known:
            label = command.context_settings["obj"][name]
            if name == "columns":
                value = column_names(listed([value] if isinstance(value, str) else value, label))  # noqa: PLW2901
            values[name] = checked(options, name, value, label)
    keyless_addresses.update(values[name] for name in ADDRESSES & values.keys())
    return values


def _name(name: str, found: Option) -> str:
    """Return the name of an option as it is typed, or of an argument as the help shows it."""
    if found.positional:
        return str(found.metavar)
    return found.name or f"--{name.replace('_', '-')}"


def _value(typed: Any, name: str, found: Option, default: Any) -> Any:
    if found.commas:
        return listed([typed] if isinstance(typed, str) else typed, name)
    return () if typed is None and default == () else typed


def _parameter(name: str, found: Option, default: Any) -> inspect.Parameter:
    # Where there is no value by default, the help text says what happens instead.
    if isinstance(default, tuple):
        default = ",".join(default) or None
    elif isinstance(default, int | float) and found.kind is not bool:
        default = str(default).removesuffix(".0")
    shown = found.kind is not bool and default not in (None, MISSING)
    settings: dict[str, Any] = {
        "help": found.help + _several(found) + (f" By default {default}." if shown else ""),
        "show_default": False,
        "rich_help_panel": found.panel,
        # Otherwise typer shows `<bool>` for a flag.
        "metavar": "" if found.kind is bool else found.metavar,
    }
    # In `Annotated` the positional arguments of typer.Option are its names.
    made = (
        typer.Argument(**settings)
        if found.positional
        else typer.Option(_name(name, found), **settings)
    )
    if default is MISSING:
        default = inspect.Parameter.empty
    elif default is not None and found.kind in (list[str], list[str] | None):
        default = default.split(",")
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[found.kind, made],
    )


def _several(found: Option) -> str:
    """Return how several values are given, for the help of an option that takes them."""
    if found.positional or found.kind not in (list[str], list[str] | None):
        return ""
    return " Comma-separated." if found.commas else " Repeatable."


def _place(parameter: inspect.Parameter) -> int:
    """Return the place of a parameter's heading in the help: the same order in all commands."""
    info = next(iter(getattr(parameter.annotation, "__metadata__", ())), None)
    return PANELS.index(getattr(info, "rich_help_panel", None))
