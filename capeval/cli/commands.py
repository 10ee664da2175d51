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
from capeval.cli.running import work_of

COMPLETING = "_CAPEVAL_COMPLETE"
"""The variable by which a shell asks for completions."""


class Commands(TyperGroup):
    """A group whose commands are imported when they are looked up.

    `prefix` is what is typed before their names.
    """

    prefix = ""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands: Any = _Imported(self.prefix)

    def format_help(self, *given: Any) -> None:
        """Print the help; that of all commands has their lines from the table."""
        imported = self.commands
        if not self.prefix:
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
    """The commands of a group by name, each imported at its first use."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._found: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in iter(self):
            raise KeyError(name)
        if name not in self._found:
            full = self._prefix + name
            self._found[name] = made = _made(full)
            # While it completes, a shell would show a complaint in the middle of the line.
            if full in PLACES and COMPLETING not in os.environ:
                set_defaults({full: made}, lambda: {one: _made(one) for one in PLACES})
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        listed = [name for names in HEADINGS.values() for name in names] if not self._prefix else []
        rest = (one.removeprefix(self._prefix) for one in PLACES if one.startswith(self._prefix))
        return iter(dict.fromkeys(one.split(" ")[0] for one in (*listed, *rest)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _made(name: str) -> Any:
    """Return a command, imported, or a group of commands."""
    around = typer.Typer(add_completion=False, rich_markup_mode="rich")
    around.callback()(lambda: None)
    word = name.rpartition(" ")[2]
    if name in PLACES:
        around.command(word)(work_of(declared(name)))
    else:
        summary = GROUPS.get(name) or next(of[name] for of in HEADINGS.values() if name in of)
        group = type("Group", (Commands,), {"prefix": f"{name} "})
        around.add_typer(typer.Typer(cls=group, help=summary, no_args_is_help=True), name=word)
    made: Any = get_command(around)
    return made.commands[word]
