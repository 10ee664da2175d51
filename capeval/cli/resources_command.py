"""`capeval check`, `models`, `frames`, `runs` and `cache`: what others use and leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from capeval.api.run_options import FramesOptions, ModelsOptions
from capeval.cli.options import declared_by
from capeval.errors import UsageError
from capeval.show.output import Output


@declared_by(ModelsOptions, "as_json", "full")
def models(declared: dict[str, Any], output: Output) -> None:
    """List the models that `capeval generate` knows.

    Add your own to capeval.toml, as \\[models."NAME"].
    """
    from capeval.api import resources
    from capeval.reporting.model_tables import print_model, print_models

    found = resources.models(**declared)
    if output.as_json:
        output.json({e.name: e.model_dump(exclude={"name"}) | {"memory": e.memory} for e in found})
    elif declared["name"] is not None:
        print_model(found[0], output.console)
    else:
        print_models(found, output.console, full=output.full)


@declared_by(FramesOptions, "as_json")
def frames(declared: dict[str, Any], output: Output) -> None:
    """Show which frames of a video a model would see.

    By default it writes a contact sheet named after the video, NAME.frames.png.
    """
    from capeval.api import resources
    from capeval.show.numbers import plain_number, tenths
    from capeval.video import read_policy

    video, sheet, out = (declared[name] for name in ("video", "sheet", "out"))
    if sheet is not None and out is not None:
        raise UsageError("--sheet and --out: choose one of them")
    if sheet is None and out is None and not output.as_json:
        sheet = f"{Path(video).stem}.frames.png"
    taken = resources.sample_frames(**declared | {"sheet": sheet})
    if output.as_json:
        policy = str(read_policy(str(declared["frames"])))
        output.json({"video": str(video), "frames": policy} | taken.record())
        return
    output.line(
        f"{video}: {len(taken)} of {taken.total} frames, {taken.width}x{taken.height}, "
        f"{tenths(taken.duration)} s at {plain_number(taken.fps)} a second, {taken.version}"
    )
    for warning in taken.warnings:
        output.line(f"warning: {warning}")
    output.line(f"written: {out if sheet is None else sheet}")
