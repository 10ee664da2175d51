"""Whether a model can run in this process: the packages it needs, the device, and its memory."""

from __future__ import annotations

import gc
import importlib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capeval.errors import MissingExtra, UsageError
from capeval.text import one_line

if TYPE_CHECKING:
    import torch

_GIB = 2**30
MEMORY_PER_WEIGHT = 1.15
"""Weights, and what one video of 32 frames needs in addition: its cache and its activations."""
# A larger model is not run on a CPU unless requested: a caption would take minutes.
_MOST_PARAMETERS_UNASKED = 1_000_000_000
_NAMES = ("auto", "cuda", "mps", "cpu")


def require_packages(names: Sequence[str], extra: str) -> None:
    """Import what running a model in this process needs; raises `MissingExtra`, `UsageError`."""
    for name in names:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is not None and error.name.split(".")[0] not in names:
                raise
            raise MissingExtra(f"running a model in this process needs {name}", extra) from error
        except (RuntimeError, OSError, AttributeError) as error:
            # A library built for another torch fails while its operators are registered.
            raise UsageError(
                f"{name} {_version(name)} does not work with torch {_version('torch')} "
                f"({one_line(str(error), 80)}): install versions of torch and {name} "
                "that match, both from the same index"
            ) from error


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(unknown)"


@dataclass(frozen=True)
class ModelSize:
    """The number of parameters, and how they are kept: in a precision, or packed.

    Packed weights (AWQ, GPTQ, bitsandbytes, fp8) stay as they are stored; their size is an
    estimate, because some layers are not packed.

    >>> import torch
    >>> ModelSize(8_000).bytes(torch.bfloat16), ModelSize(8_000, "awq", 4).bytes(torch.bfloat16)
    (16000, 4000)
    """

    parameters: int
    quantisation: str | None = None
    bits: int = 0

    def bytes(self, dtype: torch.dtype) -> int:
        """Return the memory of the weights alone."""
        return self.parameters * (self.bits if self.quantisation else 8 * dtype.itemsize) // 8

    def needed(self, dtype: torch.dtype) -> str:
        """Return the memory that a model needs, for a message."""
        gib = self.bytes(dtype) * MEMORY_PER_WEIGHT / _GIB
        how = self.quantisation or str(dtype).removeprefix("torch.")
        # Not "of GPU memory": the message is also used for a CPU.
        return f"about {gib:.{0 if gib >= 10 else 1}f} GiB ({how})"


@dataclass(frozen=True)
class Placement:
    """Where a model is loaded, and with which precision.

    `device` gets the inputs. `room` is empty for a model on one device; else it is how many bytes
    of weights each GPU takes.
    """

    device: torch.device
    dtype: torch.dtype
    room: Mapping[int, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return ", ".join(f"cuda:{gpu}" for gpu in self.room) or str(self.device)


def place(
    model: str,
    size: ModelSize,
    *,
    device: str = "auto",
    dtype: str = "auto",
    serve: str | None = None,
) -> Placement:
    """Return where `model` runs, whose weights have this `size`; raises `UsageError`.

    `device` is as for `one_device`; `dtype` auto is bfloat16, on a processor float32. With auto and
    cuda a model that fits on no single GPU is spread over all of them. `serve` is the command that
    starts a server of it, for the message.
    """
    import torch

    chosen = one_device(device)
    precision = _precision(dtype, chosen.type)
    if chosen.type == "cpu" and device == "auto" and size.parameters > _MOST_PARAMETERS_UNASKED:
        raise UsageError(
            f"{model} needs a GPU with {size.needed(torch.bfloat16)}, and this machine has "
            f"none; {_advice(serve)}; --device cpu is slow"
        )
    devices = [chosen]
    if chosen.type == "cuda" and ":" not in device:
        devices = [torch.device("cuda", gpu) for gpu in range(torch.cuda.device_count())]
    needed = size.bytes(precision) * MEMORY_PER_WEIGHT
    free = [free_memory(one) for one in devices]
    for one, memory in zip(devices, free, strict=True):
        if memory is None or needed <= memory:
            return Placement(one, precision)
    total = sum(memory or 0 for memory in free)
    if len(devices) == 1 or needed > total:
        where = str(chosen) if len(devices) == 1 else f"{len(devices)} GPUs together"
        raise UsageError(
            f"{model} needs {size.needed(precision)} on {where}, of which {total / _GIB:.1f} GiB "
            f"are free; {_advice(serve)}"
        )
    room = {gpu: int((memory or 0) / MEMORY_PER_WEIGHT) for gpu, memory in enumerate(free)}
    return Placement(devices[0], precision, room)


def check_spread(model: str, placement: Placement, parts: Mapping[str, Any]) -> None:
    """Raise `UsageError` where layers of a model are on no GPU; `parts` is its device map."""
    # accelerate offloads what does not fit, and a caption would take hours.
    if placement.room and {"cpu", "disk"} & set(map(str, parts.values())):
        raise UsageError(
            f"{model}: its layers do not fit on {len(placement.room)} GPUs; {_advice(None)}"
        )


def _advice(serve: str | None) -> str:
    if serve:
        return f"start a server of it where there is enough (`{serve}`) and name it with --base-url"
    return "use larger or more GPUs, or a server that runs it (--base-url)"


def one_device(device: str = "auto") -> torch.device:
    """Return the device that `device` means: auto, cuda, cuda:N, mps or cpu; raises `UsageError`.

    auto is the first GPU, mps, or the CPU.
    """
    import torch

    kind, colon, number = device.partition(":")
    if kind not in _NAMES or (colon and (kind != "cuda" or not number.isdecimal())):
        raise UsageError(f"--device {device}: must be one of {', '.join(_NAMES)}, or cuda:N")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    has_mps = torch.backends.mps.is_available()
    if kind == "auto":
        return torch.device("cuda:0" if count else "mps" if has_mps else "cpu")
    if (kind == "cuda" and not count) or (kind == "mps" and not has_mps):
        raise UsageError(f"--device {device}: this machine has no {kind} device; use --device cpu")
    if kind == "cuda" and int(number or 0) >= count:
        raise UsageError(f"--device {device}: this machine has {count} CUDA device(s)")
    return torch.device("cuda", int(number or 0)) if kind == "cuda" else torch.device(kind)


def _precision(dtype: str, kind: str) -> torch.dtype:
    import torch

    if dtype == "auto":
        return torch.float32 if kind == "cpu" else torch.bfloat16
    known = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
    if dtype not in known:
        raise UsageError(f"dtype {dtype}: must be auto or one of {', '.join(known)}")
    return known[dtype]


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
    return None


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that a device or the machine ran out of memory."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    # What torch, cuBLAS (also cuSOLVER and cuSPARSE) and cuDNN say.
    signs = r"out of memory|can't allocate memory|status_alloc_failed|(device|host)_allocation_fail"
    return isinstance(error, RuntimeError) and re.search(signs, str(error).lower()) is not None


def release(device: torch.device) -> None:
    """Return unused memory to `device`."""
    import torch

    gc.collect()
    # A device whose context is lost refuses this too; that must not hide why the run stopped.
    with suppress(RuntimeError):
        if device.type == "cuda":
            torch.cuda.empty_cache()
        elif device.type == "mps":
            torch.mps.empty_cache()
