"""`capeval report`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, TypeVar

from capeval.cli import options

T = TypeVar("T")


def report(
    run: options.JudgedRuns,
    out: options.OutFile = None,
    human: options.Human = None,
    frames: Annotated[
        int | None,
        options.optional(
            "N",
            "Frames of each video. By default 8, or none for more than 100 videos.",
            min=0,
            max=64,
        ),
    ] = None,
    videos: Annotated[
        Path | None,
        options.optional(
            "DIR", "The folder of the videos. By default videos/ next to the annotations."
        ),
    ] = None,
    judge: options.WhichJudge = None,
    annotations: options.RunAnnotations = None,
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
    runs: options.Runs = Path("runs"),
) -> None:
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
    made = reports.report(
        run,
        out=out,
        human=human,
        frames=frames,
        videos=videos,
        judge=judge,
        annotations=annotations,
        seed=seed,
        runs=runs,
        on_notice=output.notice,
        track=_tracked,
    )
    size = f"{made.size / 1e6:.1f} MB" if made.size >= 1e6 else f"{made.size / 1e3:.0f} kB"
    output.line(f"{made.file} ({size})")


def _tracked(taken: Iterable[T], total: int) -> Iterable[T]:
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(
        taken,
        "Frames",
        total=total,
        console=console,
        transient=True,
        disable=not sys.stderr.isatty(),
    )
