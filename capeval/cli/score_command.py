"""`capeval score`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from capeval.api.run_options import ScoreOptions
from capeval.cli.options import Full, Json, Quiet, column_names, declared_by
from capeval.cli.output import Output
from capeval.errors import UsageError


@declared_by(ScoreOptions, columns=column_names)
def score(
    declared: dict[str, Any],
    *,
    check: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Compare with this scores.json instead.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
    full: Full = False,
    quiet: Quiet = False,
) -> None:
    """Score stored verdicts again, without any model.

    `capeval score RUN --check FILE` recomputes a published scores.json, lists the values that
    differ, and exits with 4 if there are any.
    """
    from capeval.api import scoring
    from capeval.reporting.score_check import differences_json, print_differences
    from capeval.reporting.score_tables import print_scores, unscored_lines

    output = Output(quiet=quiet)
    if check is not None:
        if declared.pop("out") is not None:
            raise UsageError("--check writes nothing; omit --out")
        checked = scoring.check_scores(**declared, file=check)
        if as_json:
            output.json(differences_json(checked))
        else:
            print_differences(checked, output.console)
        if checked.differences:
            raise typer.Exit(4)
        return
    judged = scoring.score_run(**declared, on_notice=output.notice)
    for line in judged.notices:
        output.notice(line)
    if as_json:
        output.json(judged.scores)
    else:
        print_scores({judged.name: judged.scores}, output.console, full=full)
        for line in unscored_lines(judged.name, judged.unscored):
            output.notice(line)
    if not judged.scores.counts.scored:
        raise typer.Exit(3)
