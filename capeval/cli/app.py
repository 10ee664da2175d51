"""The `capeval` command: its subcommands, and how failures are reported."""

from __future__ import annotations

import io
import os
import platform
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from capeval.cli.commands import COMPLETING, HEADINGS, PLACES, declared, work_of
from capeval.errors import CapevalError
from capeval.llm.tracing import trace
from capeval.text import described, one_line
from capeval.version import __version__


class Commands(TyperGroup):
    """A group whose commands are imported when they are looked up.

    `prefix` is what is typed before their names.
    """

    prefix = ""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        headed = [] if self.prefix else [name for names in HEADINGS.values() for name in names]
        names = [one.removeprefix(self.prefix) for one in PLACES if one.startswith(self.prefix)]
        self.commands: Any = dict.fromkeys(name.split(" ")[0] for name in (*headed, *names))

    def list_commands(self, ctx: Any) -> list[str]:
        return [*self.commands]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in self.commands and self.commands[cmd_name] is None:
            self.commands[cmd_name] = _made(self.prefix + cmd_name)
        return self.commands.get(cmd_name)

    def format_help(self, *given: Any) -> None:
        """Print the help; the help of `capeval` itself imports no command."""
        if not self.prefix:
            self.commands = {
                name: TyperCommand(name, help=summary, rich_help_panel=heading)
                for heading, commands in HEADINGS.items()
                for name, summary in commands.items()
            }
        super().format_help(*given)


def _made(name: str) -> Any:
    around = typer.Typer(add_completion=False, rich_markup_mode="rich")
    around.callback()(lambda: None)
    word = name.rpartition(" ")[2]
    if name in PLACES:
        work: Any = work_of(declared(name))
        around.command(word, context_settings=work.settings)(work)
    else:
        summary = next(of[name] for of in HEADINGS.values() if name in of)
        group = type("Group", (Commands,), {"prefix": f"{name} "})
        around.add_typer(typer.Typer(cls=group, help=summary, no_args_is_help=True), name=word)
    made: Any = get_command(around)
    return made.commands[word]


app = typer.Typer(
    name="capeval",
    cls=Commands,
    help="Measure how well video-language models describe dense, dynamic video (TUNA-CAP).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog="Exit codes: 0 done; 1 an internal error (a bug in capeval); 2 bad input or usage, or "
    "the endpoint refused; 3 captions left unscored, videos left without a caption, questions left "
    "unanswered, runs left out, or the cost cap reached; 4 a gate (--fail-under, --min-coverage) "
    "failed; 130 Ctrl-C; 141 output pipe closed (SIGPIPE).",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"capeval {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, metavar="", help="Show the version."
        ),
    ] = False,
    debug: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a log of all calls, without keys, captions or images.",
            show_default=False,
        ),
    ] = None,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            "-q",
            metavar="",
            help="Print only errors, and warnings about money or lost work.",
        ),
    ] = False,
) -> None:
    """Measure how well video-language models describe dense, dynamic video (TUNA-CAP)."""
    del version, quiet  # the callback and the commands deal with them
    if debug is not None:
        from capeval.llm.tracing import start_log

        start_log(debug, f"capeval {__version__}, Python {platform.python_version()}")


def main() -> None:
    """Run the command line; every failure is one line on stderr and an exit code."""
    # OpenBLAS splits its sums by the number of cores, and last digits must not depend on that.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a dash must not stop a run.
            stream.reconfigure(errors="backslashreplace")
    before = threading.enumerate()
    try:
        code = _run()
    except BaseException as error:
        try:
            code = _ended_by(error)
        except BaseException:  # even its message may raise
            code = _internal_error(error)
    new = [thread for thread in threading.enumerate() if thread.daemon and thread not in before]
    if new:
        from capeval.runs.concurrency import is_calling

        if any(map(is_calling, new)):
            # A model's libraries abort the process when Python shuts down under their threads.
            _flush()
            os._exit(code)
    sys.exit(code)


def _ended_by(error: BaseException) -> int:
    if isinstance(error, CapevalError):
        trace("refused", failure=error)
        _complain(str(error))
        return error.exit_code
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        _complain("interrupted" if isinstance(error, KeyboardInterrupt) else "aborted")
        return 130
    if isinstance(error, BrokenPipeError):
        _flush()
        return 141
    trace("failed", failure=error)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        _complain(f"{where}{error.strerror or error}")
        return 2
    if isinstance(error, Exception) and hasattr(error, "format_message"):
        # An error of typer's: a wrong command or option. If it showed the help instead, there
        # is no message.
        if message := error.format_message():
            _complain(_usage(message, getattr(error, "ctx", None)))
        return 2
    if os.environ.get("CAPEVAL_TRACEBACK"):
        traceback.print_exception(error)
    return _internal_error(error)


def _internal_error(error: BaseException) -> int:
    _complain(
        f"internal error (a bug in capeval): {described(error)}; please report it "
        "with the log of the same command with --debug FILE"
    )
    return 1


def _run() -> int:
    try:
        code: int | None = app(_common_first(sys.argv[1:]), standalone_mode=False)
        if sys.stdout is not None:
            # Otherwise Python would find a closed pipe only at exit.
            sys.stdout.flush()
    except SystemExit as end:
        # Typer and rich turn a closed pipe into exit code 1, which means an internal error.
        if isinstance(end.__context__, BrokenPipeError):
            raise end.__context__ from None
        # Only completion, --install-completion and --show-completion end like this.
        if COMPLETING not in os.environ and not sys.argv[-1].endswith("-completion"):
            raise
        code = int(end.code or 0)
    return code or 0


def _common_first(arguments: list[str]) -> list[str]:
    """Return the arguments with -q and --debug FILE, which every command takes, before the command.

    >>> _common_first(["judge", "ours", "-q", "--debug", "log", "--", "-q"])
    ['-q', '--debug', 'log', 'judge', 'ours', '--', '-q']
    """
    common: list[str] = []
    others: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument in ("-q", "--quiet") or argument.startswith("--debug="):
            common.append(argument)
        elif argument == "--debug" and (file := next(rest, None)) is not None:
            common += [argument, file]
        elif argument == "--":
            return [*common, *others, argument, *rest]
        else:
            others.append(argument)
    return [*common, *others]


def _flush() -> None:
    """Flush stdout and stderr; discard output that a closed pipe cannot take."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _usage(message: str, context: object) -> str:
    command = getattr(context, "command_path", "capeval")
    # Newer versions of typer add this to the message about a wrong choice.
    message = message.replace("Value error, ", "")
    return f"{message.rstrip('.')}; see {command} --help"


def _complain(text: str) -> None:
    if "://" in text:
        from capeval.llm.tracing import redact

        # Such lines are pasted into bug reports.
        text = redact(text)
    # If stderr is closed too, the exit code remains.
    with suppress(BrokenPipeError):
        sys.stderr.write(f"capeval: {one_line(text, 600)}\n")
