"""Options that are declared once, for a public function and for its command.

A class of options has one field for each argument of the function. `takes` gives the function these
arguments, with the docstring of the class for documentation; `capeval.cli.options.declared_by`
gives the command its options, with the same texts. Values are checked alike for both, by the type
of the field and the limits that it declares.
"""

import functools
import inspect
import math
import re
import textwrap
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import KW_ONLY, MISSING, Field, dataclass, field, fields, replace
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
)

from capeval.errors import CapevalError, UsageError
from capeval.text import cut, describe, nearest

INPUTS, JUDGE, MODEL, FRAMES = "Inputs", "Judge", "Model", "Frames"
MACHINES, LIMITS, OUTPUT = "Several machines", "Limits", "Output"
PANELS = (None, INPUTS, JUDGE, MODEL, FRAMES, MACHINES, LIMITS, OUTPUT)
"""The headings of the help, in their order; None is typer's own."""

FRACTION = "Also a number: 0.01 means 1%, and 1 means one."
"""What Python accepts besides the text of a number or a share."""

ON_COMMAND_LINE = ContextVar("ON_COMMAND_LINE", default=False)
"""Whether a command runs: messages then name options, otherwise the parameters of a function."""

P = ParamSpec("P")
OptionsT = TypeVar("OptionsT")
R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True)
class Option:
    """What a field accepts, how it is documented, and how the command line takes it.

    Parameters
    ----------
    help : describes the field, if the docstring of its class does not
    note : what only Python accepts
    min, max : the limits of a number
    method : the method that an object must have, if the type of the field names a protocol
    kind : the type that typer parses, if not that which suits the field's own type
    metavar : what the help shows for the value
    typed : False if the field is only for Python
    positional : True for an argument instead of an option
    commas : whether values may also be separated by commas
    panel : the heading of the help that lists it
    """

    help: str = ""
    note: str = ""
    min: float | None = None
    max: float | None = None
    method: str | None = None
    kind: Any = None
    metavar: str | None = None
    typed: bool = True
    positional: bool = False
    commas: bool = False
    panel: str | None = None


def option(default: T, text: str = "", *, shown: bool = True, **details: Any) -> T:
    """Declare a field; `details` are those of `Option`, `shown` says whether a repr has it."""
    found: T = field(default=default, repr=shown, metadata={"option": Option(text, **details)})
    return found


def required(text: str = "", **details: Any) -> Any:
    """Declare a field without a default value."""
    return option(MISSING, text, **details)


def python_only(default: T, text: str = "", **details: Any) -> T:
    """Declare a field that the command line does not have."""
    return option(default, text, typed=False, **details)


@dataclass_transform(frozen_default=True, field_specifiers=(required,))
def declares(options: type[T]) -> type[T]:
    """Make a class one of options, whose values are checked when it is called."""

    def check_all(self: T) -> None:
        for one in fields(options):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            if value is not one.default:
                object.__setattr__(self, one.name, checked(options, one.name, value))

    options.__post_init__ = check_all  # type: ignore[attr-defined]
    return dataclass(frozen=True)(options)


def checked(options: type, name: str, value: Any, label: str | None = None) -> Any:
    """Return a value for a field: a plain number, a tuple instead of any other sequence.

    Where several values are expected, a single string, path or object with the method that they
    must have is the only one of them. UsageError, which calls the field by `label`, if the value is
    of another type, empty, or not within the limits.
    """
    (one,) = (each for each in fields(options) if each.name == name)
    found: Option = one.metadata.get("option", Option())
    label = label or name
    if type(value) in (str, int, float, bool, NoneType):
        return _checked(value, _alternatives(one.type), found, label)
    # Another package's object may raise anything when it is looked at.
    from capeval.plugins import blaming

    with blaming(lambda error: UsageError(f"{label} cannot be used: {describe(error)}")):
        return _checked(value, _alternatives(one.type), found, label)


# Names in annotations that are strings, because importing their types would slow down `--help`.
_NAMED = {"str": str, "int": int, "None": NoneType, "Path": Path}
_DESCRIBED = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    Path: "a Path",
}
_UNFIT = object()


def _alternatives(declared: Any) -> list[Any]:
    """Return the types that a field admits; those that cannot be imported here as strings."""
    if isinstance(declared, str):
        return [_NAMED.get(name, name) for name in declared.split(" | ")]
    return [*get_args(declared)] if get_origin(declared) in (Union, UnionType) else [declared]


def _checked(value: Any, kinds: Sequence[Any], option: Option, label: str) -> Any:
    for kind in kinds:
        if (found := _fitted(value, kind, option, label)) is not _UNFIT:
            break
    else:
        raise UsageError(f"{label} must be {_expected(kinds, option)}, not {_described(value)}")
    refuse_empty(found, label)
    if isinstance(found, int | float) and not isinstance(found, bool):
        _check_limits(found, option, label)
    return found


def _fitted(value: Any, kind: Any, option: Option, label: str) -> Any:
    """Return a value as one of a kind, or `_UNFIT`."""
    outer, inner = get_origin(kind) or kind, get_args(kind)
    if isinstance(kind, str):
        name, _, item = kind.removesuffix("]").partition("[")
        outer = {"Sequence": Sequence, "Mapping": Mapping, "Callable": Callable}.get(name, name)
        inner = (item,)
    if outer in (Sequence, Collection):
        alone = option.method and callable(getattr(value, option.method, None))
        several = (value,) if alone or isinstance(value, str | Path) else value
        if isinstance(value, str) and option.commas:
            several = [part.strip() for part in value.split(",") if part.strip()] or [""]
        unordered = () if outer is Collection else (AbstractSet, Mapping)
        if not isinstance(several, Iterable) or isinstance(several, (bytes, *unordered)):
            return _UNFIT
        kinds = _alternatives(inner[0])
        return tuple(_checked(each, kinds, option, f"a value of {label}") for each in several)
    if outer is Mapping and len(inner) == 2 and isinstance(value, Mapping):
        kinds = _alternatives(inner[1])
        return {
            name: _checked(each, kinds, option, f"{label}.{name}") for name, each in value.items()
        }
    if outer in (int, float):
        # Those of numpy too. True is no number.
        fits = isinstance(value, Integral if outer is int else Real) and not isinstance(value, bool)
        return outer(value) if fits else _UNFIT
    if outer is Literal:
        fits = isinstance(value, str) and value in inner
    elif outer is Callable:
        fits = callable(value)
    elif isinstance(outer, type):
        fits = isinstance(value, outer)
    elif option.method:
        fits = not isinstance(value, str) and callable(getattr(value, option.method, None))
    else:
        fits = outer in (each.__name__ for each in type(value).__mro__)
    return value if fits else _UNFIT


def refuse_empty(value: Any, label: str) -> None:
    """Raise a UsageError for a text without content: `--judge=` means neither a judge nor none."""
    if isinstance(value, str) and not value.strip():
        raise UsageError(f"{label} is empty; give it a value, or omit it")


def _check_limits(value: float, option: Option, label: str) -> None:
    least, most = option.min, option.max
    if not math.isfinite(value):
        raise UsageError(f"{label} must be a finite number, not {value}")
    if (least is None or least <= value) and (most is None or value <= most):
        return
    limits = f"at least {least:,}" if most is None else f"from {least:,} to {most:,}"
    raise UsageError(f"{label} must be {limits}, not {value:,}")


def _expected(kinds: Sequence[Any], option: Option) -> str:
    """Return what a value must be, in words; that it may be omitted goes without saying."""
    parts = []
    for kind in [each for each in kinds if each is not NoneType]:
        name = kind if isinstance(kind, str) else getattr(get_origin(kind), "__name__", "")
        if kind in _DESCRIBED:
            parts.append(_DESCRIBED[kind])
        elif get_origin(kind) is Literal:
            parts += [repr(each) for each in get_args(kind)]
        elif name.startswith(("Sequence", "Collection")):
            parts.append("a list")
        elif name.startswith("Mapping"):
            parts.append("a dict")
        elif name.startswith("Callable"):
            parts.append("a function")
        elif option.method:
            parts.append(f"an object with a method {option.method}")
        else:
            parts.append(f"{'an' if name[0] in 'AEIOU' else 'a'} {name}")
    *others, last = dict.fromkeys(parts)
    return f"{', '.join(others)} or {last}" if others else last


def _described(value: Any) -> str:
    """Return a value, or the type of one that is not short, as a message names it."""
    if value is None or isinstance(value, bool | int | float | str):
        return cut(repr(value))
    return f"a value of type {type(value).__name__}"


def options_of(options: type) -> dict[str, tuple[Option, Any]]:
    """Return the command's options by field, each with its default; `MISSING` if there is none."""
    found = {}
    for one, declared in _declared(options):
        if declared.typed:
            kind = declared.kind or _kind(one.type, optional=one.default == ())
            found[one.name] = (replace(declared, kind=kind), one.default)
    return found


def _declared(options: type) -> Iterator[tuple[Field[Any], Option]]:
    """Yield the fields of a class, its own first, each with its help from the docstrings."""
    texts: dict[str, str] = {}
    depth: dict[str, int] = {}
    for n, one in reversed([*enumerate(options.__mro__)]):
        doc = inspect.cleandoc(one.__doc__ or "")
        texts |= re.findall(r"^(\w+) : (.*(?:\n .*)*)", doc, re.MULTILINE)
        depth |= dict.fromkeys(inspect.get_annotations(one), n)
    for field_ in sorted(fields(options), key=lambda one: depth[one.name]):
        declared: Option = field_.metadata.get("option", Option())
        text = declared.help or " ".join(texts[field_.name].split())
        yield field_, replace(declared, help=text)


def _kind(declared: Any, *, optional: bool = False) -> Any:
    """Return the type that typer parses for a field: texts, except for what is True or False.

    Everything else is read from the text by `typed_value`, whose messages are in plain English.
    """
    if declared is bool:
        return bool
    several = get_origin(declared) in (Collection, Sequence)
    kind: Any = list[str] if several else str
    return kind | None if optional or NoneType in _alternatives(declared) else kind


def typed_value(options: type, name: str, text: Any, label: str) -> Any:
    """Return what was typed for a field, checked; a number is still text."""
    (one,) = (each for each in fields(options) if each.name == name)
    return checked(options, name, _number(text, _alternatives(one.type)), label)


def natural_number(text: str, label: str) -> int:
    """Return a whole number from 0 that was typed for an option of a command alone."""
    found: int = _checked(_number(text, [int]), [int], Option(min=0), label)
    return found


def _number(text: Any, kinds: Sequence[Any]) -> Any:
    for kind in (int, float):
        if kind in kinds and str not in kinds and isinstance(text, str):
            with suppress(ValueError):
                return kind(text)
    return text


def takes(
    options: Callable[P, OptionsT],
) -> Callable[[Callable[[OptionsT], R]], Callable[P, R]]:
    """Give a function of one options object the arguments of that object's class.

    Type checkers and `help()` show the fields of the class as the parameters of the function.
    """

    def decorate(work: Callable[[OptionsT], R]) -> Callable[P, R]:
        name = work.__name__.removesuffix("_async")
        signature = inspect.signature(options)
        reword = functools.partial(_with_parameters, names=signature.parameters)

        @functools.wraps(work)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            with _rewording(reword):
                _check_arguments(name, signature, args, kwargs)
                made: Any = options(*args, **kwargs)
                if hasattr(made, "on_notice") and not ON_COMMAND_LINE.get():
                    notice = made.on_notice
                    made = replace(made, on_notice=lambda text: notice(type(text)(reword(text))))
                found: Any = work(made)
            return cast(R, _awaited(found, reword) if inspect.iscoroutine(found) else found)

        returned = inspect.signature(work).return_annotation
        call.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]
        text, raises, more = inspect.cleandoc(work.__doc__ or "").partition("Raises\n------")
        parameters = reword(_parameters(options))
        call.__doc__ = f"{text.rstrip()}\n\n{parameters}\n\n{raises}{more}".rstrip()
        return call

    return decorate


def _check_arguments(
    name: str, signature: inspect.Signature, args: Sequence[Any], given: Mapping[str, Any]
) -> None:
    """Refuse arguments that do not fit with a UsageError."""
    known = signature.parameters
    for each in given:
        if each not in known:
            raise UsageError(f"{name}() has no parameter {each!r}{nearest(each, [*known])}")
    try:
        signature.bind(*args, **given)
    except TypeError as error:
        ordered = [one.name for one in known.values() if one.kind is not one.KEYWORD_ONLY]
        why = str(error)
        if len(args) > len(ordered):
            why = f"takes at most {len(ordered)} by position ({', '.join(ordered)}); give others by"
            why += " name, and several values of one parameter as a list"
        raise UsageError(f"{name}(): {why}") from None


def _with_parameters(text: str, names: Collection[str]) -> str:
    """Return a text that names options with those of a function as its parameters.

    What is in double quotes or contains a slash is a name or a path of the user's.

    >>> _with_parameters("choose another --out, or --max-cost 3; see --help", ["out", "max_cost"])
    'choose another `out`, or `max_cost` 3; see --help'
    >>> _with_parameters('"a --out" at b--out/c', ["out"])
    '"a --out" at b--out/c'
    """

    def parameter(option: re.Match[str]) -> str:
        name = (option[1] or "").replace("-", "_")
        return f"`{name}`" if name in names else option[0]

    return re.sub(r'"[^"]*"|(?<![\w/-])--([a-z][a-z-]*[a-z])(?![\w/-])', parameter, text)


@contextmanager
def _rewording(reword: Callable[[str], str]) -> Iterator[None]:
    try:
        yield
    except CapevalError as error:
        if not ON_COMMAND_LINE.get():
            error.reword(reword)
        raise


async def _awaited(work: Coroutine[Any, Any, T], reword: Callable[[str], str]) -> T:
    with _rewording(reword):
        return await work


def _parameters(options: Any) -> str:
    lines = ["Parameters", "----------"]
    for one, found in _declared(options):
        text = " ".join(filter(None, (one.name, ":", found.help, found.note)))
        lines += textwrap.wrap(text, 92, subsequent_indent="    ")
    return "\n".join(lines)


@declares
class CallOptions:
    """What all commands that call a model have in common.

    Parameters
    ----------
    runs : The folder of the runs.
    max_concurrency : Calls at a time.
    timeout : Seconds for one call.
    max_cost : The most that this command may spend, in US dollars; it then asks for no
        confirmation.
    api_key : Of the endpoint. By default OPENAI_API_KEY, or the variable that the catalogue names.
    cache : SQLite file of replies. By default in the user's cache folder.
    """

    _: KW_ONLY
    runs: str | Path = python_only("runs")
    max_concurrency: int = option(64, panel=LIMITS, metavar="N", min=1, max=4096)
    timeout: float = option(120.0, panel=LIMITS, metavar="SECONDS", min=0.1, max=86_400)
    max_cost: float | None = option(None, panel=LIMITS, metavar="DOLLARS", min=0)
    api_key: str | None = python_only(None, shown=False)
    cache: str | Path | None = python_only(None)


@declares
class ModelOptions(CallOptions):
    """What judging and generating have in common.

    Parameters
    ----------
    only : Only these indexes.
    limit : Only the first N videos.
    """

    _: KW_ONLY
    only: Collection[str] = option((), panel=INPUTS, metavar="INDEX", commas=True)
    limit: int | None = option(None, panel=INPUTS, metavar="N", min=1)
