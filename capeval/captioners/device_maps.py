"""Spreading a model's layers over several GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# A share is filled with whole layers, so each GPU may need one more than its part.
_SPARE_LAYERS = 1.25


def spread(model: Any, room: Mapping[int, int], dtype: torch.dtype) -> dict[str, int] | None:
    """Return the GPU of each part of `model`, or None if it does not fit.

    `model` may be on the meta device; `room` is how many bytes of weights each GPU takes. The GPUs
    get parts in proportion to their room, so that each keeps some for the videos; a layer is never
    split.
    """
    from accelerate.utils import infer_auto_device_map

    whole = list(getattr(model, "_no_split_modules", None) or ())
    total = _bytes(model, dtype)
    parts = [
        part
        for part in model.modules()
        if type(part).__name__ in whole or next(part.children(), None) is None
    ]
    spare = int(_SPARE_LAYERS * max((_bytes(part, dtype) for part in parts), default=0))
    shares = {
        gpu: min(free, total * free // max(1, sum(room.values())) + spare)
        for gpu, free in room.items()
    }
    for limits in (shares, dict(room)):
        # It sets aside the room of a layer on the first GPU, for parts elsewhere; there are none.
        found: dict[str, Any] = infer_auto_device_map(
            model, max_memory=dict(limits), no_split_module_classes=whole, dtype=dtype
        )
        if not {"cpu", "disk"} & set(map(str, found.values())):
            return found
    return None


def _bytes(module: Any, dtype: torch.dtype) -> int:
    return int(sum(parameter.numel() for parameter in module.parameters())) * dtype.itemsize
