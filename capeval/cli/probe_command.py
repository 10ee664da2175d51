"""`capeval probe`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from capeval.api.probe_options import ProbeOptions
from capeval.cli.options import (
    DryRun,
    Json,
    MaxFailed,
    Quiet,
    TableFormat,
    Yes,
    check_format,
    declared_by,
)
from capeval.text import counted

if TYPE_CHECKING:
    from capeval.api.judging import Judged


@declared_by(ProbeOptions)
def probe(
    declared: dict[str, Any],
    *,
    max_failed: MaxFailed = "0",
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    form: TableFormat = None,
    quiet: Quiet = False,
) -> None:
    """Check how far a judge can be trusted, without human labels.

    Captions are made of annotated sentences, as they are or with known changes, so that the right
    verdicts are certain: what is stated is entailed, what was left out is lacking, what was
    replaced is contradicted. They are judged like any other captions, and the table shows what
    share of the certain verdicts the judge gets right, the worst kind of change first.

    Run the same command again to resume where it stopped: nothing is paid for twice.
    """
    # Heavy modules are imported when the command runs, so that `--help` is fast.
    from capeval.api.probing import build, compared, judging_of
    from capeval.cli.judge_command import judge_targets
    from capeval.cli.session import Session
    from capeval.files.jsonl import printable_json
    from capeval.reporting.probe_tables import print_probing, rendered_probing
    from capeval.scoring.gates import CountOrShare

    allowance = CountOrShare.read(max_failed, "--max-failed")
    check_format(form, as_json=as_json)
    # Tables of other formats are to be redirected: notes go to stderr.
    session = Session(as_json=as_json or form is not None, quiet=quiet)
    options = ProbeOptions(**declared)
    source = build(options)
    if options.only_build:
        if not dry_run:
            source.build()
        session.print(f"{counted(len(source.captions), 'caption')}, nothing is judged:")
        for file in ("captions.jsonl", "annotations.jsonl", "labels.csv"):
            session.print(str(source.folder / file))
        return
    chosen, targets = judging_of(options, source)

    def show(results: list[Judged]) -> None:
        found = compared(options, source, results[0])
        if as_json:
            sys.stdout.write(printable_json(rendered_probing(found, "json")) + "\n")
        elif form is not None:
            if not quiet:
                typer.echo(rendered_probing(found, form))
        else:
            print_probing(found, session.console)

    def run() -> Any:
        return judge_targets(
            session, chosen, targets, show, allowance, yes=yes, dry_run=dry_run, as_json=as_json
        )

    raise typer.Exit(session.until_stopped(run))
