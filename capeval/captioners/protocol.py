"""What a captioner is: frames and a prompt in, text and what it cost out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from capeval.schema import Usage


@dataclass(frozen=True)
class CaptionRequest:
    """One video to caption.

    `frames` is (n, height, width, 3) uint8 RGB, as decoded; `times` are seconds from the start;
    `fps` and `total_frames` are the video's own, `duration` its length in seconds.
    """

    index: str
    prompt: str
    frames: NDArray[np.uint8]
    indices: tuple[int, ...]
    times: tuple[float, ...]
    fps: float
    total_frames: int
    duration: float


@dataclass(frozen=True)
class Captioned:
    """A caption and what it cost; `warnings` say what is wrong with it, if anything."""

    index: str
    text: str
    usage: Usage
    seconds: float
    model: str
    revision: str | None = None
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    """What else the caption line records, such as the image encoding or the system prompt."""


@dataclass(frozen=True)
class Uncaptioned:
    """A video that got no caption, and why; never an empty caption."""

    index: str
    reason: str


class Captioner(Protocol):
    """Captions batches of videos."""

    @property
    def name(self) -> str:
        """The model, as the run and the caption lines name it."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """All that decides a caption besides frames and prompt; one run has one of it."""
        ...

    @property
    def batch_size(self) -> int:
        """How many requests `caption` takes at best; all of one call have as many frames."""
        ...

    @property
    def concurrency(self) -> int:
        """How many calls of `caption` may run at a time: 1 for a model in this process."""
        ...

    async def caption(self, requests: Sequence[CaptionRequest]) -> list[Captioned | Uncaptioned]:
        """Return one outcome per request, in order.

        Raises
        ------
        EndpointRefused, EndpointDown, BudgetReached
            No video can be captioned any more.
        """
        ...

    async def aclose(self) -> None:
        """Let go of the model or the connections."""
        ...


if TYPE_CHECKING:
    import torch


class Inputs(Protocol):
    """Turns requests into one left-padded batch."""

    def __call__(self, requests: Sequence[CaptionRequest]) -> Mapping[str, Any]:
        """Return what `generate` takes, on the processor.

        Raises
        ------
        ValueError
            The processor refuses a video or a prompt.
        """
        ...


@dataclass(frozen=True)
class LoadedModel:
    """A model in memory and all that is needed to ask it.

    `model` is a transformers model that generates; `tokenizer` reads what it wrote;
    `generation` is a transformers `GenerationConfig`; `context` is how many tokens the model can
    read, if it says so; `settings` records how requests become inputs. `penalty` is a repetition
    penalty over the written tokens alone; one in `generation` counts the prompt's tokens too.
    """

    model: Any
    tokenizer: Any
    inputs: Inputs
    generation: Any
    device: torch.device
    dtype: torch.dtype
    revision: str | None
    settings: Mapping[str, Any]
    context: int | None = None
    penalty: float | None = None
