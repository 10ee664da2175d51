"""Show the frames that a model sees, as a contact sheet or as one picture per frame."""

from __future__ import annotations

import math
import os
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from capeval.errors import MissingExtra
from capeval.video.frames import FrameSet

if TYPE_CHECKING:
    from PIL.Image import Image


_THUMB = 240
_LINE = 16
_GAP = 4


def save_sheet(frames: FrameSet, path: Path, *, columns: int = 8) -> None:
    """Write one PNG of all frames, small, in the order in which a model sees them."""
    image = _pillow()
    from PIL import ImageDraw

    scale = min(1.0, _THUMB / max(frames.width, frames.height))
    size = max(1, round(frames.width * scale)), max(1, round(frames.height * scale))
    columns = min(columns, len(frames))
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
    _save(sheet, path)


def save_frames(frames: FrameSet, folder: Path) -> list[Path]:
    """Write every frame at full size as `frame_000123.png`, named by its index in the video."""
    image = _pillow()
    paths = []
    for number, index in enumerate(frames.indices):
        paths.append(folder / f"frame_{index:06d}.png")
        _save(image.fromarray(frames.frames[number]), paths[-1])
    return paths


def _pillow() -> ModuleType:
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtra("pictures need Pillow", "frames") from None
    return Image


def _save(picture: Image, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        picture.save(temporary, format="PNG")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
