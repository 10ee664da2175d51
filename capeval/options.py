"""Options that are declared once, for a public function and for its command.

A class of options has one field for each argument of the function. `takes` gives the function these
arguments, with the docstring of the class for documentation; `capeval.cli.commands.work_of`
gives the command its options, with the same texts. Values are checked alike for both, by pydantic
with the type of the field and the limits that it declares.
"""

import functools
import inspect
import operator
import re
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, Field, dataclass, field, fields, replace
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from capeval.errors import UsageError
from capeval.text import cut, describe, nearest

INPUTS, JUDGE, MODEL, FRAMES = "Inputs", "Judge", "Model", "Frames"
LIMITS, OUTPUT = "Limits", "Output"
PANELS = (None, INPUTS, JUDGE, MODEL, FRAMES, LIMITS, OUTPUT)
"""The headings of the help, in their order; None is typer's own."""

FRACTION = "Also a number: 0.01 means 1%; 1 is one item."
"""What Python accepts besides the text of a number or a share."""

Effort = Literal["default", "none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How much a chat model reasons; "default" sends nothing."""

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
    kind : the type that typer parses; by default the one that suits the type of the field
    metavar : what the help shows for the value
    typed : False if the command has no such option
    in_file : whether capeval.toml can set an untyped field
    positional : True for an argument instead of an option
    commas : whether values may also be separated by commas
    panel : the heading of the help that lists it
    name : the names on the command line, separated by spaces; by default that of the field
    parse : reads the texts that are typed
    """

    help: str = ""
    note: str = ""
    min: float | None = None
    max: float | None = None
    method: str | None = None
    kind: Any = None
    metavar: str | None = None
    typed: bool = True
    in_file: bool = False
    positional: bool = False
    commas: bool = False
    panel: str | None = None
    name: str | None = None
    parse: Callable[[Any], Any] | None = None


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


def in_file(default: T, text: str = "", **details: Any) -> T:
    """Declare a field that only Python and capeval.toml can set."""
    return python_only(default, text, in_file=True, **details)


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
    """Parse --columns into {capeval's name: column}.

    >>> column_names(["system=model", "score = MOS (1=bad)"])
    {'system': 'model', 'score': 'MOS (1=bad)'}
    """
    found: dict[str, str] = {}
    for text in texts:
        name, _, column = (part.strip() for part in text.partition("="))
        if not name or not column:
            raise UsageError(f"--columns: {text!r} must be NAME=COLUMN, capeval's name first")
        if name in found:
            raise UsageError(f"--columns: {name} is mapped twice")
        found[name] = column
    return found


def columns_option(text: str = "", **details: Any) -> Mapping[str, str] | None:
    """Declare the mapping of capeval's column names to those in the user's files."""
    kind: Any = list[str] | None
    details |= {"note": "In Python a dict by capeval's names.", "metavar": "NAMES", "commas": True}
    return option(None, text, kind=kind, parse=column_names, **details)


_DECIMAL = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)\s*", re.ASCII)
# More than any data set has: larger numbers are typing errors.
_MOST_ITEMS = 10**9


def decimal_of(text: str) -> Decimal | None:
    """Return a number as it is typed; None for other text that `Decimal` accepts, such as nan."""
    return Decimal(text.strip()) if _DECIMAL.fullmatch(text) else None


@dataclass(frozen=True)
class CountOrShare:
    """A number of items, or a percentage of all items."""

    number: Decimal
    is_share: bool

    @classmethod
    def read(cls, value: str | float, option: str) -> "CountOrShare":
        """Read `5` or `0.5%`, as given to `option`; int is a count, float a fraction.

        >>> CountOrShare.read("99.5%", "--min-coverage")
        CountOrShare(number=Decimal('99.5'), is_share=True)
        >>> CountOrShare.read(0.5, "--min-coverage") == CountOrShare.read("50%", "--min-coverage")
        True
        """
        if isinstance(value, float):
            # A float has the digits that were typed.
            share = True
            number: Decimal | None = 100 * Decimal(repr(value))
        else:
            text = str(value).strip()
            share = text.endswith("%")
            number = decimal_of(text.removesuffix("%"))
        if (
            number is None
            or not 0 <= number <= (100 if share else _MOST_ITEMS)
            or (not share and number != int(number))
        ):
            fraction = ", or a fraction from 0 to 1" if isinstance(value, float) else ""
            raise UsageError(
                f"{option}: {value!r} must be a share from 0% to 100%, such as 1%, or a whole "
                f"number of 0 or more, such as 5{fraction}"
            )
        return cls(number, share)

    def of(self, total: int) -> Decimal:
        return self.number * total / 100 if self.is_share else self.number


FilePath = str | Path
Notices = Callable[[str], None]


def ignore(_notice: str) -> None:
    """Ignore a notice: the default for `on_notice`."""


judged_runs_argument = functools.partial(
    required,
    "Judged runs: names under runs/, folders, judges' folders, judgments.jsonl or TUNA result "
    "files.",
    positional=True,
    metavar="RUN",
)
_WHICH = "Which judge, if several: its folder's name, or the start of it."
judge_option = functools.partial(option, None, _WHICH, metavar="NAME")
_OWN = "Annotations: a file, 'tuna' or 'sample'. By default the run's own."
annotations_option = functools.partial(option, None, _OWN, metavar="FILE")
human_option = functools.partial(
    option,
    None,
    "Human labels of elements, such as `capeval rate merge` writes; for scatter plots also ratings "
    "of captions.",
    metavar="FILE",
)
human_columns = functools.partial(
    columns_option,
    "Columns with other names, capeval's name first: system=model,score=mos.",
)
frames_option = functools.partial(
    option,
    None,
    "32 (spread evenly), 2fps, auto (2fps below 16 s, else 1fps), or as published: qwen-2fps, "
    "tuna-2fps. By default as `capeval models` shows.",
    note="Or a `FrameReader`.",
    method="read",
    panel=FRAMES,
    metavar="POLICY",
)
prompts_option = functools.partial(
    option,
    text="A prompt set, a folder with one, or tuna:FOLDER (TUNA's code).",
    panel=JUDGE,
    metavar="NAME",
)
repeats_option = functools.partial(
    option,
    None,
    "Judge each caption N times; the majority counts. By default as often as before, or once.",
    panel=JUDGE,
    metavar="N",
    min=1,
    max=100,
)
# With fewer, no p-value could be .01.
resamples_option = functools.partial(python_only, None, min=99)
seed_option = functools.partial(in_file, 0, "The seed of the statistics.", min=0)
runs_option = functools.partial(
    in_file, "runs", "The folder of the runs.", panel=OUTPUT, metavar="DIR"
)
out_option = functools.partial(
    option,
    None,
    "Write the result to this file.",
    note="Refused before anything is computed if it would replace an input.",
    panel=OUTPUT,
    metavar="FILE",
)
on_notice_option = functools.partial(
    python_only,
    ignore,
    "Called with one line for each notice that is not an error.",
)


@dataclass(frozen=True)
class Rule:
    """A rule: an option excludes or needs another. `why` is the message if it is broken."""

    option: str
    other: str
    why: str
    needs: bool = False

    def is_broken(self, given: Callable[[str], bool]) -> bool:
        return given(self.option) and given(self.other) != self.needs


_WHY = "--columns names columns of a human file; name the file with --human"
COLUMNS_OF_HUMAN = Rule("columns", "human", _WHY, needs=True)


@dataclass_transform(frozen_default=True, field_specifiers=(required,))
def declares(options: type[T]) -> type[T]:
    """Make a class an options class, which checks its values when it is called.

    Its `rules` say which options exclude or need each other.
    """

    def check_all(self: T) -> None:
        defaults = {one.name: one.default for one in fields(options)}  # type: ignore[arg-type]
        for name, default in defaults.items():
            value = getattr(self, name)
            if value is not default:
                object.__setattr__(self, name, checked(options, name, value))

        def given(name: str) -> bool:
            # The command line gives an empty mapping for an option that was not typed.
            return getattr(self, name) not in (defaults[name], {})

        for rule in getattr(options, "rules", ()):
            if rule.is_broken(given):
                raise UsageError(rule.why)

    options.__post_init__ = check_all  # type: ignore[attr-defined]
    return dataclass(frozen=True)(options)


def checked(options: type, name: str, value: Any, label: str | None = None) -> Any:
    """Return a value for a field: a plain number, a tuple instead of any other sequence.

    Where several values are expected, a single string or path counts as one. A number may
    be text. UsageError, which calls the field `label`, if the value has a wrong type, is empty, or
    exceeds the limits.
    """
    from pydantic import ValidationError

    label = label or name
    option, kinds, adapter = _check_of(options, name)
    several = str not in kinds and any(get_origin(kind) is tuple for kind in kinds)
    if isinstance(value, str | Path) and several:
        value = [value]
        if option.commas:
            value = [part.strip() for part in str(value[0]).split(",") if part.strip()] or [""]
    try:
        found = adapter.validate_python(value)
    except ValidationError as error:
        raise UsageError(f"{label} {_wrong(error)}") from None
    except Exception as error:  # another package's object may raise anything
        raise UsageError(f"{label} cannot be used: {describe(error)}") from None
    # The plain types behind Annotated and generic types are their origins.
    bare = [getattr(kind, "__origin__", kind) for kind in kinds if kind is not Any]
    plain = tuple(kind for kind in bare if isinstance(kind, type))
    has_method = callable(getattr(found, option.method or "", None))
    if option.method and not has_method and not isinstance(found, plain):
        what = "a string or an object" if str in kinds else "an object"
        raise UsageError(f"{label} must be {what} with a method {option.method}")
    for text in found if isinstance(found, tuple) else (found,):
        refuse_empty(text, label)
    return found


def refuse_empty(value: Any, label: str) -> None:
    """Raise a UsageError for a text without content, as in `--judge=`."""
    if isinstance(value, str) and not value.strip():
        raise UsageError(f"{label} is empty; give it a value, or omit it")


@functools.cache
def _check_of(options: type, name: str) -> tuple[Option, list[Any], Any]:
    """Return the declaration of a field, the types that it admits, and the check of pydantic."""
    from pydantic import TypeAdapter

    (one,) = (each for each in fields(options) if each.name == name)
    found: Option = one.metadata.get("option", Option())
    kinds = [_constrained(kind, found) for kind in _alternatives(_types_of(options)[name])]
    return found, kinds, TypeAdapter[Any](functools.reduce(operator.or_, kinds))


_PLAIN = {str, int, float, bool, Path, NoneType, Any}


@functools.cache
def _types_of(options: type) -> dict[str, Any]:
    """Return the types of the fields; types imported only for type checkers are Any.

    Importing such types would slow down `--help`.
    """
    unknown: dict[str, Any] = {}
    while True:
        try:
            return get_type_hints(options, localns=unknown)
        except NameError as error:
            unknown[str(error.name)] = Any


def _alternatives(declared: Any) -> list[Any]:
    return [*get_args(declared)] if get_origin(declared) in (Union, UnionType) else [declared]


def _constrained(kind: Any, option: Option) -> Any:
    """Return a type with the limits of an option; any collection becomes a tuple."""
    from pydantic import Field as Limits

    if kind in (int, float):
        finite = False if kind is float else None
        return Annotated[kind, Limits(ge=option.min, le=option.max, allow_inf_nan=finite)]
    if get_origin(kind) in (Sequence, Collection):
        (one,) = get_args(kind)
        is_checked = get_origin(one) is Literal or {*_alternatives(one)} <= _PLAIN
        return tuple[one if is_checked else Any, ...]  # type: ignore[misc]
    if isinstance(kind, type) and kind not in _PLAIN:
        return Any
    # Data are checked where they are read, with messages that name the entry.
    return Mapping if get_origin(kind) is Mapping else kind


def _wrong(error: Any) -> str:
    """Describe the expected value and the given one."""
    faults = error.errors(include_url=False)
    texts = dict.fromkeys(re.sub(", (unable|got) .*", "", each["msg"]) for each in faults)
    needed = [text.removeprefix("Input should ") for text in texts if "should" in text]
    needed = [text.replace("valid tuple", "list") for text in needed]
    # One of several values, rather than all of them.
    value = max(faults, key=lambda one: len(one["loc"]))["input"]
    shown = cut(repr(value)) if isinstance(value, bool | int | float | str | NoneType) else ""
    return f"must {' or '.join(needed)}, not {shown or f'a value of type {type(value).__name__}'}"


def options_of(options: type) -> dict[str, tuple[Option, Any]]:
    """Return the fields that a command or its file sets, with their defaults or `MISSING`."""
    found = {}
    for one, declared in _declared(options):
        if declared.typed or declared.in_file:
            kind = declared.kind or _kind(_types_of(options)[one.name], optional=one.default == ())
            found[one.name] = (replace(declared, kind=kind), one.default)
    return found


def _declared(options: type) -> Iterator[tuple[Field[Any], Option]]:
    """Yield the fields of a class, its own first and as declared, each with its help."""
    texts: dict[str, str] = {}
    place: dict[str, tuple[int, int]] = {}
    for n, one in reversed([*enumerate(options.__mro__)]):
        doc = inspect.cleandoc(one.__doc__ or "")
        texts |= re.findall(r"^(\w+) : (.*(?:\n .*)*)", doc, re.MULTILINE)
        place |= {name: (n, at) for at, name in enumerate(inspect.get_annotations(one))}
    chosen = (one for one in fields(options) if one.init)
    for field_ in sorted(chosen, key=lambda one: place[one.name]):
        declared: Option = field_.metadata.get("option", Option())
        text = declared.help or " ".join(texts[field_.name].split())
        yield field_, replace(declared, help=text)


def _kind(declared: Any, *, optional: bool = False) -> Any:
    """Return the type that typer parses for a field: texts, except for flags and choices.

    `checked` reads everything else from the text.
    """
    kinds = _alternatives(declared)
    if declared is bool or {get_origin(one) for one in kinds if one is not NoneType} == {Literal}:
        return declared
    several = str not in kinds and any(get_origin(one) in (Collection, Sequence) for one in kinds)
    kind: Any = list[str] if several else str
    return kind | None if optional or NoneType in kinds else kind


def takes(
    options: Callable[P, OptionsT],
) -> Callable[[Callable[[OptionsT], R]], Callable[P, R]]:
    """Give a function of one options object the arguments of that object's class.

    Type checkers and `help()` show the fields of the class as the parameters of the function.
    """

    def decorate(work: Callable[[OptionsT], R]) -> Callable[P, R]:
        @functools.wraps(work)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            name = work.__name__.removesuffix("_async")
            if unknown := [name for name in kwargs if name not in signature.parameters]:
                hint = nearest(unknown[0], [*signature.parameters])
                raise UsageError(f"{name}() has no parameter {unknown[0]}{hint}")
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise UsageError(f"{name}(): {error}; see help(capeval.{name})") from None
            return work(options(*args, **kwargs))

        returned = inspect.signature(work).return_annotation
        signature = inspect.signature(options).replace(return_annotation=returned)
        call.__signature__ = signature  # type: ignore[attr-defined]
        call.options = options  # type: ignore[attr-defined]
        text, raises, more = inspect.cleandoc(work.__doc__ or "").partition("Raises\n------")
        call.__doc__ = f"{text.rstrip()}\n\n{_parameters(options)}\n\n{raises}{more}".rstrip()
        return call

    return decorate


def _parameters(options: Any) -> str:
    lines = ["Parameters", "----------"]
    order = [*inspect.signature(options).parameters]
    for one, found in sorted(_declared(options), key=lambda each: order.index(each[0].name)):
        text = " ".join(filter(None, (one.name, ":", found.help, found.note)))
        lines += textwrap.wrap(text, 92, subsequent_indent="    ")
    return "\n".join(lines)


@dataclass(frozen=True)
class Command:
    """A command of the command line: its options and its work.

    Attributes
    ----------
    name : as it is typed, such as "mcq temporal"
    options : the class that declares its options
    shared : the options that it shares with other commands, by the names in `capeval.cli.commands`
    work : returns a `Result`, an opened long work, or nothing
    also : what `work` gets besides an object of the options: `output`, or names of its attributes;
        None for a function that `takes` the options as arguments
    steps : the commands that are its steps, by the fields that get the user's settings
    """

    name: str
    options: type
    shared: tuple[str, ...]
    work: Callable[..., Any]
    also: tuple[str, ...] | None
    steps: Mapping[str, str]


def command(
    name: str,
    *shared: str,
    options: type | None = None,
    steps: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare that a function is a command; its docstring is the help.

    Without `options`, the function `takes` them. It returns the `Result` to show.
    """

    def attach(work: Callable[P, R]) -> Callable[P, R]:
        also = tuple(inspect.signature(work).parameters)[1:] if options else None
        found = options or work.options  # type: ignore[attr-defined]
        work.command = Command(name, found, shared, work, also, steps)  # type: ignore[attr-defined]
        return work

    return attach


@declares
class CallOptions:
    """The options of all commands that call a model.

    Parameters
    ----------
    max_concurrency : Calls at a time.
    timeout : Seconds for one call.
    max_cost : Spend at most this, without asking.
    api_key : The endpoint's key. By default OPENAI_API_KEY, or the catalogue's variable.
    cache : SQLite file of replies. By default in the user's cache folder.
    """

    _: KW_ONLY
    runs: FilePath = runs_option()
    max_concurrency: int = option(64, panel=LIMITS, metavar="N", min=1, max=4096)
    timeout: float = in_file(120.0, min=0.1, max=86_400)
    max_cost: float | None = option(None, panel=LIMITS, metavar="USD", min=0)
    api_key: str | None = python_only(None, shown=False)
    cache: str | Path | None = python_only(None)


@declares
class ModelOptions(CallOptions):
    """The options that judging and generating share.

    Parameters
    ----------
    only : Only these videos.
    limit : Only the first N videos.
    """

    _: KW_ONLY
    only: Collection[str] = option((), panel=INPUTS, metavar="INDEX", commas=True)
    limit: int | None = option(None, panel=INPUTS, metavar="N", min=1)
