"""`capeval rate` and `capeval correlate`: human ratings, and how metrics agree with them."""

from __future__ import annotations

from typing import Any

from capeval.api.run_options import CorrelateOptions
from capeval.cli.options import declared_by
from capeval.show.output import Output


@declared_by(CorrelateOptions, "as_json", "form", "full")
def correlate(declared: dict[str, Any], output: Output) -> None:
    """Correlate metrics with human ratings: does the judge rank captions as humans do?

    The human file is CSV, XLSX or JSON lines of `video_id, system?, rater?` with `score`, or with
    `element_id, label`; or wide, with `human, human_2, ...`.

    By default the metrics are all judged runs under runs/, and what `capeval metrics` has computed
    for them; if there is none of yours, the sample.
    """
    from capeval.api import correlating
    from capeval.cli.progress import ProgressLine
    from capeval.correlation.notices import notice_lines
    from capeval.reporting.correlations.tables import print_correlations

    with ProgressLine(output) as progress:
        found = correlating.correlate(**declared, on_notice=output.warning, progress=progress)
    for line in notice_lines(found.warnings, full=output.full):
        output.warning(line)
    form, full = output.table_form, output.full
    output.show(found, lambda: print_correlations(found, output.console, form=form, full=full))
