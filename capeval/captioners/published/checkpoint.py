"""What a family says about a published checkpoint, and what all families do alike."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from capeval.captioners.protocol import BatchMaker, CaptionRequest
from capeval.errors import UsageError

Files = Callable[[str], Path | None]
"""Finds a file of the checkpoint by its name."""

# Also on machines with hundreds of cores: a batch has no more than some hundred frames.
_THREADS = 16


@dataclass(frozen=True)
class PublishedCheckpoint:
    """A checkpoint in its authors' layout, described for transformers.

    `key_map` gives transformers' names by regular expressions over the published ones; tensors that
    are split or reordered too are registered for `model_class`. `inputs` makes the batches from a
    tokenizer and a system prompt. `ends` are the tokens that end a caption, in place of the
    tokenizer's and the file's. `generation` overrides the file's decoding.
    """

    config: Any
    model_class: Any
    key_map: Mapping[str, str]
    inputs: Callable[[Any, str | None], BatchMaker]
    system: str | None = None
    """The system prompt where no other is asked for."""
    ends: tuple[str, ...] | None = None
    enforces_context: bool = True
    """False where the authors' code runs the model beyond the positions of its config.json."""
    penalise_prompt: bool = False
    """Whether a repetition penalty counts the prompt: not where one generates from embeddings."""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Family:
    """A family of published checkpoints.

    `describe` takes config.json, the model's name for messages and the files beside it; it raises
    `UsageError` for a checkpoint that is built otherwise.
    """

    name: str
    matches: Callable[[Mapping[str, Any]], bool]
    describe: Callable[[Mapping[str, Any], str, Files], PublishedCheckpoint]


def has_architecture(published: Mapping[str, Any], name: str) -> bool:
    """Return whether a config.json names an architecture.

    >>> has_architecture({"architectures": ["A", "B"]}, "B"), has_architecture({}, "B")
    (True, False)
    """
    named = published.get("architectures")
    return isinstance(named, list) and name in named


def require(
    model: str, published: Mapping[str, Any], prefix: str = "", **expected: tuple[Any, ...]
) -> None:
    """Raise `UsageError` where a field of config.json has none of the values that are known."""
    for name, values in expected.items():
        if published.get(name) not in values:
            known = ", ".join(repr(value) for value in values)
            raise UsageError(
                f"{model}: config.json: {prefix}{name}: {published.get(name)!r} is not supported; "
                f"must be {known}"
            )


def require_placeholder(tokenizer: Any, token: str, expected: int, model: str) -> None:
    """Raise `UsageError` where a tokenizer does not give a frame's placeholder the stated id."""
    known = tokenizer.get_vocab().get(token)
    if known != expected:
        raise UsageError(
            f"{model}: its tokenizer gives {token} the id {known}, and its config.json {expected}"
        )


def user_prompt(request: CaptionRequest) -> str:
    """Return the prompt of a model without a place for a system prompt, which comes first."""
    return f"{request.system}\n\n{request.prompt}" if request.system else request.prompt


def refuse_placeholder(request: CaptionRequest, *placeholders: str) -> None:
    """Raise `ValueError` where a prompt has the text that stands for a frame."""
    for placeholder in placeholders:
        if placeholder in request.prompt:
            raise ValueError(f"its prompt contains {placeholder}, which stands for a frame")


@dataclass(frozen=True)
class Pixels:
    """Turns frames into pixels: `scaled` makes a square, then values are normalised.

    The scaling uses Pillow, as the authors' code does; torchvision's result differs.
    """

    scaled: Callable[[Image.Image], Image.Image]
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, requests: Sequence[CaptionRequest]) -> dict[str, torch.Tensor]:
        """Return `pixel_values`, (frames of all requests, 3, height, width) in float32.

        Empty where there is no frame.
        """
        frames = [frame for request in requests for frame in request.frames]
        if not frames:
            return {}
        # Pillow lets other threads run while it scales; on one, a batch would wait for seconds.
        with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
            squares = np.stack(list(pool.map(self._square, frames)))
        values = torch.from_numpy(squares).permute(0, 3, 1, 2).float() / 255
        mean, std = (torch.tensor(three)[:, None, None] for three in (self.mean, self.std))
        return {"pixel_values": (values - mean) / std}

    def _square(self, frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return np.asarray(self.scaled(Image.fromarray(frame)))


def scaled_and_cropped(side: int) -> Callable[[Image.Image], Image.Image]:
    """Return CLIP's scaling: the shorter edge to `side`, then the centre of the longer one."""

    def scale(image: Image.Image) -> Image.Image:
        short, long = min(image.size), max(image.size)
        longer = int(side * long / short)
        size = (side, longer) if image.width <= image.height else (longer, side)
        resized = image.resize(size, Image.Resampling.BICUBIC)
        left, top = (size[0] - side) // 2, (size[1] - side) // 2
        return resized.crop((left, top, left + side, top + side))

    return scale


def text_fields(published: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the fields of a language model that transformers names alike, where they are set."""
    same = (
        *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers"),
        *("num_attention_heads", "num_key_value_heads", "hidden_act", "max_position_embeddings"),
        *("rms_norm_eps", "attention_dropout", "bos_token_id", "eos_token_id"),
        *names,
    )
    return {name: published[name] for name in same if published.get(name) is not None}


def rope(published: Mapping[str, Any], default_theta: float) -> dict[str, Any]:
    """Return the rotary embedding's parameters in transformers' present form."""
    parameters: dict[str, Any] = {
        "rope_type": "default",
        "rope_theta": float(published.get("rope_theta") or default_theta),
    }
    if published.get("rope_scaling"):
        scaling = dict(published["rope_scaling"])
        kind = scaling.pop("type", None) or scaling.pop("rope_type", "default")
        parameters |= {"rope_type": kind, **scaling}
    return parameters
