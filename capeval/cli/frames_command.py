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
            help="32 (spread evenly), 2fps, auto (2 a second below 16 s, else 1), auto@64 "
            "(at most 64), 1 (the middle one), 0,5,9 (indices from 0).",
        ),
    ] = "32",
    decoder: Annotated[str, typer.Option(help="pyav, or decord for parity.")] = "pyav",
    sheet: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where the contact sheet goes. Default: VIDEO's stem + .frames.png.",
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
    from capeval.errors import UsageError
    from capeval.files.jsonl import dumps
    from capeval.video import decoder_named, read_policy
    from capeval.video.contact_sheet import save_frames, save_sheet

    if sheet is not None and out is not None:
        raise UsageError("--sheet and --out: choose one of them")
    if sheet is None and out is None and not as_json:
        sheet = Path(f"{video.stem}.frames.png")
    if sheet is not None and sheet.exists() and not _is_png(sheet):
        raise UsageError(f"{sheet}: is there already and no PNG; name another file with --sheet")
    if out is not None and out.is_dir() and any(out.glob("frame_*.png")):
        raise UsageError(f"{out}: holds frames already; name a new folder with --out")
    chosen = read_policy(policy)
    taken = decoder_named(decoder).read(video, chosen)
    if out is not None:
        save_frames(taken, out)
    if sheet is not None:
        save_sheet(taken, sheet)
    if as_json:
        typer.echo(dumps({"video": str(video), "frames": str(chosen)} | taken.record(), indent=1))
        return
    _say(
        f"{video}: {len(taken)} of {taken.total} frames, {taken.width}x{taken.height}, "
        f"{taken.duration:.2f} s at {taken.fps:.5g} a second, {taken.version}"
    )
    for warning in taken.warnings:
        _say(f"warning: {warning}")
    _say(f"written: {out if sheet is None else sheet}")


def _is_png(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(8) == b"\x89PNG\r\n\x1a\n"


def _say(text: str) -> None:
    from capeval.text import one_line

    typer.echo(one_line(text, 600))
