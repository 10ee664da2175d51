"""The size at which Qwen2-VL, Qwen2.5-VL and Qwen2.5-Omni see frames, and the tokens of a video.

Their authors scale frames before the processor gets them, with qwen-vl-utils (`fetch_video` and
`smart_resize`, followed here as of commit fe120581): both sides become multiples of 28 pixels, a
frame has from 128 to 768 such squares, and a video as many as 0.9 x 128,000 tokens hold. Two frames
make one layer of tokens, a token for each square. transformers' own processor knows only the bounds
of images, which let a few seconds of 1080p fill the whole context.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from capeval.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SIDE = 28
"""Pixels of a token's side: 2 x 2 patches of 14 pixels, merged."""

_SQUARE = SIDE * SIDE
# Frames that share a layer of tokens.
_PAIR = 2
_OMNI = "qwen2_5_omni_thinker"
_FAMILIES = ("qwen2_vl", "qwen2_5_vl", _OMNI)
# Its allowance above the lower bound, so that a size between the two bounds exists.
_ALLOWANCE = 1.05
# Frames in single precision: eight of 1080p are 200 MB.
_FRAMES_AT_A_TIME = 8
_LEAST, _MOST, _TOTAL = 128 * _SQUARE, 768 * _SQUARE, int(128_000 * 0.9) * _SQUARE


@dataclass(frozen=True)
class PixelBounds:
    """Pixels of a frame (`least`, `most`) and of a video (`total`, counted per layer of tokens).

    `room` is how many tokens of the context the video and its prompt may take; None leaves it to
    the caller to refuse what is too long. `max_new_tokens` and `generation` are what a preset
    implies beyond the bounds.
    """

    least: int = _LEAST
    most: int = _MOST
    total: int = _TOTAL
    room: int | None = None
    fits_context: bool = True
    max_new_tokens: int | None = None
    generation: Mapping[str, Any] | None = None

    def within(self, context: int | None, max_new_tokens: int) -> PixelBounds:
        """Return these bounds for a model that reads `context` tokens, less those it writes."""
        if context is None or not self.fits_context:
            return self
        return replace(self, room=context - max_new_tokens)

    def settings(self) -> dict[str, Any]:
        """Return what decides the size of a frame, for the record of a run."""
        return {
            "frame_pixels": [self.least, self.most],
            "video_pixels": self.total,
            "prompt_tokens": self.room,
        }

    def size(self, frames: int, height: int, width: int, *, text: int = 0) -> tuple[int, int]:
        """Return the height and width of each of `frames`, next to a prompt of `text` tokens.

        Raises
        ------
        ValueError
            The frames are too elongated, or too many for the context at the smallest size.

        >>> PixelBounds().size(32, 720, 1280), PixelBounds().size(32, 240, 320)
        ((560, 1008), (280, 392))
        >>> PixelBounds(room=8192).size(32, 720, 1280)
        (448, 840)
        """
        from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize

        padded = frames + frames % _PAIR
        total = self.total
        if self.room is not None:
            total = min(total, max(0, self.room - text) * _SQUARE)
        share = min(_MOST, total / padded * _PAIR)
        most = min(self.most, max(share, int(self.least * _ALLOWANCE)))
        rows, columns = smart_resize(
            height, width, factor=SIDE, min_pixels=self.least, max_pixels=most
        )
        needed = tokens(frames, rows, columns)
        if self.room is not None and needed + text > self.room:
            raise ValueError(
                f"its {frames} frames need at least {needed} tokens, and the model has room for "
                f"{max(0, self.room - text)} next to the prompt and the caption: take fewer frames"
            )
        return rows, columns

    def scaled(self, frames: NDArray[np.uint8], *, text: int) -> NDArray[np.uint8]:
        """Return frames (n, height, width, 3) at the size that `size` says."""
        import numpy as np

        count, height, width, _ = frames.shape
        size = self.size(count, height, width, text=text)
        if size == (height, width):
            return frames
        parts = range(0, count, _FRAMES_AT_A_TIME)
        return np.concatenate(
            [_filtered(frames[at : at + _FRAMES_AT_A_TIME], size) for at in parts]
        )


def _filtered(frames: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Scale frames by the very call of the utilities.

    That of torchvision's second version, which transformers uses, gives other pixels.
    """
    import torch
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms.functional import resize

    pixels = torch.from_numpy(frames).permute(0, 3, 1, 2)
    scaled = resize(pixels, list(size), InterpolationMode.BICUBIC, antialias=True)
    found: NDArray[np.uint8] = scaled.permute(0, 2, 3, 1).contiguous().numpy()
    return found


def tokens(frames: int, height: int, width: int) -> int:
    """Return how many tokens a video has whose frames are of a size that `PixelBounds` gave.

    >>> tokens(32, 560, 1008), tokens(31, 560, 1008)
    (11520, 11520)
    """
    return math.ceil(frames / _PAIR) * (height // SIDE) * (width // SIDE)


PRESETS: Mapping[str, PixelBounds] = {
    "published": PixelBounds(),
    # The TUNA benchmark's configuration of Qwen2-VL: its lower bound is above the utilities' upper
    # one, so that every frame has 1,280 to 1,344 squares. Nothing is made smaller to fit.
    "tuna": PixelBounds(
        least=1280 * _SQUARE,
        most=16_384 * _SQUARE,
        fits_context=False,
        max_new_tokens=2048,
        generation={"repetition_penalty": 1.0},
    ),
}


def preset_bounds(model_type: str, preset: str | None, *, model: str) -> PixelBounds | None:
    """Return the bounds of a family of models, None for families that have others."""
    if model_type not in _FAMILIES:
        if preset is not None:
            raise UsageError(f"{model}: it has no preset {preset!r}")
        return None
    # The benchmark's code has no omni model.
    known = ["published"] if model_type == _OMNI else [*PRESETS]
    if (wanted := preset or "published") not in known:
        raise UsageError(f"{model}: preset {wanted!r}: must be one of {', '.join(known)}")
    return PRESETS[wanted]
