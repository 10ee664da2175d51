"""The size at which Qwen2-VL, Qwen2.5-VL and Qwen2.5-Omni see frames, by their authors' code.

Their qwen-vl-utils scale frames so that both sides are multiples of 28 pixels, a frame has from 128
to 768 such squares, and a video as many as 0.9 x 128,000 tokens hold. Two frames make one layer of
tokens, a token for each square. transformers' processor does the same when it is given these
bounds; a checkpoint's own are those of images, which let a few seconds of 1080p fill the context.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from capeval.errors import UsageError

_SQUARE = 28 * 28
_OMNI = "qwen2_5_omni_thinker"
_FAMILIES = ("qwen2_vl", "qwen2_5_vl", _OMNI)
# The processor uses this share of the tokens that it is given.
_USED = 0.9
_VIDEO_TOKENS = 128_000
# Tokens of the context that are left for a prompt; a longer one may need fewer frames.
_PROMPT = 512


@dataclass(frozen=True)
class PixelBounds:
    """A preset: the fewest pixels of a frame, and what else it implies.

    With `fits_context`, the frames of a long video are made smaller until they fit.
    """

    least: int = 128 * _SQUARE
    fits_context: bool = True
    generation: Mapping[str, Any] | None = None

    def size(self, longest_edge: int) -> dict[str, int]:
        """Return the processor's `size`; its upper bound gives way to 1.05 times the lower one.

        `longest_edge` is that of the checkpoint, in pixels of a frame, which may be smaller.
        """
        return {
            "shortest_edge": min(self.least, longest_edge),
            "longest_edge": min(768 * _SQUARE, longest_edge),
        }

    def video_tokens(self, context: int | None, max_new_tokens: int) -> int:
        """Return the processor's `max_video_tokens` for a model that reads `context` tokens."""
        if context is None or not self.fits_context:
            return _VIDEO_TOKENS
        return min(_VIDEO_TOKENS, int(max(1, context - max_new_tokens - _PROMPT) / _USED))


PRESETS: Mapping[str, PixelBounds] = {
    "published": PixelBounds(),
    # The TUNA benchmark's configuration of Qwen2-VL: its lower bound is above the utilities' upper
    # one, so that every frame has 1,280 to 1,344 squares. Nothing is made smaller to fit.
    "tuna": PixelBounds(
        least=1280 * _SQUARE,
        fits_context=False,
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
