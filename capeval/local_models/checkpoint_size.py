"""How much memory a checkpoint's weights take once they are loaded.

Weights that are not quantised are loaded in one precision, so their number is enough. Quantised
ones (AWQ, GPTQ, bitsandbytes, fp8) stay packed as they are stored: their size is in the headers of
the safetensors files. Their scales, and layers that are not quantised, are loaded in the chosen
precision.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_PRECISIONS = frozenset({"F64", "F32", "F16", "BF16"})
# A header of more is not one of a checkpoint; the format's own limit.
_MOST_HEADER = 100_000_000
# Scales, and embeddings and a vision tower that are not quantised, where nothing else is known.
_UNQUANTISED_SHARE = 1.3


@dataclass(frozen=True)
class CheckpointSize:
    """The number of parameters; of quantised weights also their number by stored type.

    >>> import torch
    >>> CheckpointSize(8_000).bytes(torch.bfloat16)
    16000
    >>> CheckpointSize(8_000, "awq", {"I32": 1_000, "F16": 100}).bytes(torch.bfloat16)
    4200
    """

    parameters: int
    quantisation: str | None = None
    stored: Mapping[str, int] | None = None
    bits: int = 16

    def bytes(self, dtype: torch.dtype) -> int:
        """Return the memory of the weights alone."""
        if self.quantisation is None:
            return self.parameters * dtype.itemsize
        if self.stored is None:
            return int(self.parameters * self.bits / 8 * _UNQUANTISED_SHARE)
        return sum(
            count * (8 * dtype.itemsize if kind in _PRECISIONS else _bits(kind)) // 8
            for kind, count in self.stored.items()
        )

    def precision(self, dtype: torch.dtype) -> str:
        """Return how the weights are kept, for a message."""
        return self.quantisation or str(dtype).removeprefix("torch.")


def checkpoint_size(
    parameters: int,
    published: Mapping[str, Any],
    folder: Path | None,
    *,
    hub: tuple[str, str | None] | None = None,
) -> CheckpointSize:
    """Return the size of a checkpoint whose config.json is `published`.

    `folder` has its files, as far as they are here; `hub` is its id and revision. Where no header
    can be read the size follows from the number of bits.
    """
    config = quantisation(published)
    if config is None:
        return CheckpointSize(parameters)
    method = str(config.get("quant_method", "quantised"))
    bits = _config_bits(config)
    called = f"{method}, {bits} bits"
    stored = _in_folder(folder) if folder is not None else None
    if stored is None and hub is not None:
        stored = _on_hub(*hub)
    return CheckpointSize(parameters, called, stored, bits)


def quantisation(published: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the `quantization_config` of a config.json, wherever it has it."""
    for part in (published, published.get("text_config"), published.get("llm_config")):
        if isinstance(part, Mapping) and isinstance(part.get("quantization_config"), Mapping):
            found: Mapping[str, Any] = part["quantization_config"]
            return found
    return None


def _config_bits(config: Mapping[str, Any]) -> int:
    for name in ("bits", "w_bit", "weight_bits"):
        if isinstance(config.get(name), int):
            return int(config[name])
    if config.get("load_in_4bit"):
        return 4
    return 8


def _in_folder(folder: Path) -> dict[str, int] | None:
    files = sorted(folder.glob("*.safetensors"))
    index = folder / "model.safetensors.index.json"
    try:
        if index.is_file():
            named = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
            files = [folder / name for name in sorted(named)]
        return _count(entry for file in files for entry in _header(file)) if files else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None  # not (all) downloaded yet


def _header(file: Path) -> Iterable[tuple[str, list[int]]]:
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        if length > _MOST_HEADER:
            raise ValueError(f"{file}: not a safetensors file")
        header = json.loads(opened.read(length))
    return [
        (tensor["dtype"], tensor["shape"])
        for name, tensor in header.items()
        if name != "__metadata__"
    ]


def _on_hub(model: str, revision: str | None) -> dict[str, int] | None:
    from huggingface_hub import get_safetensors_metadata

    try:
        found = get_safetensors_metadata(model, revision=revision)
    except Exception:  # offline, no access, no safetensors: loading itself will say what is wrong
        return None
    return _count(
        (str(tensor.dtype), list(tensor.shape))
        for file in found.files_metadata.values()
        for tensor in file.tensors.values()
    )


def _count(tensors: Iterable[tuple[str, list[int]]]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for kind, shape in tensors:
        elements = 1
        for side in shape:
            elements *= int(side)
        counts[kind] += elements
    return dict(counts)


def _bits(kind: str) -> int:
    """Return the bits of a type of safetensors.

    >>> _bits("I32"), _bits("F8_E4M3"), _bits("BOOL")
    (32, 8, 8)
    """
    found = re.match(r"[A-Z]+(\d+)", kind)
    return int(found[1]) if found else 8
