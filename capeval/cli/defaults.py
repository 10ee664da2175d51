"""Defaults of options in `capeval.toml`: `[defaults]`, and `[commands.NAME]` for one command."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import typer

from capeval.config import OF_OPTIONS, config_file, from_here, read_config
from capeval.errors import InputError
from capeval.options import JUDGE, OUTPUT
from capeval.text import nearest, shown

_ONLY_TYPED = {"api_key", "cache", "force", "max_cost", "model", "out", "ray", "serve", "yes"}
"""What a file that somebody else wrote must not decide: keys, what may be spent or overwritten, and
what code is run; `model`, because an entry of `[models]` may name a key and where it goes."""

_RUNS = SimpleNamespace(
    name="runs", metavar="DIR", rich_help_panel=OUTPUT, help="", process_value=lambda *_: None
)
"""The folder of the runs, as if there were an option for it."""


def set_defaults(commands: Mapping[str, Any], every: Callable[[], Mapping[str, Any]]) -> None:
    """Give commands, by their names as they are typed, the defaults of the user's file.

    `every` returns all commands: no name in the file may be unknown. Raises `InputError`.
    """
    file = config_file()
    shared, own = (read_config(file, table) for table in OF_OPTIONS)
    if not (shared or own):
        return
    known = {name: set(_options(command)) for name, command in every().items()}
    _check_names(file, "defaults", shared, {_RUNS.name}.union(*known.values()))
    for name, table in own.items():
        if name not in known:
            near = nearest(name, list(known)) or f"; name one of {', '.join(known)}"
            raise InputError(f"is not a command{near}", file=file, field=_table(name))
        _check_names(file, _table(name), table, known[name])
    for name, command in commands.items():
        _set(command, file, {"defaults": shared, _table(name): own.get(name, {})})


def _table(command: str) -> str:
    return f'commands."{command}"' if " " in command else f"commands.{command}"


def _check_names(file: Path, table: str, entries: Any, known: set[str]) -> None:
    if not isinstance(entries, dict):
        raise InputError(f"must be a table, not {shown(entries)}", file=file, field=table)
    for name in entries:
        problem = f"there is no such option{nearest(name, sorted(known))}"
        if name in _ONLY_TYPED:
            problem = "cannot be set in a file, which somebody else may have written"
        if name not in known - _ONLY_TYPED:
            raise InputError(problem, file=file, field=f"{table}.{name}")


def _options(command: Any) -> dict[str, Any]:
    """Return the parameters that a file can set, by name: as typed, with `_` for `-`.

    Annotations can also be set where they are an argument: they replace the sample, which is the
    default of `capeval probe`.
    """
    named = {max(one.opts, key=len).lstrip("-").replace("-", "_"): one for one in command.params}
    return {
        name: one
        for name, one in named.items()
        if name == "annotations" or (name != "help" and one.param_type_name == "option")
    }


def _set(command: Any, file: Path, tables: Mapping[str, Mapping[str, Any]]) -> None:
    """Set a command's defaults; the object of its context says where in the file each is."""
    from rich.markup import escape

    from capeval.llm.tracing import redact

    options, context = _options(command), command.context_class(command)
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    helps: dict[str, str] = {}
    for table, entries in tables.items():
        for name, given in entries.items():
            param = options.get(name, _RUNS if name == _RUNS.name else None)
            # The environment is the user's own; it has the address of a judge.
            is_address = name in ("base_url", "judge_url")
            is_judge = is_address and param and param.rich_help_panel == JUDGE
            if param is None or (is_judge and os.environ.get("OPENAI_BASE_URL")):
                continue
            places[param.name] = f"{file}: {table}.{name}"
            try:
                values[param.name] = _value(param, given, file.parent)
                param.process_value(context, values[param.name])
            except typer.BadParameter as error:
                problem = str(error).removeprefix("Value error, ")
                raise InputError(problem, file=places[param.name]) from None
            helps[param.name] = f"{param.help or ''} {file} sets {escape(redact(shown(given)))}."
    for param in options.values():
        param.help = helps.get(param.name, param.help)
    command.context_settings = {"default_map": values, "obj": places}


def _value(param: Any, given: Any, folder: Path) -> Any:
    """Return a value of the file as if it were typed; raises `typer.BadParameter`."""
    is_flag, several = (getattr(param, name, False) for name in ("is_flag", "multiple"))
    values = given if several and isinstance(given, list) else [given]
    for one in values:
        if is_flag != isinstance(one, bool) or not isinstance(one, str | int | float):
            needed = "true or false" if is_flag else "text or a number"
            raise typer.BadParameter(f"must be {needed}, not {shown(one)}")
    if is_flag:
        return given
    is_path = param.metavar in ("FILE", "DIR", "PATH", "ANNOTATIONS")
    is_output = is_path and param.rich_help_panel == OUTPUT
    texts = [from_here(str(v), folder, is_path=is_path, is_output=is_output) for v in values]
    return texts if several else texts[0]
