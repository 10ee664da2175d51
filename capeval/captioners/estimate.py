"""What generating is expected to cost, before it does: every video that has no caption yet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from capeval.captioners.pipeline import Job, in_thread
from capeval.captioners.selection import OpenCaptioner
from capeval.errors import CapevalError
from capeval.schema import Usage
from capeval.video import FrameReader

# A dense caption of a short clip; the prompt is counted as English prose.
_CAPTION_TOKENS, _CHARACTERS = 300, 4
_LOOKED_AT = 3
_OTHER_IMAGE_TOKENS = 1000


@dataclass(frozen=True)
class GenerationEstimate:
    """Videos, frames of a typical one, tokens, and US dollars; `cost` is None without a price.

    What the cache holds is not known before the frames are read, so it is counted as well.
    """

    videos: int
    frames: int
    usage: Usage
    cost: float | None


async def estimate_generation(
    work: Sequence[Job], reader: FrameReader, opened: OpenCaptioner
) -> GenerationEstimate:
    """Return what captioning `work` is expected to take; reads up to three of its videos."""
    if opened.base_url is None:  # a model in this process
        return GenerationEstimate(len(work), 0, Usage(), 0.0)
    price = opened.meter.price(opened.priced)
    if not work or price is None:
        return GenerationEstimate(len(work), 0, Usage(), 0.0 if not work else None)
    tokens, frames, seen = 0, 0, 0
    for job in work[:: max(1, len(work) // _LOOKED_AT)][:_LOOKED_AT]:
        try:
            read = await in_thread(partial(reader.read, job.path))
        except CapevalError:
            continue  # told when its turn comes
        count, height, width = read.frames.shape[:3]
        tokens += count * image_tokens(opened.priced, width, height)
        frames += count
        seen += 1
    tokens, frames = (tokens // seen, round(frames / seen)) if seen else (0, 0)
    asked = sum(len(job.prompt) for job in work) // _CHARACTERS
    usage = Usage(
        calls=len(work),
        input_tokens=len(work) * tokens + asked,
        output_tokens=len(work) * _CAPTION_TOKENS,
    )
    return GenerationEstimate(len(work), frames, usage, price.cost(usage))


def image_tokens(model: str, width: int, height: int) -> int:
    """Return what one image costs: OpenAI's rule of tiles where it holds, else a round figure.

    >>> image_tokens("gpt-4o-2024-08-06", 1280, 720)
    1105
    """
    if not model.startswith(("gpt-4o", "gpt-4.1", "gpt-4.5")) or "mini" in model or "nano" in model:
        return _OTHER_IMAGE_TOKENS
    fits = min(1.0, 2048 / max(width, height))
    fits = min(fits, 768 / (min(width, height)))
    tiles = math.ceil(width * fits / 512) * math.ceil(height * fits / 512)
    return 85 + 170 * tiles
