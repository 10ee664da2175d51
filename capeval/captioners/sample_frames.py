"""`capeval frames`: the frames of a video that a model would see, as pictures."""

from __future__ import annotations

import io
import math
from dataclasses import KW_ONLY, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capeval.errors import UsageError, needing
from capeval.files.jsonl import check_output, write_atomic
from capeval.options import OUTPUT, FilePath, command, declares, in_file, option, required, takes
from capeval.show.numbers import plain_number, tenths
from capeval.show.result import Output, Result
from capeval.show.table import Page
from capeval.text import one_line
from capeval.video import FrameSet, decoder_named, read_policy

if TYPE_CHECKING:
    from PIL.Image import Image


@declares
class SampleFramesOptions:
    """The arguments of `capeval.sample_frames`.

    Parameters
    ----------
    video : A video file.
    frames : The frames to take: 32 (spread evenly), 2fps, auto (2 a second below 16 s, else 1),
        auto@64 (at most 64), 1 (the middle one), 0,5,9 (indices from 0).
    decoder : pyav, or decord for comparison.
    out : Write a contact sheet to this .png file, or every frame at full size, named by its index,
        into this folder.
    """

    video: FilePath = required(positional=True, metavar="VIDEO")
    frames: str | int = option("32", metavar="POLICY")
    _: KW_ONLY
    decoder: str = in_file("pyav")
    out: FilePath | None = option(None, metavar="PATH", panel=OUTPUT)


@takes(SampleFramesOptions)
def sample_frames(o: SampleFramesOptions) -> FrameSet:
    """Return the frames of a video that a model would see.

    Raises
    ------
    InputError, UsageError
        The video cannot be decoded, the policy is wrong, or an output would replace other files.
    """
    out = None if o.out is None else Path(o.out)
    if out and _is_sheet(out):
        check_output(out, [o.video])
    elif out and any(out.glob("frame_*.png")):
        raise UsageError(f"{out}: already contains frames; name a new folder with --out")
    with needing("pictures need Pillow", "frames"):
        from PIL import Image
    taken = decoder_named(o.decoder).read(Path(o.video), read_policy(str(o.frames)))
    if out and _is_sheet(out):
        write_atomic(out, _png(_contact_sheet(taken)))
    elif out:
        for index, pixels in zip(taken.indices, taken.frames, strict=True):
            write_atomic(out / f"frame_{index:06d}.png", _png(Image.fromarray(pixels)))
    return taken


_THUMB, _LINE, _GAP, _COLUMNS = 240, 16, 4, 8


def _contact_sheet(frames: FrameSet) -> Image:
    from PIL import Image, ImageDraw

    pictures = frames.thumbnails(_THUMB)
    size = pictures[0].size
    columns = min(_COLUMNS, len(frames))
    rows = math.ceil(len(frames) / columns)
    # A label needs some room even under the narrowest picture.
    wide, high = max(size[0], 84) + _GAP, size[1] + _LINE + _GAP
    sheet = Image.new("RGB", (columns * wide + _GAP, rows * high + _GAP), "white")
    draw = ImageDraw.Draw(sheet)
    for number, (index, time) in enumerate(zip(frames.indices, frames.times, strict=True)):
        left, top = _GAP + number % columns * wide, _GAP + number // columns * high
        sheet.paste(pictures[number], (left, top))
        draw.text((left, top + size[1] + 1), f"#{index}  {time:.2f} s", fill="black")
    return sheet


def _png(picture: Image) -> bytes:
    found = io.BytesIO()
    picture.save(found, format="PNG")
    return found.getvalue()


def _own_sheet(video: FilePath) -> str:
    return f"{Path(video).stem}.frames.png"


def _is_sheet(out: Path) -> bool:
    return out.suffix.lower() == ".png"


class SampledFrames(Result):
    """The chosen frames, and the file or folder that they were written to."""

    def __init__(self, o: SampleFramesOptions, taken: FrameSet) -> None:
        self._o, self._taken = o, taken

    def headline(self) -> str:
        o, taken = self._o, self._taken
        size, length = f"{taken.width}x{taken.height}", tenths(taken.duration)
        about = f"{size}, {length} s at {plain_number(taken.fps)} fps, {taken.version}"
        lines = [f"{o.video}: {len(taken)} of {taken.total} frames, {about}"]
        lines += [f"warning: {warning}" for warning in taken.warnings]
        if o.out is None:
            lines.append(f"Written: {_own_sheet(o.video)}")
        return "\n".join(one_line(line, 600) for line in lines)

    def pages(self, *, full: bool = False) -> list[Page]:
        return []

    def as_json(self) -> Any:
        policy = str(read_policy(str(self._o.frames)))
        return {"video": str(self._o.video), "frames": policy} | self._taken.record()


@command("frames", "as_json", options=SampleFramesOptions)
def frames_command(o: SampleFramesOptions, output: Output) -> SampledFrames:
    """Show which frames of a video a model would see.

    By default it writes a contact sheet named after the video, NAME.frames.png.
    """
    out = o.out if o.out is not None or output.as_json else _own_sheet(o.video)
    return SampledFrames(o, sample_frames(**vars(replace(o, out=out))))
