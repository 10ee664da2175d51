"""Options that are declared once, for a public function and for its command.

A class of options has one field for each argument of the function. `takes` gives the function these
arguments, with the docstring of the class for documentation; `capeval.cli.options.declared_by`
gives the command its options, with the same texts.
"""

import dataclasses
import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import KW_ONLY, MISSING, Field, dataclass, field
from pathlib import Path
from types import GenericAlias, NoneType
from typing import Any, ParamSpec, TypeVar, dataclass_transform, get_args, get_origin

INPUTS, LIMITS, OUTPUT = "Inputs", "Limits", "Output"
JUDGE, MODEL, FRAMES, MACHINES = "Judge", "Model", "Frames", "Several machines"

P = ParamSpec("P")
OptionsT = TypeVar("OptionsT")
R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True)
class Option:
    """How a field is documented, and how the command line takes it.

    Parameters
    ----------
    help : describes the field, if the docstring of its class does not
    note : what only Python accepts
    kind : the type that typer parses, if the field's own type is not suitable
    flag : the option's name, if it is not the field's
    typed : False if the field is only for Python
    positional : True for an argument instead of an option
    commas : whether values may also be separated by commas
    shown_default : the default as it is typed, if it differs from Python's
    panel : the heading of the help that lists it
    settings : further arguments of `typer.Option`
    """

    help: str = ""
    note: str = ""
    kind: Any = None
    flag: str | None = None
    typed: bool = True
    positional: bool = False
    commas: bool = False
    shown_default: str | None = None
    panel: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)


_OF_OPTION = {one.name for one in dataclasses.fields(Option)} - {"settings"}


def option(default: T, text: str = "", **details: Any) -> T:
    """Declare a field; `details` are those of `Option`, and further arguments of `typer.Option`."""
    own = {name: details.pop(name) for name in _OF_OPTION & set(details)}
    found: T = field(default=default, metadata={"option": Option(text, settings=details, **own)})
    return found


def required(text: str = "", **details: Any) -> Any:
    """Declare a field without a default value."""
    return option(MISSING, text, **details)


def python_only(default: T, text: str = "", **settings: Any) -> T:
    """Declare a field that the command line does not have; `settings` are those of `field`."""
    found: T = field(default=default, metadata={"option": Option(text, typed=False)}, **settings)
    return found


@dataclass_transform(frozen_default=True, field_specifiers=(required,))
def declares(options: type[T]) -> type[T]:
    """Make a class one of options."""
    return dataclass(frozen=True)(options)


def options_of(options: type) -> dict[str, tuple[Option, Any]]:
    """Return the command's options by field, each with its default; `MISSING` if there is none."""
    found = {}
    for one, declared in _declared(options):
        if declared.typed:
            kind = declared.kind or _kind(one.type, optional=one.default == ())
            default = declared.shown_default or one.default
            found[one.name] = (dataclasses.replace(declared, kind=kind), default)
    return found


def _declared(options: type) -> Iterator[tuple[Field[Any], Option]]:
    """Yield the fields of a class, its own first, each with its help from the docstrings."""
    texts: dict[str, str] = {}
    for one in reversed(options.__mro__):
        doc = inspect.cleandoc(one.__doc__ or "")
        texts |= re.findall(r"^(\w+) : (.*(?:\n .*)*)", doc, re.MULTILINE)
    own = options.__annotations__
    for field_ in sorted(dataclasses.fields(options), key=lambda one: one.name not in own):
        declared: Option = field_.metadata.get("option", Option())
        text = declared.help or " ".join(texts[field_.name].split())
        yield field_, dataclasses.replace(declared, help=text)


def _kind(declared: Any, *, optional: bool) -> Any:
    """Return the type that typer parses for a field: it takes no alternatives except None."""
    if get_origin(declared) in (Collection, Sequence):
        items: Any = GenericAlias(list, (_kind(get_args(declared)[0], optional=False),))
        return items | None if optional else items
    kinds = get_args(declared)
    if Path in kinds:
        return Path | None if NoneType in kinds else Path
    return declared


def takes(
    options: Callable[P, OptionsT],
) -> Callable[[Callable[[OptionsT], R]], Callable[P, R]]:
    """Give a function of one options object the arguments of that object's class.

    Type checkers and `help()` show the fields of the class as the parameters of the function.
    """

    def decorate(work: Callable[[OptionsT], R]) -> Callable[P, R]:
        @functools.wraps(work)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return work(options(*args, **kwargs))

        returned = inspect.signature(work).return_annotation
        signature = inspect.signature(options).replace(return_annotation=returned)
        call.__signature__ = signature  # type: ignore[attr-defined]
        text, raises, more = inspect.cleandoc(work.__doc__ or "").partition("Raises\n------")
        call.__doc__ = f"{text.rstrip()}\n\n{_parameters(options)}\n\n{raises}{more}".rstrip()
        return call

    return decorate


def _parameters(options: Any) -> str:
    lines = ["Parameters", "----------"]
    for one, found in _declared(options):
        text = " ".join(filter(None, (one.name, ":", found.help, found.note)))
        lines += textwrap.wrap(text, 92, subsequent_indent="    ")
    return "\n".join(lines)


@declares
class ModelOptions:
    """What judging and generating have in common.

    Parameters
    ----------
    only : Only these indexes (repeat, or separate by commas).
    limit : Only the first N.
    max_concurrency : Calls at a time.
    timeout : Seconds for one call.
    max_cost : Stop calling after this many US dollars; implies --yes.
    api_key : Of the endpoint. Default: OPENAI_API_KEY, or the variable that the catalogue names.
    runs : The folder of the runs.
    cache : SQLite file of replies. Default: in the user's cache folder.
    """

    _: KW_ONLY
    only: Collection[str] = option((), panel=INPUTS, metavar="INDEX", commas=True)
    limit: int | None = option(None, panel=INPUTS, min=1)
    max_concurrency: int = option(64, panel=LIMITS, min=1, max=4096)
    timeout: float = option(120.0, panel=LIMITS, min=0.1, max=86_400)
    max_cost: float | None = option(None, panel=LIMITS, min=0.0)
    api_key: str | None = python_only(None, repr=False)
    runs: str | Path = python_only("runs")
    cache: str | Path | None = python_only(None)
