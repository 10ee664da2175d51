"""Small frames of the videos, as data inside the page."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from capeval.errors import MissingExtra, VideoError
from capeval.video import FrameReader, open_reader

# Eight such frames are 20 to 60 kB, and large enough to be looked at one by one.
_LONGEST_SIDE = 480
_QUALITY = 60
# Each decodes with all cores; the second reads its file while the first decodes.
_READERS = 2


@dataclass(frozen=True)
class Frame:
    """A frame: `time` in seconds from the first, and a WebP in base64."""

    time: float
    webp: str


@dataclass(frozen=True)
class Strip:
    """Frames of one video in order; or none, and why."""

    frames: tuple[Frame, ...] = ()
    note: str = ""


Strips = Mapping[str, Strip]
"""By index."""


def strips(files: Mapping[str, Path], count: int) -> Iterator[tuple[str, Strip]]:
    """Yield the index of every video and `count` frames spread evenly over it.

    A video that cannot be decoded has a note instead.

    Raises
    ------
    MissingExtra
        Decoding or encoding needs a package that is not installed.
    """
    try:
        import av  # noqa: F401
        import PIL  # noqa: F401
    except ImportError:
        # Both in one line, so that a user does not find them missing one after the other.
        raise MissingExtra("frames need PyAV and Pillow", "frames") from None
    reader = open_reader(str(count), allow_damaged=True)
    with ThreadPoolExecutor(_READERS) as pool:
        yield from zip(files, pool.map(partial(_strip, reader), files.values()), strict=True)


def _strip(reader: FrameReader, video: Path) -> Strip:
    from PIL import Image

    try:
        frames = reader.read(video)
    except VideoError as error:
        return Strip(note=error.message)
    scale = min(1.0, _LONGEST_SIDE / max(frames.width, frames.height))
    size = max(1, round(frames.width * scale)), max(1, round(frames.height * scale))
    made = []
    for time, pixels in zip(frames.times, frames.frames, strict=True):
        file = io.BytesIO()
        small = Image.fromarray(pixels).resize(size, Image.Resampling.LANCZOS)
        small.save(file, "WEBP", quality=_QUALITY)
        made.append(Frame(time, base64.b64encode(file.getvalue()).decode("ascii")))
    return Strip(tuple(made))
