"""The user's configuration file, registries of plugins, and the prompts and sample of capeval.

The nearest `capeval.toml` is read, from the working directory upwards. One in a parent directory
must belong to the user (or to root): it can name addresses, keys and programs to run, and other
users, who may be able to write into a parent directory such as /tmp, must not set them.
"""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from capeval.errors import CapevalError, InputError, UsageError
from capeval.text import describe, filled, nearest, shown

T = TypeVar("T")


@contextmanager
def blaming(
    refusal: Callable[[Exception], Exception],
    *,
    passing: tuple[type[Exception], ...] = (CapevalError,),
) -> Iterator[None]:
    """Raise `refusal(error)` for errors of a block that calls a plugin, except `passing`."""
    try:
        yield
    except passing:
        raise
    except Exception as error:
        raise refusal(error) from error


@dataclass(frozen=True)
class Registry(Generic[T]):
    """The implementations of one extension point by name: packaged ones, and entry points.

    `noun` names an implementation in messages; `check` returns what is wrong with a loaded
    object.
    """

    group: str
    noun: str
    packaged: Mapping[str, str]
    check: Callable[[Any], str | None]

    def names(self) -> list[str]:
        return [*self.packaged, *sorted(set(self._installed) - set(self.packaged))]

    def __contains__(self, name: object) -> bool:
        return name in self.packaged or name in self._installed

    def load(self, name: str) -> T:
        """Import an implementation.

        UsageError if the name is unknown, two packages claim it, or the plugin is broken.
        """
        if name in self.packaged:
            module, _, attribute = self.packaged[name].partition(":")
            packaged: T = getattr(import_module(module), attribute)
            return packaged
        points = self._installed.get(name, [])
        if not points:
            known = self.names()
            raise UsageError(
                f"no {self.noun} is called {shown(name)}; choose from {', '.join(known)}"
                f"{nearest(name, known)}"
            )
        if len(points) > 1:
            packages = " and ".join(sorted(map(_package, points)))
            raise UsageError(f"the {self.noun} {shown(name)} is provided by {packages}")
        where = f"the {self.noun} {shown(name)} of the package {_package(points[0])}"
        with blaming(lambda e: UsageError(f"{where} cannot be loaded: {describe(e)}"), passing=()):
            found: T = points[0].load()
            fault = self.check(found)
        if fault:
            raise UsageError(f"{where} cannot be used: {fault}")
        return found

    @cached_property
    def _installed(self) -> dict[str, list[EntryPoint]]:
        found: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=self.group):
            if point not in found.setdefault(point.name, []):
                found[point.name].append(point)
        return found


def _package(point: EntryPoint) -> str:
    # Broken metadata of a package may have no name.
    return (point.dist and point.dist.name) or point.module


_NAME = "capeval.toml"
OF_OPTIONS = ("defaults", "commands")
"""The tables that only the command line reads."""

_TABLES = (*OF_OPTIONS, "endpoints", "judges", "metrics", "models", "prices")

keyless_addresses: set[str] = set()
"""The addresses from the file that are defaults of the current command's options.

No key is sent to them: otherwise the author of the file could collect the keys of its users.
"""


def config_file() -> Path:
    """Return the path of the user's file from here; it need not exist.

    InputError if it is in a parent directory and belongs to another user.
    """
    # Without file owners, as on Windows, only the working directory is searched.
    height = len(Path.cwd().parts) if hasattr(os, "getuid") else 1
    for up in range(height):
        file = Path(*[os.pardir] * up, _NAME)
        if not os.path.lexists(file):
            continue
        if up and file.lstat().st_uid not in (0, os.getuid()):
            where = "run capeval in its folder, or create your own (even empty) capeval.toml here"
            raise InputError(f"belongs to another user; {where}", file=file)
        return file
    return Path(_NAME)


def read_config(file: Path, table: str) -> Mapping[str, Any]:
    """Return one table of a configuration file by entry; empty if there is no file."""
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise InputError(f"not valid TOML: {error}", file=file) from None
    for name in content:
        if name not in _TABLES:
            known = f"is not a table; the tables, such as [defaults], are {', '.join(_TABLES)}"
            raise InputError(f"{known}{nearest(name, _TABLES)}", file=file, field=name)
    entries = content.get(table, {})
    if not isinstance(entries, dict):
        raise InputError(f"must be a table, not {shown(entries)}", file=file, field=table)
    return entries if table in OF_OPTIONS else from_here(entries, file.parent)


def from_here(entry: Any, folder: Path, *, is_path: bool = False, is_output: bool = False) -> Any:
    """Return an entry of a file in `folder`, with its paths made absolute.

    A text is a path if it begins with ./ or ../ or names a file there; with `is_path`, also a
    folder; with `is_output`, always.
    """
    if isinstance(entry, dict):
        return {name: from_here(value, folder) for name, value in entry.items()}
    if folder == Path() or not isinstance(entry, str):
        return entry
    path = folder / entry
    exists = os.path.exists if is_path else os.path.isfile  # unlike those of Path, never fail
    is_path = entry.startswith(("./", "../")) or is_output or exists(path)
    # Absolute, as it may be stored, and read from another working directory.
    return os.path.abspath(path) if is_path else entry  # noqa: PTH100 - without following links


# ---- The prompts and the sample that are packaged with capeval -----------------------------------

# In a wheel they are inside the package, in a checkout next to it.
_PACKAGE = Path(__file__).resolve().parent


def packaged(name: str) -> Path:
    """Return the folder `prompts` or `annotations` of this installation."""
    inside = _PACKAGE / "_packaged" / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


def sample_folder() -> Path:
    return packaged("annotations") / "sample"


@cache
def template(prompts: str, name: str) -> str:
    """Return a template of a packaged set of prompts."""
    return (packaged("prompts") / prompts / f"{name}.txt").read_text(encoding="utf-8").strip()


@cache
def prompts_label(prompts: str, *names: str) -> str:
    """Return a set's name with the beginning of the hash of templates, by default of all.

    >>> prompts_label("mcq-v1").partition("@")[0]
    'mcq-v1'
    """
    digest = hashlib.sha256()
    found = (packaged("prompts") / prompts).glob("*.txt")
    for file in sorted(f"{name}.txt" for name in names or (one.stem for one in found)):
        digest.update(f"{file}\0{template(prompts, file[:-4])}\0".encode())
    return f"{prompts}@{digest.hexdigest()[:6]}"


def prompt_of(prompts: str, name: str, values: Mapping[str, str]) -> str:
    """Return a template of a packaged set of prompts, filled in."""
    return filled(template(prompts, name), values)
