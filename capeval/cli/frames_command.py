"""`capeval frames`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def frames(
    video: Annotated[
        Path, typer.Argument(metavar="VIDEO", help="A video file.", show_default=False)
    ],
    policy: Annotated[
        str,
        typer.Option(
            "--frames",
            metavar="POLICY",
            help="32 (spread evenly), 2fps, auto (2 a second below 16 s, else 1), auto@64 "
            "(at most 64), 1 (the middle one), 0,5,9 (indices from 0).",
        ),
    ] = "32",
    decoder: Annotated[
        str, typer.Option(metavar="NAME", help="pyav, or decord for parity.")
    ] = "pyav",
    sheet: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The contact sheet. By default VIDEO's stem + .frames.png.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write every frame at full size into this folder instead, named by its index.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the record alone on stdout instead.")
    ] = False,
) -> None:
    """Show which frames of a video a model would see."""
    from capeval.api import resources
    from capeval.cli.output import Output
    from capeval.errors import UsageError
    from capeval.video import read_policy

    if sheet is not None and out is not None:
        raise UsageError("--sheet and --out: choose one of them")
    if sheet is None and out is None and not as_json:
        sheet = Path(f"{video.stem}.frames.png")
    output = Output()
    taken = resources.sample_frames(video, policy, decoder=decoder, sheet=sheet, out=out)
    if as_json:
        output.json({"video": str(video), "frames": str(read_policy(policy))} | taken.record())
        return
    output.line(
        f"{video}: {len(taken)} of {taken.total} frames, {taken.width}x{taken.height}, "
        f"{taken.duration:.2f} s at {taken.fps:.5g} a second, {taken.version}"
    )
    for warning in taken.warnings:
        output.line(f"warning: {warning}")
    output.line(f"written: {out if sheet is None else sheet}")
