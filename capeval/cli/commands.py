"""The commands: their modules, their options for typer, and the values from the user's file."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import MISSING, dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from capeval.config import OF_OPTIONS, config_file, from_here, keyless_addresses, read_config
from capeval.errors import InputError, UsageError
from capeval.options import (
    JUDGE,
    LIMITS,
    OUTPUT,
    PANELS,
    Command,
    Option,
    Rule,
    checked,
    declares,
    listed,
    option,
    options_of,
    refuse_empty,
)
from capeval.text import nearest, shown

if TYPE_CHECKING:
    from capeval.show.result import Output

HEADINGS = {
    "Evaluate": {
        "eval": "Generate, judge, score and report, in one command.",
        "generate": "Caption videos with a video-language model.",
        "judge": "Judge captions event by event and score them: precision, recall and F1.",
        "report": "Write one HTML file that shows what a model gets wrong, and why.",
        "compare": "Compare judged runs over the videos scored in all of them: is B better than A?",
        "leaderboard": "Rank judged runs by overall F1, or graded runs by accuracy.",
    },
    "Trust": {
        "check": "Check a set of annotations: problems, possible mistakes and statistics.",
        "probe": "Check how far a judge can be trusted, without human labels.",
        "calibrate": "Correct a judge's scores with labels of some captions: what would the raters "
        "give?",
        "correlate": "Correlate metrics with human ratings: does the judge rank captions as humans "
        "do?",
        "rate": "Have humans rate captions without knowing who wrote them.",
    },
    "Questions": {
        "mcq": "Answer and grade multiple-choice questions: TUNA-MCQ, TOMATO, Video-MME, your own.",
    },
    "Make a benchmark": {
        "annotate": "Annotate videos: filter, draft, review, agree, merge.",
        "mcq construct": "Construct questions from annotations: draft, check, filter, review.",
    },
    "Look closer": {
        "score": "Score stored verdicts again, without any model.",
        "inspect": "Show why one video has its score: its caption, events and verdicts.",
        "plot": "Draw figures for a paper, as SVG, PDF or PNG.",
        "metrics": "Compute caption metrics, and write each caption's values to metrics.jsonl.",
        "models": "List the models that `capeval generate` knows.",
        "frames": "Show which frames of a video a model would see.",
        "runs": "List all runs with their judges, scores and sizes on disk.",
        "cache": "Show the location and contents of the cache of models' replies.",
    },
}
"""By heading, each command with its line in `capeval --help`."""

PLACES = {
    "eval": "capeval.evaluating.eval:eval_command",
    "generate": "capeval.captioners.generate:open_generating",
    "judge": "capeval.judging.judge:judge_command",
    "report": "capeval.reporting.report:report_command",
    "compare": "capeval.comparing.compare:compare",
    "leaderboard": "capeval.comparing.leaderboard:leaderboard_command",
    "check": "capeval.evaluating.check:check",
    "probe": "capeval.trust.probe:open_probing",
    "calibrate": "capeval.trust.calibrate:calibrate",
    "correlate": "capeval.correlation.correlate:correlate",
    "rate sheet": "capeval.rating.rate_sheet:rate_sheet",
    "rate merge": "capeval.rating.rate_merge:rate_merge",
    "mcq answer": "capeval.mcq.answer:open_answering",
    "mcq grade": "capeval.mcq.grade:open_grading",
    "mcq temporal": "capeval.mcq.temporal:mcq_temporal",
    "mcq construct draft": "capeval.construct.question_drafting:open_question_draft",
    "mcq construct check": "capeval.construct.question_checks:open_check",
    "mcq construct filter": "capeval.construct.question_filter:open_filtering",
    "mcq construct review": "capeval.construct.review:construct_review",
    "annotate filter": "capeval.construct.video_filter:annotate_filter",
    "annotate draft": "capeval.construct.drafts:open_draft",
    "annotate review": "capeval.construct.review:annotate_review",
    "annotate agree": "capeval.construct.annotator_exports:annotate_agree",
    "annotate merge": "capeval.construct.annotator_exports:annotate_merge",
    "score": "capeval.scoring.score:score_command",
    "inspect": "capeval.reporting.inspect:inspect",
    "plot": "capeval.reporting.plot:plot_command",
    "metrics": "capeval.metrics.measure:open_measuring",
    "models": "capeval.captioners.catalogue:models",
    "frames": "capeval.captioners.sample_frames:frames_command",
    "runs": "capeval.evaluating.stored:list_runs",
    "cache": "capeval.evaluating.stored:cache_command",
}
"""Where each command is."""


def declared(name: str) -> Command:
    module, _, attribute = PLACES[name].partition(":")
    found: Command = getattr(import_module(module), attribute).command
    return found


COMPLETING = "_CAPEVAL_COMPLETE"
"""The variable by which a shell asks for completions."""

_ADDRESSES = {"base_url", "model_url", "judge_url"}
_ONLY_TYPED = {
    *("api_key", "cache", "judge_serve", "max_cost", "model", "out", "ray", "replace_captions"),
    *("serve", "yes"),
}
"""Options that a file written by someone else must not set: keys, spending, overwriting and code to
run; `model`, because a `[models]` entry may name a key and where it is sent."""


_NO_TABLES = "--format is for tables, and --json prints none; omit one of them"


@declares
class SharedOptions:
    """Options that commands share, by the names that `@command` has for them.

    Parameters
    ----------
    max_failed : Exit with 0 if at most this many fail: a number, or a share such as 1%.
    yes : Spend more than $1 without asking.
    dry_run : Show what is left to do and its cost, and stop.
    as_json : Print the whole result as JSON.
    form : The format of the tables: table, markdown, latex, csv. By default table.
    full : Print everything, not only what matters most.
    """

    rules: ClassVar = (Rule("as_json", "form", _NO_TABLES),)
    max_failed: str = option("0", panel=LIMITS, metavar="SHARE")
    yes: bool = option(False, panel=LIMITS, name="--yes -y")
    dry_run: bool = option(False, panel=OUTPUT)
    as_json: bool = option(False, panel=OUTPUT, name="--json")
    form: Literal["table", "markdown", "latex", "csv"] | None = option(
        None, panel=OUTPUT, name="--format", metavar="FORMAT"
    )
    full: bool = option(False, panel=OUTPUT)


@dataclass(frozen=True)
class _Typed:
    """An option, as the command line and the user's file have it."""

    options: type
    field: str
    declared: Option
    default: Any

    @property
    def names(self) -> list[str]:
        return (self.declared.name or f"--{self.field.replace('_', '-')}").split()

    @property
    def takes_several(self) -> bool:
        return self.declared.kind in (list[str], list[str] | None)

    @property
    def label(self) -> str:
        return str(self.declared.metavar) if self.declared.positional else self.names[0]

    @property
    def key(self) -> str:
        return self.names[0].lstrip("-").replace("-", "_")

    def read(self, value: Any, label: str) -> Any:
        """Parse a typed value of the field; raises `UsageError` if it is wrong."""
        if self.declared.commas:
            value = listed([value] if isinstance(value, str) else value, label)
        elif value is None and self.default == ():
            value = ()
        refuse_empty(value, label)
        if self.declared.parse:
            value = self.declared.parse(value)
        return checked(self.options, self.field, value, label)

    def parameter(self, more: str) -> inspect.Parameter:
        """Return the parameter of a typer function; `more` is added to its help."""
        found, default = self.declared, self.default
        # Without a default value, the help text says what happens instead.
        if isinstance(default, tuple):
            default = ",".join(default) or None
        elif isinstance(default, int | float) and found.kind is not bool:
            default = str(default).removesuffix(".0")
        help_text = found.help
        if self.takes_several and not found.positional:
            help_text += " Comma-separated." if found.commas else " Repeatable."
        if found.kind is not bool and default not in (None, MISSING):
            help_text += f" By default {default}."
        settings: dict[str, Any] = {
            "help": help_text + more,
            "show_default": False,
            "rich_help_panel": found.panel,
            # Otherwise typer shows `<bool>` for a flag.
            "metavar": "" if found.kind is bool else found.metavar,
        }
        # In `Annotated` the positional arguments of typer.Option are its names.
        made = (
            typer.Argument(**settings)
            if found.positional
            else typer.Option(*self.names, **settings)
        )
        if default is MISSING:
            default = inspect.Parameter.empty
        elif default is not None and self.takes_several:
            default = default.split(",")
        return inspect.Parameter(
            self.field,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[found.kind, made],
        )


def _fields_of(command: Command) -> list[_Typed]:
    """Return the options and arguments of a command, and what only the file sets."""
    shared = options_of(SharedOptions)
    own = [_Typed(command.options, name, *of) for name, of in options_of(command.options).items()]
    return [*own, *(_Typed(SharedOptions, name, *shared[name]) for name in command.shared)]


def _settable(command: Command) -> dict[str, _Typed]:
    """Return the options of a command that a file can set, by name.

    Annotations can also be set where they are an argument: they replace the sample, which is the
    default of `capeval probe`.
    """
    found = _fields_of(command)
    named = {one.key: one for one in found if not one.declared.positional}
    return named | {one.field: one for one in found if one.field == "annotations"}


@dataclass(frozen=True)
class _FromFile:
    """A field's value from the file: the text as if typed, its place, and more help."""

    value: Any
    place: str
    help: str


def _from_file(command: Command) -> dict[str, _FromFile]:
    """Return a command's values in the user's file; raises `InputError`, `UsageError`."""
    from rich.markup import escape

    from capeval.llm.tracing import redact

    # During completion, a shell would show an error in the middle of the line.
    if COMPLETING in os.environ:
        return {}
    file = config_file()
    shared, own = (read_config(file, table) for table in OF_OPTIONS)
    if not (shared or own):
        return {}
    _check_names(file, shared, own)
    settable = _settable(command)
    found: dict[str, _FromFile] = {}
    for table, entries in (("defaults", shared), (_table(command.name), own.get(command.name, {}))):
        for key, one in settable.items():
            if key not in entries:
                continue
            given = entries[key]
            # The environment is the user's own; it has the address of a judge.
            is_judge = key in ("base_url", "judge_url") and one.declared.panel == JUDGE
            if is_judge and os.environ.get("OPENAI_BASE_URL"):
                continue
            place = f"{file}: {table}.{key}"
            text = _as_typed(one, given, file.parent, place)
            one.read(text, place)
            text_of_help = f" {file} sets {escape(redact(shown(given)))}."
            found[one.field] = _FromFile(text, place, text_of_help)
    return found


def _check_names(file: Path, shared: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Check that the file's commands and options exist."""
    known = {name: {*_settable(declared(name))} for name in PLACES}
    tables: list[tuple[str, Any, set[str]]] = [("defaults", shared, set().union(*known.values()))]
    for name, entries in own.items():
        if name not in known:
            near = nearest(name, list(known)) or f"; name one of {', '.join(known)}"
            raise InputError(f"is not a command{near}", file=file, field=_table(name))
        tables.append((_table(name), entries, known[name]))
    for table, entries, names in tables:
        if not isinstance(entries, dict):
            raise InputError(f"must be a table, not {shown(entries)}", file=file, field=table)
        for name in entries:
            problem = f"there is no such option{nearest(name, sorted(names))}"
            if name in _ONLY_TYPED:
                problem = "cannot be set in a file: another person may have written the file"
            if name not in names - _ONLY_TYPED:
                raise InputError(problem, file=file, field=f"{table}.{name}")


def _table(command: str) -> str:
    return f'commands."{command}"' if " " in command else f"commands.{command}"


def _as_typed(one: _Typed, given: Any, folder: Path, place: str) -> Any:
    found, is_flag = one.declared, one.declared.kind is bool
    values = given if one.takes_several and isinstance(given, list) else [given]
    for value in values:
        if is_flag != isinstance(value, bool) or not isinstance(value, str | int | float):
            needed = "true or false" if is_flag else "text or a number"
            raise InputError(f"must be {needed}, not {shown(value)}", file=place)
    if is_flag:
        return given
    is_path = found.metavar in ("FILE", "DIR", "PATH", "ANNOTATIONS")
    is_output = is_path and found.panel == OUTPUT
    texts = [from_here(str(v), folder, is_path=is_path, is_output=is_output) for v in values]
    return texts if one.takes_several else texts[0]


def work_of(command: Command) -> Callable[..., None]:
    """Return the function from which typer makes a command, with its context settings.

    Values are checked as for the Python function.
    """
    known, in_file = _fields_of(command), _from_file(command)
    typed = [one for one in known if one.declared.typed]
    untyped = sorted(
        f"{one.key} ({in_file[one.field].help[1:-1]})" if one.field in in_file else one.key
        for one in known
        if not one.declared.typed
    )

    def call(context: typer.Context, **given: Any) -> None:
        from capeval.show.result import Output

        places = {
            name: one.place
            for name, one in in_file.items()
            if "COMMANDLINE" not in str(context.get_parameter_source(name))
        }
        addresses = {name: given[name] for name in _ADDRESSES & given.keys()}
        keyless_addresses.clear()
        keyless_addresses.update(addresses[name] for name in addresses.keys() & places)
        given = {name: one.value for name, one in in_file.items()} | given
        values = {
            one.field: one.read(given[one.field], places.get(one.field) or one.label)
            for one in known
            if one.field in given
        }
        for rule in getattr(command.options, "rules", ()):
            # The file sets what is right without other options; what is typed wins.
            yields = rule.option if rule.needs else rule.other
            if yields in places and rule.is_broken(lambda name: bool(values.get(name))):
                del values[yields]
        try:
            shared = {name: values.pop(name) for name in command.shared}
            how = dict(vars(SharedOptions(**shared)))
            for field, step in command.steps.items():
                values[field] = dict(_step_values(step))
            keyless_addresses.difference_update(addresses[n] for n in addresses.keys() - places)
            in_steps = {name for field in command.steps for name in values[field]}
            for one in known:
                # A step reads [defaults] too, and after it a table of its own.
                is_shared = one.field in in_steps and ": defaults." in places.get(one.field, "")
                if is_shared and one.default is None:
                    values[one.field] = None
            _run(command, values, Output(quiet=context.find_root().params["quiet"], **how))
        except UsageError as error:
            # The user did not type it: say where it is set.
            labels = {one.field: one.label for one in known}
            set_there = [place for name, place in places.items() if labels[name] in str(error)]
            if set_there and type(error) is UsageError:
                raise UsageError(f"{error} (set in {', '.join(set_there)})") from None
            raise

    made = [one.parameter(in_file[one.field].help if one.field in in_file else "") for one in typed]
    made.sort(key=_place)
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    call.__signature__ = inspect.Signature([context, *made])  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in (context, *made)}
    # The docstring, without what only Python needs.
    text = re.split(r"\n *(?:Parameters|Raises|Example\n|>>>)", command.work.__doc__ or "")[0]
    paragraphs = inspect.cleandoc(text).split("\n\n")
    if untyped:
        paragraphs.append(f"Options that only capeval.toml sets: {', '.join(untyped)}.")
    call.__doc__ = "\n\n".join(" ".join(text.split()) for text in paragraphs)
    defaults = {name: one.value for name, one in in_file.items()}
    call.settings = {"default_map": defaults}  # type: ignore[attr-defined]
    return call


def _run(command: Command, values: dict[str, Any], output: Output) -> None:
    # `capeval --help` must not wait for the progress imports.
    from capeval.cli.long_command import ProgressLine

    taken = {one.name for one in fields(command.options)}
    if "on_notice" in taken:
        values["on_notice"] = output.notice
    progress = ProgressLine(output)
    if "progress" in taken:
        values["progress"] = progress
    try:
        with progress:
            if command.also is None:
                found = command.work(**values)
            else:
                also = {one: getattr(output, one, output) for one in command.also}
                found = command.work(command.options(**values), **also)
    except KeyboardInterrupt:
        if "progress" not in taken:
            raise
        progress.report_stop(caches_replies=False)
        raise typer.Exit(130) from None
    if isinstance(found, AbstractAsyncContextManager):
        from capeval.cli.long_command import run_long

        run_long(output, found)
    elif found is not None:
        from capeval.show.result import emit

        emit(found, output, values.get("out"))
        if code := found.exit_code():
            raise typer.Exit(code)


def _step_values(step: str) -> Iterator[tuple[str, Any]]:
    """Yield the user's file's values for a command that is a step of another."""
    command = declared(step)
    in_file = _from_file(command)
    for one in _fields_of(command):
        if one.field in in_file and one.options is command.options:
            given = in_file[one.field]
            yield one.field, one.read(given.value, given.place)
            if one.field in _ADDRESSES:
                keyless_addresses.add(given.value)


def _place(parameter: inspect.Parameter) -> int:
    """Return the place of a parameter's heading in the help: the same order in all commands."""
    (info,) = parameter.annotation.__metadata__
    return PANELS.index(info.rich_help_panel)
