"""`capeval report`, `capeval plot` and `capeval inspect`: what a model gets wrong, and why."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, TypeVar

from capeval.api.run_options import InspectOptions, PlotOptions, ReportOptions
from capeval.cli.options import declared_by
from capeval.show.output import Output

T = TypeVar("T")


@declared_by(ReportOptions)
def report(declared: dict[str, Any], output: Output) -> None:
    """Write one HTML file that shows what a model gets wrong, and why.

    It opens from disk and loads nothing but the videos: scores with intervals, how much of the
    annotated weight is entailed, and every video with its frames, caption, matches and verdicts.
    Several runs are shown side by side.

    Without --out, it is report.html in the judge's folder of a single run, or in the working
    directory.
    """
    from capeval.api import reports
    from capeval.scoring.scores import scores_headline
    from capeval.show.numbers import file_size

    made = reports.report(**declared, on_notice=output.notice, track=_tracked)
    headline = scores_headline(made.scores).removesuffix(".")
    output.line(f"{headline}; report: {made.file} ({file_size(made.size)})")


def _tracked(taken: Iterable[T], total: int) -> Iterable[T]:
    from rich.console import Console
    from rich.progress import track

    return track(
        taken,
        "Frames",
        total=total,
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )


@declared_by(PlotOptions)
def plot(declared: dict[str, Any], output: Output) -> None:
    """Draw figures for a paper: SVG, PDF or PNG; separate the names of figures by commas."""
    from capeval.api import plotting

    for file in plotting.plot(**declared, on_notice=output.notice):
        output.line(str(file))


@declared_by(InspectOptions, "as_json")
def inspect(declared: dict[str, Any], output: Output) -> None:
    """Show why one video has its score: its caption, events, verdicts and repairs."""
    from capeval.api import reports
    from capeval.reporting.report.inspection import print_card

    card = reports.inspect(**declared, on_notice=output.warning)
    output.show(card.to_json(), lambda: print_card(card, output.console))
