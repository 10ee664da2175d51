"""`capeval judges`."""

from __future__ import annotations

from typing import Any

import typer

from capeval.api.run_options import JudgesOptions
from capeval.cli.options import Full, Json, TableFormat, check_format, declared_by
from capeval.cli.output import Output


@declared_by(JudgesOptions)
def judges(
    declared: dict[str, Any], *, full: Full = False, form: TableFormat = None, as_json: Json = False
) -> None:
    """List the judges, their prices and the dates on which they end.

    Any chat model can judge, also one that is not listed; its price can be given in capeval.toml,
    as \\[prices."NAME"].
    """
    from capeval.api import judge_listing
    from capeval.reporting.judge_tables import judges_page, print_judge, print_judges
    from capeval.reporting.table import rendered

    check_format(form, as_json=as_json)
    output = Output()
    listed = judge_listing.judges(**declared)
    if as_json:
        output.json(listed)
    elif declared["name"] is not None and form is None:
        print_judge(listed.judges[0], output.console)
    elif form in (None, "table"):
        print_judges(listed, output.console, full=full)
    else:
        typer.echo(rendered([judges_page(listed, full=full, title="Judges")], form))
