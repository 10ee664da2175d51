"""`capeval score`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from capeval.api.run_options import ScoreOptions
from capeval.cli.options import column_names, declared_by
from capeval.cli.output import Output
from capeval.errors import UsageError


@declared_by(ScoreOptions, "as_json", "full", columns=column_names)
def score(
    declared: dict[str, Any],
    output: Output,
    *,
    check: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Compare with this scores.json instead.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Score stored verdicts again, without any model.

    `capeval score RUN --check FILE` recomputes a published scores.json, lists the values that
    differ, and exits with 4 if there are any.
    """
    from capeval.api import scoring
    from capeval.reporting.score_check import differences_json, print_differences
    from capeval.reporting.score_tables import print_scores, unscored_lines

    if check is not None:
        if {declared.pop("out"), declared.pop("layout")} != {None}:
            raise UsageError("--check writes nothing; omit --out")
        checked = scoring.check_scores(**declared, file=check)
        output.show(differences_json(checked), lambda: print_differences(checked, output.console))
        if checked.differences:
            raise typer.Exit(4)
        return
    judged = scoring.score_run(**declared, on_notice=output.notice)
    for line in judged.notices:
        output.notice(line)
    shown = {judged.name: judged.scores}
    output.show(judged.scores, lambda: print_scores(shown, output.console, full=output.full))
    for line in unscored_lines(judged.name, judged.unscored):
        output.notice(line)
    if not judged.scores.counts.scored:
        raise typer.Exit(3)
