"""Frames as message parts of a chat request."""

from __future__ import annotations

import base64
import io
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from capeval.errors import MissingExtra
from capeval.runs.concurrency import Recent

ImageKind = Literal["jpeg", "png", "video"]


@dataclass(frozen=True)
class ImageForm:
    """How frames are sent.

    `jpeg` and `png` send each frame as an image; `video` sends one list of JPEGs, which vLLM takes
    as a video. Frames keep their size unless their longer side is above `max_side`.
    """

    kind: ImageKind = "jpeg"
    quality: int = 90
    max_side: int | None = None

    def __post_init__(self) -> None:
        try:
            import PIL  # noqa: F401
        except ImportError:
            raise MissingExtra("sending frames needs Pillow", "frames") from None

    def settings(self) -> dict[str, Any]:
        quality = None if self.kind == "png" else self.quality
        return {"kind": self.kind, "quality": quality, "max_side": self.max_side}


@dataclass(frozen=True)
class EncodedFrames:
    """Message parts, the size of each frame as sent, and the total number of `bytes`."""

    parts: tuple[dict[str, Any], ...]
    width: int
    height: int
    bytes: int


def encode(frames: NDArray[np.uint8], form: ImageForm) -> EncodedFrames:
    """Return frames of shape (n, height, width, 3) as message parts, in order."""
    if not len(frames):
        return EncodedFrames((), 0, 0, 0)
    width, height = _size(frames.shape[2], frames.shape[1], form.max_side)
    images = list(_encoded(frames, form, (width, height)))
    texts = [base64.b64encode(image).decode("ascii") for image in images]
    if form.kind == "video":
        url = "data:video/jpeg;base64," + ",".join(texts)
        parts: tuple[dict[str, Any], ...] = ({"type": "video_url", "video_url": {"url": url}},)
    else:
        parts = tuple(
            {"type": "image_url", "image_url": {"url": f"data:image/{form.kind};base64,{text}"}}
            for text in texts
        )
    return EncodedFrames(parts, width, height, sum(map(len, images)))


class SharedEncoder:
    """Encodes the same array once for the requests that have it one after the other.

    Several questions about a video are asked with the same frames, and 32 frames of 720p take a
    second to encode. Arrays are only referred to weakly; the last four results are kept.
    """

    def __init__(self, form: ImageForm) -> None:
        self._form, self._recent = form, Recent[EncodedFrames](4)

    def encode(self, frames: NDArray[np.uint8]) -> EncodedFrames:
        return self._recent.get(_Array(frames), lambda: encode(frames, self._form))


class _Array:
    """A key that is equal for the same array alone, and for none once that is gone."""

    def __init__(self, frames: NDArray[np.uint8]) -> None:
        self._id, self._frames = id(frames), weakref.ref(frames)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        frames = self._frames()
        return isinstance(other, _Array) and frames is not None and frames is other._frames()


def _size(width: int, height: int, max_side: int | None) -> tuple[int, int]:
    if max_side is None or max(width, height) <= max_side:
        return width, height
    scale = max_side / max(width, height)
    return max(1, round(width * scale)), max(1, round(height * scale))


def _encoded(frames: NDArray[np.uint8], form: ImageForm, size: tuple[int, int]) -> Iterator[bytes]:
    from PIL import Image

    for frame in frames:
        image = Image.fromarray(frame)
        if image.size != size:
            image = image.resize(size, Image.Resampling.BICUBIC)
        file = io.BytesIO()
        if form.kind == "png":
            image.save(file, "PNG", compress_level=3)
        else:
            image.save(file, "JPEG", quality=form.quality)
        yield file.getvalue()
