"""The classes of transformers 5: each writes the same alone and in a batch of four."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from capeval.captioners import Captioned
from capeval.captioners.protocol import LoadedModel
from capeval.captioners.transformers_backend import TransformersCaptioner
from tests.captioners import tiny, tiny_newer

Load = Callable[..., LoadedModel]

PROMPTS = (
    "Describe the video.",
    "Describe the camera, the street, the man, the red jacket, in detail.",
    "Answer.",
    "Describe the video.",
)
# Some processors give tensors to numpy in a way that numpy 2 means to end.
pytestmark = pytest.mark.filterwarnings("ignore:__array:DeprecationWarning")

# transformers 5.23 splits the features of a chunk of frames as if it did not pool over time.
_SPLIT = pytest.mark.xfail(raises=RuntimeError, reason="Kimi_K25Model.get_image_features")


@pytest.fixture
def load_newer(load: Load) -> Load:
    """Load a tiny model, or skip the test where its class needs a package that is not here."""

    def get(family: str) -> LoadedModel:
        if family == "perception-lm":
            pytest.importorskip("timm")
        return load(family, max_new_tokens=12)

    return get


def _marked(families: tuple[str, ...]) -> list[Any]:
    return [pytest.param(f, marks=_SPLIT) if f == "kimi-k2.5" else f for f in families]


async def _captions(loaded: LoadedModel, batch_size: int) -> list[Captioned]:
    requests = [tiny.request(f"V{at}", seed=at, prompt=prompt) for at, prompt in enumerate(PROMPTS)]
    upright = np.ascontiguousarray(requests[2].frames.transpose(0, 2, 1, 3))
    requests[2] = replace(requests[2], frames=upright)
    model = TransformersCaptioner(loaded, name="tiny", batch_size=batch_size)
    outcomes = await model.caption(requests)
    good = [outcome for outcome in outcomes if isinstance(outcome, Captioned)]
    assert len(good) == 4, outcomes
    return good


@pytest.mark.parametrize("family", _marked(tiny_newer.FAMILIES))
async def test_a_batch_of_four_writes_what_its_videos_write_alone(
    family: str, load_newer: Load
) -> None:
    loaded = load_newer(family)
    together, alone = await _captions(loaded, 4), await _captions(loaded, 1)
    assert [c.text for c in together] == [c.text for c in alone]
    assert [c.usage for c in together] == [c.usage for c in alone]
    assert [c.details["batch"] for c in together] == [4, 4, 4, 4]
    # The prompts differ in length, so rows were padded; the last repeats the first with another
    # video.
    assert len({c.usage.input_tokens for c in together}) == 3
    assert together[0].text != together[3].text


@pytest.mark.parametrize("family", tiny_newer.FAMILIES)
def test_no_frame_is_dropped_or_sampled_again(family: str, load_newer: Load) -> None:
    inputs = load_newer(family).inputs
    four, eight, sixteen = (
        inputs([tiny.request(frames=frames)])["pixel_values_videos"].numel()
        for frames in (4, 8, 16)
    )
    assert sixteen == 2 * eight == 4 * four


_TIMELESS = ("minicpm-v-4.6", "perception-lm")


@pytest.mark.parametrize("family", [f for f in tiny_newer.FAMILIES if f not in _TIMELESS])
def test_the_model_is_told_when_its_frames_are(family: str, load_newer: Load) -> None:
    request = tiny.request(frames=8)
    slow = replace(request, fps=1.0, duration=450.0, times=tuple(map(float, request.indices)))
    inputs = load_newer(family).inputs
    fast, slowed = inputs([request]), inputs([slow])
    if "omni" in family:
        # 8 frames of 15 s, two to a grid; the processor alone would say 2 frames a second.
        both = inputs([request, slow])["video_second_per_grid"]
        assert both.tolist() == pytest.approx([3.75, 112.5])
    elif family == "ernie-4.5-vl":
        # It reads the times in the frames.
        assert not torch.equal(fast["pixel_values_videos"], slowed["pixel_values_videos"])
    else:
        assert fast["input_ids"].tolist() != slowed["input_ids"].tolist()


@pytest.mark.parametrize("family", ["gemma-4", "gemma-4-unified"])
def test_a_prompt_that_begins_with_the_first_token_gets_no_second(
    family: str, load_newer: Load
) -> None:
    loaded = load_newer(family)
    first = loaded.tokenizer.bos_token_id
    assert loaded.tokenizer("A man.")["input_ids"][0] == first
    rows = loaded.inputs([tiny.request(prompt=prompt) for prompt in PROMPTS])["input_ids"]
    assert (rows == first).sum(dim=1).tolist() == [1, 1, 1, 1]


@pytest.mark.gpu
@pytest.mark.parametrize("family", _marked(tiny_newer.FAMILIES))
async def test_they_write_in_batches_on_a_gpu(family: str, load: Load) -> None:
    if family == "perception-lm":
        pytest.importorskip("timm")
    loaded = load(family, max_new_tokens=12, device="cuda")
    assert loaded.settings["dtype"] == "bfloat16"
    assert [c.details["batch"] for c in await _captions(loaded, 4)] == [4, 4, 4, 4]
