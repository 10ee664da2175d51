"""`capeval metrics`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from capeval.cli.options import LONG, column_names, declared_by
from capeval.cli.output import Output
from capeval.metrics.options import MetricsOptions
from capeval.options import OUTPUT

if TYPE_CHECKING:
    from capeval.api.long_work import LongWork
    from capeval.api.measuring import Measured


@declared_by(MetricsOptions, *LONG, "form", columns=column_names)
def metrics(
    declared: dict[str, Any],
    output: Output,
    *,
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN",
            help="Runs, or captions files of annotated videos. By default every run, or the "
            "bundled sample (its name: sample).",
            show_default=False,
        ),
    ] = None,
    list_metrics: Annotated[
        bool, typer.Option("--list", help="List the metrics, and stop.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Compute caption metrics, and write each caption's values to metrics.jsonl.

    `capeval correlate` compares them with human ratings. Run the same command again to resume.
    """
    # Heavy modules are imported when the command runs, so that `--help` is fast.
    from capeval.api.measuring import open_measuring
    from capeval.cli.long_command import run_long
    from capeval.reporting.metric_tables import print_metrics

    if list_metrics:
        _list(output)
        return
    options = MetricsOptions(captions=tuple(targets or ()), **declared, on_notice=output.notice)

    def show(work: LongWork[Measured], results: list[Measured]) -> None:
        del work
        if output.as_json:
            output.json([one.as_json() for one in results])
        elif results:
            print_metrics(results, output.console, form=output.table_form)

    run_long(output, open_measuring(options, offline=output.dry_run), show)


def _list(output: Output) -> None:
    from capeval.errors import UsageError
    from capeval.metrics.registry import METRICS

    found: dict[str, str] = {}
    for name in METRICS.names():
        try:
            kind = METRICS.load(name)
        except UsageError as error:
            found[name] = str(error)
            continue
        asks = " Asks a chat model." if kind.uses_chat else ""
        found[name] = (kind.__doc__ or "").strip().partition("\n")[0] + asks
    if output.as_json:
        output.json(found)
        return
    width = max(map(len, found))
    for name, about in found.items():
        output.line(f"{name:<{width}}  {about}")
