"""The sizes at which Qwen2-VL sees frames, against tables that no code of capeval wrote."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import Qwen2VLVideoProcessor
from transformers.image_utils import PILImageResampling, SizeDict

from capeval.captioners import CaptionRequest, Uncaptioned
from capeval.captioners.loading import PIXEL_BOUNDS
from tests.captioners import tiny
from tests.captioners.tiny import Load, Make

# Qwen2-VL reads 32,768 tokens; 1,024 are for the caption and 512 for the prompt.
CONTEXT, WRITTEN = 32_768, 1024

# Height, width and number of frames (two for each second); then (rows, columns, tokens) by the
# authors' rule, the same within the context, and by the benchmark's bounds. Worked out from the
# published rule in squares of 28 x 28 pixels, with p = frames / 2:
#   S = min(768, 115,200 / p), within the context min(768, 115,200 / p, 31,232 / p), at least
#   134.4 (128 and a twentieth); for the benchmark S = 1,344 (1,280 and a twentieth).
#   A frame of round(height / 28) x round(width / 28) squares stays if that is from 128 to S. Above
#   S it has floor(sqrt(S * height / width)) x floor(sqrt(S * width / height)), below 128 the same
#   with 128 and rounded up.
# For example 720 x 1280, 56 frames: 26 x 46 = 1,196 squares are above S = 768;
# sqrt(768 * 0.5625) = 20.8 and sqrt(768 / 0.5625) = 36.9, so 20 x 36 x 28 = 20,160 tokens. The
# benchmark's: 1,196 is below 1,280; sqrt(720) = 26.8 and sqrt(2275.6) = 47.7, so 27 x 48.
Grid = tuple[int, int, int]
TABLE: list[tuple[int, int, int, Grid, Grid, Grid]] = [
    (240, 320, 8, (10, 14, 560), (10, 14, 560), (31, 42, 5208)),
    (360, 640, 120, (13, 23, 17940), (13, 23, 17940), (27, 48, 77760)),
    (720, 1280, 56, (20, 36, 20160), (20, 36, 20160), (27, 48, 36288)),
    (720, 1280, 180, (20, 36, 64800), (13, 24, 28080), (27, 48, 116640)),
    (720, 1280, 400, (18, 32, 115200), (9, 16, 28800), (27, 48, 259200)),
    (1080, 1920, 120, (20, 36, 43200), (17, 30, 30600), (27, 48, 77760)),
    (144, 176, 24, (11, 13, 1716), (11, 13, 1716), (33, 40, 15840)),
    (120, 1080, 30, (4, 39, 2340), (4, 39, 2340), (12, 108, 19440)),
    (720, 1280, 768, (12, 23, 105984), (8, 15, 46080), (27, 48, 497664)),
]
# The last row's smallest size within the context, 8 x 15 squares, does not fit: it is refused.


@pytest.mark.parametrize(("height", "width", "frames", "free", "fitted", "benchmark"), TABLE)
def test_frames_have_the_size_of_the_published_rule(
    height: int, width: int, frames: int, free: Grid, fitted: Grid, benchmark: Grid
) -> None:
    video = Qwen2VLVideoProcessor()
    pixels = torch.empty((1, frames, 3, height, width), device="meta")
    for preset, context, (rows, columns, expected) in (
        ("published", None, free),
        ("published", CONTEXT, fitted),
        ("tuna", CONTEXT, benchmark),
    ):
        bounds = PIXEL_BOUNDS[preset]
        video.max_video_tokens = bounds.video_tokens(context, WRITTEN)
        size = video.resize(
            pixels,
            SizeDict(**bounds.size(12_845_056)),
            PILImageResampling.BICUBIC,
            factor=28,
            cap_pixels_per_frame=True,
        ).shape[-2:]
        assert size == (rows * 28, columns * 28)
        assert frames // 2 * rows * columns == expected


def _clip(frames: int, height: int, width: int) -> CaptionRequest:
    pixels = np.random.default_rng(3).integers(0, 256, (frames, height, width, 3), dtype=np.uint8)
    return replace(tiny.request(frames=frames), frames=pixels)


def test_a_long_clip_is_made_smaller_until_it_fits(load: Load) -> None:
    loaded = load("qwen2-vl")
    assert loaded.context == 4096
    # 16 frames of 720 squares a pair would be 5,760.
    batch = loaded.inputs([_clip(16, 720, 1280)])
    assert batch["video_grid_thw"].tolist() == [[8, 30, 56]]
    assert 3300 < batch["input_ids"].shape[1] <= 4096 - 10


async def test_the_benchmarks_bounds_refuse_it_instead(captioner: Make) -> None:
    model = captioner("qwen2-vl", preset="tuna")
    assert model.settings["generation"]["repetition_penalty"] == 1.0
    (outcome,) = await model.caption([_clip(8, 360, 640)])
    assert isinstance(outcome, Uncaptioned)
    # Four layers of more than 1,000 squares.
    assert "the model reads 4096: take fewer frames" in outcome.reason
