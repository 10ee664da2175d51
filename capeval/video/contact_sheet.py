"""Show the frames that a model sees, as a contact sheet or as one picture per frame."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING

from capeval.errors import MissingExtra
from capeval.video.frames import FrameSet

if TYPE_CHECKING:
    from PIL.Image import Image


_THUMB = 240
_LINE = 16
_GAP = 4
_COLUMNS = 8


def sheet_png(frames: FrameSet) -> bytes:
    """Return one PNG of all frames, small, in the order in which a model sees them."""
    image = _pillow()
    from PIL import ImageDraw

    scale = min(1.0, _THUMB / max(frames.width, frames.height))
    size = max(1, round(frames.width * scale)), max(1, round(frames.height * scale))
    columns = min(_COLUMNS, len(frames))
    rows = math.ceil(len(frames) / columns)
    # A label needs some room even under the narrowest picture.
    wide, high = max(size[0], 84) + _GAP, size[1] + _LINE + _GAP
    sheet = image.new("RGB", (columns * wide + _GAP, rows * high + _GAP), "white")
    draw = ImageDraw.Draw(sheet)
    for number, (index, time) in enumerate(zip(frames.indices, frames.times, strict=True)):
        corner = _GAP + number % columns * wide, _GAP + number // columns * high
        small = image.fromarray(frames.frames[number]).resize(size, image.Resampling.LANCZOS)
        sheet.paste(small, corner)
        draw.text((corner[0], corner[1] + size[1] + 1), f"#{index}  {time:.2f} s", fill="black")
    return _png(sheet)


def frame_pngs(frames: FrameSet) -> Iterator[tuple[str, bytes]]:
    """Yield every frame at full size under its name, `frame_000123.png`, by its index."""
    image = _pillow()
    for index, pixels in zip(frames.indices, frames.frames, strict=True):
        yield f"frame_{index:06d}.png", _png(image.fromarray(pixels))


def _pillow() -> ModuleType:
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtra("pictures need Pillow", "frames") from None
    return Image


def _png(picture: Image) -> bytes:
    found = io.BytesIO()
    picture.save(found, format="PNG")
    return found.getvalue()
