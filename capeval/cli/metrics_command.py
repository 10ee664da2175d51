"""`capeval metrics`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capeval.cli.options import LONG, Targets, declared_by
from capeval.metrics.options import MetricsOptions
from capeval.show.output import Output

if TYPE_CHECKING:
    from capeval.api.measuring import Measured


@declared_by(MetricsOptions, *LONG, "form")
def metrics(
    declared: dict[str, Any],
    output: Output,
    *,
    targets: Targets = None,
) -> None:
    """Compute caption metrics, and write each caption's values to metrics.jsonl.

    `capeval correlate` compares them with human ratings. Run the same command again to resume.
    """
    # Heavy modules are imported when the command runs, so that `--help` is fast.
    from capeval.api.measuring import open_measuring
    from capeval.cli.long_command import run_long
    from capeval.reporting.metric_tables import print_metrics

    options = MetricsOptions(captions=tuple(targets or ()), **declared, on_notice=output.notice)

    def show(_: object, results: list[Measured]) -> None:
        if output.as_json:
            output.json([one.as_json() for one in results])
        elif results:
            print_metrics(results, output.console, form=output.table_form)

    run_long(output, open_measuring(options, offline=output.dry_run), show)
