"""The groups of commands: the modules of the others are not imported when one is called."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from capeval.cli.command_table import GROUPS, HEADINGS, PLACES, declared
from capeval.cli.defaults import set_defaults
from capeval.cli.running import typed

COMPLETING = "_CAPEVAL_COMPLETE"
"""The variable by which a shell asks for completions."""


class Commands(TyperGroup):
    """A group whose commands are imported when they are looked up, but not to list them."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands: Any = _Imported()

    def format_help(self, *given: Any) -> None:
        """Print the help, with the commands' lines from the table."""
        imported = self.commands
        self.commands = {
            name: TyperCommand(name, help=summary, rich_help_panel=heading)
            for heading, commands in HEADINGS.items()
            for name, summary in commands.items()
        }
        try:
            super().format_help(*given)
        finally:
            self.commands = imported


class _Imported(Mapping[str, Any]):
    """The commands by name, each imported at its first use."""

    def __init__(self) -> None:
        self._found: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in iter(self):
            raise KeyError(name)
        if name not in self._found:
            self._found[name] = made = _made(name)
            # While it completes, a shell would show a complaint in the middle of the line.
            if COMPLETING not in os.environ:
                set_defaults(
                    _leaves({name: made}), lambda: _leaves({one: _made(one) for one in self})
                )
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return (one for names in HEADINGS.values() for one in names if " " not in one)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _made(name: str) -> Any:
    """Return a command or a group of commands, imported."""
    around = typer.Typer(add_completion=False, rich_markup_mode="rich")
    around.callback()(lambda: None)
    _add(around, name)
    group: Any = get_command(around)
    return group.commands[name]


def _add(around: typer.Typer, name: str) -> None:
    """Add a command to a group, or a group with its commands."""
    word = name.rpartition(" ")[2]
    if name in PLACES:
        around.command(word)(typed(declared(name)))
        return
    summary = GROUPS.get(name) or next(of[name] for of in HEADINGS.values() if name in of)
    group = typer.Typer(help=summary, no_args_is_help=True)
    inner = (one[len(name) + 1 :] for one in PLACES if one.startswith(f"{name} "))
    for one in dict.fromkeys(rest.split(" ")[0] for rest in inner):
        _add(group, f"{name} {one}")
    around.add_typer(group, name=word)


def _leaves(commands: Mapping[str, Any], group: str = "") -> dict[str, Any]:
    """Return commands, with those of each group in its place, by what is typed."""
    found: dict[str, Any] = {}
    for name, one in commands.items():
        inner = getattr(one, "commands", None)
        found |= _leaves(inner, f"{group}{name} ") if inner else {group + name: one}
    return found
