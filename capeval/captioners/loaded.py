"""What a loaded model is to the backend, whichever family it belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from capeval.captioners.protocol import CaptionRequest

if TYPE_CHECKING:
    import torch

__all__ = ["Inputs", "LoadedModel"]


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
