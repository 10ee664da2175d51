"""`capeval score` and `calibrate`: from stored verdicts to scores."""

from __future__ import annotations

from typing import Any

import typer

from capeval.api.run_options import CalibrateOptions, ScoreOptions
from capeval.cli.options import column_names, declared_by
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


@declared_by(CalibrateOptions, "as_json", "form", columns=column_names)
def calibrate(declared: dict[str, Any], output: Output) -> None:
    """Correct a judge's scores with labels of some captions: what would the raters give?

    The labels are of human raters, or the verdicts of another judge. The labelled videos must be a
    random sample of those judged.
    """
    from capeval.api import calibrating
    from capeval.reporting.calibrated_tables import print_calibrated

    found = calibrating.calibrate(**declared, on_notice=output.notice)
    form = output.table_form
    output.show(found, lambda: print_calibrated(found, output.console, form=form))
