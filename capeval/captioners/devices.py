"""Whether a model can run in this process: the packages it needs, the device, and its memory."""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from capeval.errors import MissingExtra, UsageError
from capeval.text import one_line

if TYPE_CHECKING:
    import torch


SMALL_MODELS: Mapping[str, int] = {
    "hf:HuggingFaceTB/SmolVLM2-2.2B-Instruct": 2_246_784_880,
    "hf:HuggingFaceTB/SmolVLM2-500M-Video-Instruct": 507_482_304,
    "hf:HuggingFaceTB/SmolVLM2-256M-Video-Instruct": 256_484_928,
}
"""Models for small machines and their numbers of parameters."""

_GIB = 2**30
# Weights, and what one video of 32 frames needs in addition: its cache and its activations.
_MEMORY_PER_WEIGHT = 1.15
# A larger model is not run on a CPU unless requested: a caption would take minutes.
_MOST_PARAMETERS_UNASKED = 1_000_000_000
_NAMES = ("auto", "cuda", "mps", "cpu")
_NEEDED = ("torch", "torchvision", "transformers", "accelerate", "PIL")


def require_generate_extra() -> None:
    """Import what running a model in this process needs; raises `MissingExtra`, `UsageError`."""
    for name in _NEEDED:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is not None and error.name.split(".")[0] not in _NEEDED:
                raise
            raise MissingExtra(f"running a model in this process needs {name}") from error
        except (RuntimeError, OSError, AttributeError) as error:
            # A library built for another torch fails while its operators are registered.
            raise UsageError(
                f"{name} {_version(name)} does not work with torch {_version('torch')} "
                f"({one_line(str(error), 80)}): install a torch and a torchvision that "
                "belong together, both from one index"
            ) from error


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(unknown)"


@dataclass(frozen=True)
class Placement:
    """The device and the precision with which a model is loaded."""

    device: torch.device
    dtype: torch.dtype


def place(
    model: str,
    parameters: int,
    *,
    device: str = "auto",
    dtype: str = "auto",
    alternatives: Mapping[str, int] = SMALL_MODELS,
) -> Placement:
    """Return where `model`, which has so many `parameters`, runs; raises `UsageError`.

    `device` is auto, cuda, mps or cpu, or one of several ("cuda:1"); `dtype` auto is bfloat16, on a
    processor float32. The message names those of the smaller `alternatives` that would fit.
    """
    import torch

    kind = device.split(":", maxsplit=1)[0]
    if kind not in _NAMES:
        raise UsageError(f"--device {device}: must be one of {', '.join(_NAMES)}")
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    asked = kind
    if kind == "auto":
        kind = next((name for name, there in present.items() if there), "cpu")
    chosen = torch.device(kind if asked == "auto" else device)
    if kind == "cuda" and chosen.index is None:
        chosen = torch.device("cuda", 0)
    precision = _precision(dtype, kind)

    if not present.get(kind, True):
        raise UsageError(
            f"{model} needs {_memory(parameters, precision)} on {kind}, and this machine shows no "
            f"{kind} device; {_advice('cpu', parameters, alternatives)}"
        )
    if kind == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
        raise UsageError(
            f"--device {device}: this machine shows {torch.cuda.device_count()} CUDA device(s)"
        )
    if asked == "auto" and kind == "cpu" and parameters > _MOST_PARAMETERS_UNASKED:
        raise UsageError(
            f"{model} needs a GPU with {_memory(parameters, torch.bfloat16)}, and this machine "
            f"shows none; {_advice('cpu', parameters, alternatives)}"
        )
    needed, free = _bytes(parameters, precision), free_memory(chosen)
    if free is not None and needed > free:
        raise UsageError(
            f"{model} needs {_memory(parameters, precision)} on {chosen}, of which "
            f"{free / _GIB:.1f} GiB are free; {_advice(str(chosen), parameters, alternatives)}"
        )
    return Placement(chosen, precision)


def _precision(dtype: str, kind: str) -> torch.dtype:
    import torch

    if dtype == "auto":
        return torch.float32 if kind == "cpu" else torch.bfloat16
    known = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
    if dtype not in known:
        raise UsageError(f"dtype {dtype}: must be auto or one of {', '.join(known)}")
    return known[dtype]


def _bytes(parameters: int, dtype: torch.dtype) -> float:
    return parameters * dtype.itemsize * _MEMORY_PER_WEIGHT


def _memory(parameters: int, dtype: torch.dtype) -> str:
    needed = _bytes(parameters, dtype) / _GIB
    # Not "of GPU memory": the message is also used for a CPU.
    return f"about {needed:.{0 if needed >= 10 else 1}f} GiB ({str(dtype).split('.')[1]})"


def _advice(device: str, parameters: int, alternatives: Mapping[str, int]) -> str:
    import torch

    target = torch.device(device)
    precision = _precision("auto", target.type)
    free = free_memory(target)
    slow = target.type == "cpu"
    own = _bytes(parameters, precision)
    fits = [
        name
        for name, size in sorted(alternatives.items(), key=lambda item: -item[1])
        if size < parameters and (free is None or _bytes(size, precision) <= free)
    ]
    advice = [f"{name} would fit" for name in fits[:1]]
    if slow and (free is None or own <= free):
        advice.append(f"--device cpu would run it, slowly, in about {own / _GIB:.1f} GiB")
    return "; ".join(advice) or "reach it through a server instead (--base-url)"


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that are free on `device`, or None if that is unknown."""
    import torch

    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if device.type == "mps":
        return int(torch.mps.recommended_max_memory()) - int(torch.mps.current_allocated_memory())
    meminfo = Path("/proc/meminfo")
    if meminfo.is_file():
        for line in meminfo.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that a device or the machine ran out of memory."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    message = str(error).lower()
    return isinstance(error, RuntimeError) and any(sign in message for sign in _OUT_OF_MEMORY)


# What torch, cuBLAS (also cuSOLVER and cuSPARSE) and cuDNN say.
_OUT_OF_MEMORY = (
    *("out of memory", "can't allocate memory", "status_alloc_failed"),
    *("device_allocation_failed", "host_allocation_failed"),
)


def release(device: torch.device) -> None:
    """Return unused memory to `device`."""
    import torch

    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()
