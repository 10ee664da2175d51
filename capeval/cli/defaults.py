"""Defaults of options in `capeval.toml`: `[defaults]`, and `[commands.NAME]` for one command."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from capeval.config import OF_OPTIONS, config_file, from_here, keyless_addresses, read_config
from capeval.errors import InputError
from capeval.options import JUDGE, OUTPUT
from capeval.text import nearest, one_line, shown

_ONLY_TYPED = ("api_key", "cache", "force", "ray", "serve", "yes")
"""What a file that somebody else wrote must not decide: keys, consent, and what code is run."""

_RUNS = "runs"
"""The folder of the runs: not an option, as it is the same for all commands."""


@dataclass(frozen=True)
class FileDefaults:
    """What `capeval.toml` sets for one command: the place of each value, by parameter."""

    file: Path
    places: dict[str, str] = field(default_factory=dict)
    runs: str | None = None

    def used(self, context: typer.Context) -> dict[str, str]:
        """Return the places of the values that are not typed, and send their addresses no key."""
        keyless_addresses.clear()
        used = {
            name: place
            for name, place in self.places.items()
            if getattr(context.get_parameter_source(name), "name", "") == "DEFAULT_MAP"
        }
        if "base_url" in used:
            urls = context.params["base_url"]
            urls = [urls] if isinstance(urls, str) else urls
            keyless_addresses.update(dict.fromkeys(urls, self.file))
        return used


def set_defaults(commands: Mapping[str, Any], every: Callable[[], Mapping[str, Any]]) -> None:
    """Give commands, by their names as they are typed, the defaults of the user's file.

    Their help shows them. `every` returns all commands: no name in the file may be unknown.

    Raises
    ------
    InputError
        The file cannot be read, or a name or a value in it is wrong.
    """
    file = config_file()
    shared, own = (read_config(file, table) for table in OF_OPTIONS)
    if not (shared or own):
        return
    _check_names(file, shared, own, {name: _options(one) for name, one in every().items()})
    runs = shared.get(_RUNS)
    if runs is not None and not isinstance(runs, str):
        raise InputError(f"must be a folder, not {shown(runs)}", file=file, field="defaults.runs")
    runs = runs and from_here(runs, file.parent, is_output=True)
    for name, command in commands.items():
        tables = {"defaults": shared, f"commands.{_key(name)}": own.get(name, {})}
        _set(command, tables, FileDefaults(file, runs=runs))


def _check_names(
    file: Path,
    shared: Mapping[str, Any],
    own: Mapping[str, Any],
    options: Mapping[str, Mapping[str, Any]],
) -> None:
    tables = [
        ("defaults", shared, {name for found in options.values() for name in found} | {_RUNS})
    ]
    for command, table in own.items():
        where = f"commands.{_key(command)}"
        if command not in options:
            near = nearest(command, [*options]) or f"; name one of {', '.join(options)}"
            raise InputError(f"is not a command{near}", file=file, field=where)
        if not isinstance(table, dict):
            raise InputError(f"must be a table, not {shown(table)}", file=file, field=where)
        tables.append((where, table, {*options[command]}))
    for where, table, known in tables:
        what = "any command" if where == "defaults" else where.partition(".")[2]
        for name in table:
            if name in _ONLY_TYPED:
                problem = "cannot be set in a file, which somebody else may have written"
            elif name == _RUNS and where != "defaults":
                problem = "is the same for all commands: set it in [defaults]"
            elif name not in known:
                problem = f"is not an option of {what}{nearest(name, sorted(known))}"
            else:
                continue
            raise InputError(problem, file=file, field=f"{where}.{name}")


def _key(command: str) -> str:
    return f'"{command}"' if " " in command else command


def _options(command: Any) -> dict[str, Any]:
    """Return the parameters that a file can set, by name: as typed, with `_` for `-`.

    Annotations can be set where they are an argument, too: whoever names their own does not mean
    the sample, which is the default of `capeval probe`.
    """
    found = {}
    for one in command.params:
        name = max(one.opts, key=len).lstrip("-").replace("-", "_")
        if one.name != "help" and (one.param_type_name == "option" or name == "annotations"):
            found[name] = one
    return found


def _set(command: Any, tables: Mapping[str, Mapping[str, Any]], defaults: FileDefaults) -> None:
    file, values, options = defaults.file, {}, _options(command)
    context = command.context_class(command)
    for where, table in tables.items():
        for name, given in table.items():
            param = options.get(name)
            if param is None or (name == "base_url" and _is_set_outside(param)):
                continue
            try:
                values[param.name] = _value(param, given, file.parent)
                param.process_value(context, values[param.name])
            except typer.BadParameter as error:
                problem = str(error).removeprefix("Value error, ")
                raise InputError(problem, file=file, field=f"{where}.{name}") from None
            defaults.places[param.name] = f"{where}.{name}"
    for param in options.values():
        if param.name in values:
            param.help = f"{param.help or ''} {file} sets {_in_help(values[param.name])}."
    command.context_settings = {"default_map": values, "obj": defaults}


def _is_set_outside(base_url: Any) -> bool:
    """Return whether the environment, which is the user's own, has the address of a judge."""
    return base_url.rich_help_panel == JUDGE and bool(os.environ.get("OPENAI_BASE_URL"))


def _value(param: Any, given: Any, folder: Path) -> Any:
    """Return a value of the file as if it were typed; raises `BadParameter` if not."""
    if getattr(param, "is_flag", False):
        if not isinstance(given, bool):
            raise _wrong("true or false", given)
        return given
    several = getattr(param, "multiple", False)
    texts = []
    for one in given if several and isinstance(given, list) else [given]:
        if isinstance(one, bool) or not isinstance(one, str | int | float):
            raise _wrong("one value" if isinstance(one, list) else "text or a number", one)
        is_path = param.metavar in ("FILE", "DIR", "PATH", "ANNOTATIONS")
        is_output = is_path and param.rich_help_panel == OUTPUT
        texts.append(from_here(str(one), folder, is_path=is_path, is_output=is_output))
    return texts if several else texts[0]


def _wrong(needed: str, given: Any) -> typer.BadParameter:
    return typer.BadParameter(f"must be {needed}, not {shown(given)}")


def _in_help(value: Any) -> str:
    from rich.markup import escape

    from capeval.llm.redact import redact

    text = ", ".join(value) if isinstance(value, list) else str(value)
    return escape(one_line(redact(text.lower() if isinstance(value, bool) else text)))
