"""`capeval correlate`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from capeval.api.run_options import CorrelateOptions
from capeval.cli.options import (
    Full,
    Json,
    Quiet,
    TableFormat,
    check_format,
    column_names,
    declared_by,
)
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


@declared_by(CorrelateOptions, metric=_metrics, columns=column_names)
def correlate(
    declared: dict[str, Any],
    *,
    as_json: Json = False,
    form: TableFormat = None,
    full: Full = False,
    quiet: Quiet = False,
) -> None:
    """Correlate metrics with human ratings: does the judge rank captions as humans do?

    The human file is CSV (commas, semicolons or tabs), XLSX or JSON lines of `video_id, system?,
    rater?` with `score`, or with `element_id, label`; or wide, with `human, human_2, ...`. Other
    names of columns are mapped with --columns.

    Without --metric and --metric-columns, the metrics are all judged runs under runs/, and what
    `capeval metrics` has computed for them; if there is none of yours, the sample.
    """
    from capeval.api import correlating
    from capeval.cli.session import Session
    from capeval.correlation.notices import notice_lines
    from capeval.reporting.correlations.tables import print_correlations

    check_format(form, as_json=as_json)
    output = Output(quiet=quiet)
    session = Session(as_json=as_json, quiet=quiet)
    with session.showing():
        found = correlating.correlate(**declared, on_notice=output.warning, progress=session)
    for line in notice_lines(found.warnings, full=full):
        output.warning(line)
    if as_json:
        output.json(found)
    else:
        print_correlations(found, output.console, form=form or "table", full=full)
