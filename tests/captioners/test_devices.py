from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from capeval.captioners import devices
from capeval.captioners.devices import is_out_of_memory, place
from capeval.errors import UsageError

GIB = 2**30
SEVEN_BILLION = 8_030_346_528
SMALL = {"small": 500_000_000, "smaller": 250_000_000}

Machine = Callable[..., None]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Make torch report a machine."""

    def set_up(*, gpus: int = 0, gpu_gib: float = 0, cpu_gib: float = 16) -> None:
        def free(device: torch.device) -> int:
            return int((gpu_gib if device.type == "cuda" else cpu_gib) * GIB)

        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
        monkeypatch.setattr(devices, "free_memory", free)

    return set_up


def test_a_gpu_is_taken_where_there_is_one(machine: Machine) -> None:
    machine(gpus=1, gpu_gib=80)
    placement = place("m", SEVEN_BILLION)
    assert (placement.device.type, placement.dtype) == ("cuda", torch.bfloat16)
    assert place("m", SEVEN_BILLION, dtype="float16").dtype == torch.float16


def test_a_small_model_runs_on_the_processor(machine: Machine) -> None:
    machine()
    placement = place("m", 500_000_000)
    assert (placement.device.type, placement.dtype) == ("cpu", torch.float32)


@pytest.mark.parametrize(
    ("set_up", "device", "said"),
    [
        (
            {"cpu_gib": 16},
            "auto",
            (
                "m needs a GPU with about 17 GiB (bfloat16), and this machine shows none; "
                "small would fit"
            ),
        ),
        (
            {"cpu_gib": 64},
            "auto",
            (
                "m needs a GPU with about 17 GiB (bfloat16), and this machine shows none; "
                "small would fit; --device cpu would run it, slowly, in about 34.4 GiB"
            ),
        ),
        (
            {"cpu_gib": 16},
            "cuda",
            (
                "m needs about 17 GiB (bfloat16) on cuda, and this machine shows no cuda device; "
                "small would fit"
            ),
        ),
        (
            {"cpu_gib": 16},
            "cpu",
            "m needs about 34 GiB (float32) on cpu, of which 16.0 GiB are free; small would fit",
        ),
        (
            {"gpus": 1, "gpu_gib": 12},
            "auto",
            "m needs about 17 GiB (bfloat16) on cuda:0, of which 12.0 GiB are free; small would",
        ),
        (
            {"gpus": 1, "gpu_gib": 0.6},
            "cuda",
            "m needs about 17 GiB (bfloat16) on cuda:0, of which 0.6 GiB are free; smaller would",
        ),
        (
            {"cpu_gib": 0.5},
            "auto",
            (
                "m needs a GPU with about 17 GiB (bfloat16), and this machine shows none; "
                "reach it through a server instead (--base-url)"
            ),
        ),
        ({"gpus": 1, "gpu_gib": 80}, "cuda:3", "--device cuda:3: this machine shows 1 CUDA"),
        ({}, "mps", "m needs about 17 GiB (bfloat16) on mps, and this machine shows no mps"),
    ],
)
def test_what_does_not_fit_says_what_would(
    set_up: dict[str, float], device: str, said: str, machine: Machine
) -> None:
    machine(**set_up)
    with pytest.raises(UsageError) as told:
        place("m", SEVEN_BILLION, device=device, alternatives=SMALL)
    assert str(told.value).startswith(said)
    assert told.value.exit_code == 2


def test_free_memory_of_this_machine_is_known() -> None:
    free = devices.free_memory(torch.device("cpu"))
    assert free is not None
    assert free > 0


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (MemoryError(), True),
        (RuntimeError("MPS backend out of memory (MPS allocated: 9 GB)"), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), True),
        (
            RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
            True,
        ),
        (RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED"), False),
        (RuntimeError("CUDA error: device-side assert triggered"), False),
        (RuntimeError("shape mismatch"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_running_out_of_memory_is_recognised(error: Exception, is_one: bool) -> None:
    assert is_out_of_memory(error) is is_one
