"""`capeval probe`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capeval.api.probe_options import ProbeOptions
from capeval.cli.options import (
    DryRun,
    Full,
    Json,
    Quiet,
    TableFormat,
    Yes,
    check_format,
    declared_by,
)
from capeval.cli.output import print_json
from capeval.options import LIMITS
from capeval.text import counted

if TYPE_CHECKING:
    from capeval.api.probing import Probed, ProbingSession
    from capeval.cli.session import Session

_GATE_FAILED = 4


@declared_by(ProbeOptions)
def probe(
    declared: dict[str, Any],
    *,
    max_unscored: Annotated[
        str,
        typer.Option(
            metavar="SHARE",
            help="How many captions may stay unscored: a number, or a share such as 1%. With more, "
            "the command exits with 3.",
            rich_help_panel=LIMITS,
        ),
    ] = "0",
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    form: TableFormat = None,
    full: Full = False,
    quiet: Quiet = False,
) -> None:
    """Check how far a judge can be trusted, without human labels.

    Captions are made of annotated sentences, as they are or with known changes, so that the right
    verdicts are certain: what is stated is entailed, what was left out is lacking, what was
    replaced is contradicted. The judge's card shows what share of them it gets right.

    Run the same command again to resume where it stopped: nothing is paid for twice.
    """
    # Heavy modules are imported when the command runs, so that `--help` is fast.
    from capeval.api.probing import open_probing
    from capeval.cli.session import (
        DONE,
        INCOMPLETE,
        Session,
        ask,
        expected_cost,
        unestimated_reasoning,
    )
    from capeval.errors import CapevalError
    from capeval.reporting.probe_tables import failed_lines, print_probing, rendered_probing
    from capeval.scoring.gates import CountOrShare

    check_format(form, as_json=as_json)
    allowance = CountOrShare.read(max_unscored, "--max-unscored")
    # Tables of other formats are to be redirected: notes go to stderr.
    session = Session(as_json=as_json or form is not None, quiet=quiet)
    options = ProbeOptions(**declared)

    async def run() -> int:
        async with open_probing(options, offline=dry_run, on_notice=session.notice) as probing:
            expected, todo = await probing.estimate()
            for opened in probing.opened:
                session.notice(f"Judge: {opened.title}")
                if opened.thinks and expected.usage.calls:
                    session.notice(unestimated_reasoning(opened.judge.name))
            names = ", ".join(todo)
            cost = expected_cost(expected.cost, names)
            if dry_run:
                _show_estimate(session, probing, todo, expected, cost, as_json=as_json)
                return DONE
            ask(expected.cost, expected.usage.calls, yes=yes, max_cost=options.max_cost)
            found: list[Probed] = []
            failure: CapevalError | None = None
            with session.showing() as progress:
                try:
                    async for one in probing.results(progress):
                        found.append(one)  # noqa: PERF401 - keeps what came
                except CapevalError as error:
                    failure = error
            if failure and not found:
                raise failure
            result = probing.finish(found)
            if as_json:
                sys.stdout.write(_printable(rendered_probing(result, "json")))
            elif form is not None:
                if not quiet:
                    typer.echo(rendered_probing(result, form, full=full))
            elif result.cards:
                print_probing(result, session.console, full=full)
            _show_rest(session, probing, found)
            if failure:
                raise failure
        for line in failed_lines(result):
            sys.stderr.write(f"capeval: {line}\n")
        complete = all(
            not one.stopped
            and one.card is not None
            and one.card.unscored <= allowance.of(one.card.captions)
            for one in found
        )
        if result.failed:
            return _GATE_FAILED
        return DONE if complete else INCOMPLETE

    raise typer.Exit(session.until_stopped(run))


def _printable(text: str) -> str:
    from capeval.files.jsonl import printable_json

    return printable_json(text) + "\n"


def _show_estimate(
    session: Session,
    probing: ProbingSession,
    todo: dict[str, int],
    expected: Any,
    cost: str,
    *,
    as_json: bool,
) -> None:
    from collections import Counter

    from capeval.reporting.numbers import thousands

    kinds = Counter(probe.kind for probe in probing.probes.probes)
    if as_json:
        usage = expected.usage
        print_json(
            {
                "videos": len(probing.probes.videos),
                "probes": dict(kinds),
                "judges": todo,
                "calls": usage.calls,
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cost": expected.cost,
            }
        )
        return
    made = ", ".join(f"{thousands(count)} {kind}" for kind, count in kinds.items())
    session.print(
        f"{counted(sum(kinds.values()), 'caption')} of "
        f"{counted(len(probing.probes.videos), 'video')}: {made}"
    )
    for name, count in todo.items():
        session.print(f"{name}: {counted(count, 'caption')} to judge")
    session.print(f"Expected: {counted(expected.usage.calls, 'call')}, {cost}; nothing was called")


def _show_rest(session: Session, probing: ProbingSession, found: list[Probed]) -> None:
    from capeval.cli.session import next_step
    from capeval.reporting.score_tables import unscored_lines

    for one, opened in zip(found, probing.opened, strict=False):
        for line in unscored_lines(one.name, one.unscored):
            session.lost(line)
        if one.not_reached:
            session.lost(f"{one.name}: {counted(one.not_reached, 'caption')} not judged")
        if one.stopped:
            sys.stderr.write(f"capeval: {one.stopped}\n")
        session.print_spent(opened.meter, one.name)
        if one.card is not None:
            session.print(f"{one.file}")
    if any(one.unscored or one.not_reached for one in found):
        stopped = next((one.stopped for one in found if one.stopped), None)
        session.print(next_step(stopped, "unscored"))
