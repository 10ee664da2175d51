"""`capeval score`."""

from __future__ import annotations

from typing import Any

import typer

from capeval.api.run_options import ScoreOptions
from capeval.cli.options import declared_by
from capeval.cli.output import Output


@declared_by(ScoreOptions, "as_json", "full")
def score(declared: dict[str, Any], output: Output) -> None:
    """Score stored verdicts again, without any model."""
    from capeval.api import scoring
    from capeval.reporting.score_tables import print_scores, unscored_lines

    judged = scoring.score_run(**declared, on_notice=output.notice)
    for line in judged.notices:
        output.notice(line)
    shown = {judged.name: judged.scores}
    output.show(judged.scores, lambda: print_scores(shown, output.console, full=output.full))
    for line in unscored_lines(judged.name, judged.unscored):
        output.notice(line)
    if not judged.scores.counts.scored:
        raise typer.Exit(3)
