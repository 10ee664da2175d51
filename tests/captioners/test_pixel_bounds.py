"""The sizes at which Qwen2-VL sees frames, against tables that no code of capeval wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torchvision.transforms import InterpolationMode
from torchvision.transforms.functional import resize

from capeval.captioners import Captioned, CaptionRequest, Uncaptioned
from capeval.captioners.pixel_bounds import PRESETS, SIDE, tokens
from capeval.captioners.transformers_backend import TransformersCaptioner
from capeval.errors import UsageError
from tests.captioners import tiny

Checkpoint = Callable[[str], Path]

# Qwen2-VL reads 32,768 tokens; 1,024 are for the caption and 100 for the prompt.
CONTEXT, WRITTEN, PROMPT = 32_768, 1024, 100

# Height, width and number of frames (two for each second); then (rows, columns, tokens) by the
# authors' rule, the same within the context, and by the benchmark's bounds. Worked out from the
# published rule in squares of 28 x 28 pixels, with p = frames / 2:
#   S = min(768, 115,200 / p), within the context min(768, 115,200 / p, 31,644 / p), at least
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
    (240, 426, 30, (9, 15, 2025), (9, 15, 2025), (27, 48, 19440)),
    (360, 640, 120, (13, 23, 17940), (13, 23, 17940), (27, 48, 77760)),
    (480, 854, 40, (17, 30, 10200), (17, 30, 10200), (27, 48, 25920)),
    (720, 1280, 20, (20, 36, 7200), (20, 36, 7200), (27, 48, 12960)),
    (720, 1280, 56, (20, 36, 20160), (20, 36, 20160), (27, 48, 36288)),
    (720, 1280, 180, (20, 36, 64800), (14, 25, 31500), (27, 48, 116640)),
    (720, 1280, 400, (18, 32, 115200), (9, 16, 28800), (27, 48, 259200)),
    (1280, 720, 76, (36, 20, 27360), (36, 20, 27360), (48, 27, 49248)),
    (1080, 1920, 120, (20, 36, 43200), (17, 30, 30600), (27, 48, 77760)),
    (1080, 1080, 50, (27, 27, 18225), (27, 27, 18225), (36, 36, 32400)),
    (2160, 3840, 300, (20, 36, 108000), (10, 19, 28500), (27, 48, 194400)),
    (144, 176, 24, (11, 13, 1716), (11, 13, 1716), (33, 40, 15840)),
    (120, 1080, 30, (4, 39, 2340), (4, 39, 2340), (12, 108, 19440)),
    (64, 64, 6, (12, 12, 432), (12, 12, 432), (36, 36, 3888)),
    (720, 1280, 768, (12, 23, 105984), (8, 15, 46080), (27, 48, 497664)),
]
# The last row's smallest size, 8 x 15 squares, needs 46,080 tokens: it does not fit.
NOT_FITTING = 768


@pytest.mark.parametrize(("height", "width", "frames", "free", "fitted", "benchmark"), TABLE)
def test_frames_have_the_size_of_the_published_rule(
    height: int, width: int, frames: int, free: Grid, fitted: Grid, benchmark: Grid
) -> None:
    published, tuna = PRESETS["published"], PRESETS["tuna"]
    cases = [(published, free), (tuna, benchmark), (tuna.within(CONTEXT, WRITTEN), benchmark)]
    if frames != NOT_FITTING:
        cases.append((published.within(CONTEXT, WRITTEN), fitted))
    for bounds, (rows, columns, expected) in cases:
        size = bounds.size(frames, height, width, text=PROMPT)
        assert size == (rows * SIDE, columns * SIDE)
        assert tokens(frames, *size) == expected


def test_what_does_not_fit_at_the_smallest_size_is_refused() -> None:
    bounds = PRESETS["published"].within(CONTEXT, WRITTEN)
    with pytest.raises(
        ValueError, match=r"at least 46080 tokens, .* room for 31644 .* fewer frames"
    ):
        bounds.size(NOT_FITTING, 720, 1280, text=PROMPT)


@pytest.fixture(scope="module")
def as_published(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen2-VL whose processor has the bounds of the published checkpoints."""
    source, target = checkpoint("qwen2-vl"), tmp_path_factory.mktemp("qwen2-vl-bounds")
    for file in source.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    path = target / "processor_config.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    for part in found.values():
        if isinstance(part, dict) and "size" in part:
            part["size"] = {"shortest_edge": 3136, "longest_edge": 12_845_056}
    path.write_text(json.dumps(found), encoding="utf-8")
    return target


def _clip(frames: int, height: int, width: int) -> CaptionRequest:
    pixels = np.random.default_rng(3).integers(0, 256, (frames, height, width, 3), dtype=np.uint8)
    return replace(tiny.request(frames=frames), frames=pixels)


def _loaded(folder: Path, **options: Any) -> Any:
    return tiny.load(folder, max_new_tokens=24, **options)


def test_the_processor_gets_frames_of_that_size(as_published: Path) -> None:
    batch = _loaded(as_published).inputs([_clip(4, 720, 1280)])
    # In patches of 14 pixels: two layers of 20 x 36 squares.
    assert batch["video_grid_thw"].tolist() == [[2, 40, 72]]
    assert int((batch["input_ids"] == batch["input_ids"].flatten().mode().values).sum()) == 1440


def test_pixels_are_those_of_frames_scaled_by_the_authors_filter(as_published: Path) -> None:
    # More frames than are scaled at a time. 11 x 18 squares are from 128 to 768.
    inputs, clip = _loaded(as_published).inputs, _clip(10, 300, 500)
    # The very call of the utilities; that of torchvision's second version gives other pixels.
    scaled = resize(
        torch.from_numpy(clip.frames).permute(0, 3, 1, 2),
        [308, 504],
        InterpolationMode.BICUBIC,
        antialias=True,
    )
    ready = replace(clip, frames=scaled.permute(0, 2, 3, 1).contiguous().numpy())
    for name, value in inputs([clip]).items():
        assert torch.equal(value, inputs([ready])[name]), name


def test_an_odd_clip_is_padded_with_its_last_frame(as_published: Path) -> None:
    inputs, odd = _loaded(as_published).inputs, _clip(5, 300, 500)
    padded = replace(
        odd,
        frames=np.concatenate([odd.frames, odd.frames[-1:]]),
        indices=(*odd.indices, odd.indices[-1]),
        times=(*odd.times, odd.times[-1]),
    )
    for name, value in inputs([odd]).items():
        assert torch.equal(value, inputs([padded])[name]), name


async def test_a_long_clip_is_made_smaller_until_it_fits(as_published: Path) -> None:
    loaded = _loaded(as_published)
    assert loaded.context == 4096
    long = _clip(16, 720, 1280)
    outcome = (await TransformersCaptioner(loaded, name="m").caption([long]))[0]
    assert isinstance(outcome, Captioned)
    # 16 frames of 720 squares a pair would be 5,760.
    assert 3500 < outcome.usage.input_tokens <= 4096 - 24


async def test_the_benchmarks_bounds_refuse_it_instead(as_published: Path) -> None:
    loaded = _loaded(as_published, preset="tuna")
    assert loaded.settings["generation"]["repetition_penalty"] == 1.0
    assert loaded.settings["processor"]["frame_pixels"] == [1280 * 28 * 28, 16_384 * 28 * 28]
    outcome = (await TransformersCaptioner(loaded, name="m").caption([_clip(8, 360, 640)]))[0]
    assert isinstance(outcome, Uncaptioned)
    # Four layers of 27 x 48 squares.
    assert "the model reads 4096: take fewer frames" in outcome.reason
    assert 4 * 27 * 48 > 4096


@pytest.mark.parametrize("family", ["qwen2-vl", "qwen2.5-omni"])
def test_the_bounds_are_recorded(family: str, checkpoint: Checkpoint) -> None:
    settings = _loaded(checkpoint(family)).settings
    assert settings["preset"] == "published"
    assert settings["processor"] == {
        "cap_pixels_per_frame": False,
        "frame_pixels": [100_352, 602_112],
        "video_pixels": 90_316_800,
        "prompt_tokens": 4096 - 24,
    }


def test_the_benchmark_has_no_omni_model(checkpoint: Checkpoint) -> None:
    with pytest.raises(UsageError, match="preset 'tuna': must be one of published"):
        tiny.load(checkpoint("qwen2.5-omni"), preset="tuna")
