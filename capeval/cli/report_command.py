"""`capeval report`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, TypeVar

from capeval.api.run_options import ReportOptions
from capeval.cli.options import Quiet, declared_by

T = TypeVar("T")


@declared_by(ReportOptions)
def report(declared: dict[str, Any], *, quiet: Quiet = False) -> None:
    """Write one HTML file that shows what a model gets wrong, and why.

    It opens from disk and loads nothing: scores with intervals, what became of the annotated
    weight, and every video with its frames, caption, matches and verdicts. Several runs are shown
    side by side.

    Without --out, it is report.html in the judge's folder of a single run, or in the working
    directory.
    """
    from capeval.api import reports
    from capeval.cli.output import Output

    output = Output(quiet=quiet)
    made = reports.report(**declared, on_notice=output.notice, track=_tracked)
    size = f"{made.size / 1e6:.1f} MB" if made.size >= 1e6 else f"{made.size / 1e3:.0f} kB"
    output.line(f"{made.file} ({size})")


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
