"""`capeval score` and `calibrate`: from stored verdicts to scores."""

from __future__ import annotations

from typing import Any

from capeval.api.run_options import CalibrateOptions
from capeval.cli.options import declared_by
from capeval.show.output import Output


@declared_by(CalibrateOptions, "as_json", "form")
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
