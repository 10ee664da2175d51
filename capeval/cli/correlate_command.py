"""`capeval correlate`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from capeval.api.run_options import CorrelateOptions
from capeval.cli.options import column_names, declared_by
from capeval.cli.output import Output
from capeval.errors import UsageError


def _metrics(texts: Sequence[str] | None) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for text in texts or ():
        name, mark, path = text.partition("=")
        if not mark or not name.strip() or not path.strip():
            raise UsageError(f"--metric: {text!r} must be NAME=PATH")
        if not name.isprintable():
            raise UsageError(f"--metric: the name {name!r} has control characters; choose another")
        found.setdefault(name.strip(), []).append(path.strip())
    return found


@declared_by(CorrelateOptions, "as_json", "form", "full", metric=_metrics, columns=column_names)
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
