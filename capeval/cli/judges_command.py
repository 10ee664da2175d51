"""`capeval judges`."""

from __future__ import annotations

from typing import Any

from capeval.api.run_options import JudgesOptions
from capeval.cli.options import declared_by
from capeval.cli.output import Output


@declared_by(JudgesOptions, "as_json", "full")
def judges(declared: dict[str, Any], output: Output) -> None:
    """List the judges, their prices and their retirement dates.

    Any chat model can judge, listed or not; its price can be set in capeval.toml, as
    \\[prices."NAME"].
    """
    from capeval.api import judge_listing
    from capeval.reporting.judge_tables import print_judge, print_judges

    listed = judge_listing.judges(**declared)
    if output.as_json:
        output.json(listed)
    elif declared["name"] is not None:
        print_judge(listed.judges[0], output.console)
    else:
        print_judges(listed, output.console, full=output.full)
