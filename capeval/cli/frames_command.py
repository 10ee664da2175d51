"""`capeval frames`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["frames"]


def frames(
    video: Annotated[Path, typer.Argument(help="A video file.", show_default=False)],
    policy: Annotated[
        str,
        typer.Option(
            "--frames",
            help="32 (spread evenly), 2fps, auto (2 a second below 16 s, else 1), auto@64 "
            "(at most 64), 1 (the middle one), 0,5,9 (indices from 0).",
        ),
    ] = "32",
    decoder: Annotated[str, typer.Option(help="pyav, or decord for parity.")] = "pyav",
    sheet: Annotated[
        Path | None,
        typer.Option(
            help="Where the contact sheet goes.  [default: VIDEO's stem + .frames.png]",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write every frame at full size into this folder instead, named by its index.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the record alone on stdout instead.")
    ] = False,
) -> None:
    """Show which frames of a video a model would see."""
    from capeval.files.jsonl import dumps
    from capeval.video import decoder_named, read_policy
    from capeval.video.sheets import save_frames, save_sheet

    chosen = read_policy(policy)
    taken = decoder_named(decoder).read(video, chosen)
    if out is not None:
        save_frames(taken, out)
    if sheet is None and out is None and not as_json:
        sheet = Path(f"{video.stem}.frames.png")
    if sheet is not None:
        save_sheet(taken, sheet)
    if as_json:
        typer.echo(dumps({"video": str(video), "frames": str(chosen)} | taken.record(), indent=1))
        return
    typer.echo(
        f"{video}: {len(taken)} of {taken.total} frames, {taken.width}x{taken.height}, "
        f"{taken.duration:.2f} s at {taken.fps:.5g} a second, {taken.version}"
    )
    for warning in taken.warnings:
        typer.echo(f"warning: {warning}")
    typer.echo(f"written: {out if sheet is None else sheet}")
