from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from capeval.errors import UsageError
from capeval.local_models import devices
from capeval.local_models.devices import ModelSize, Placement, check_spread, is_out_of_memory, place

GIB = 2**30
SEVEN_BILLION = ModelSize(8_030_346_528)
SERVE = "vllm serve ORG/M --tensor-parallel-size 2"
SERVED = f"start a server of it where there is enough (`{SERVE}`) and name it with --base-url"

Machine = Callable[..., None]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Make torch report a machine."""

    def set_up(*, gpus: int = 0, gpu_gib: float | Sequence[float] = 0, cpu_gib: float = 16) -> None:
        each = [gpu_gib] * gpus if isinstance(gpu_gib, int | float) else [*gpu_gib]

        def free(device: torch.device) -> int:
            return int((each[device.index] if device.type == "cuda" else cpu_gib) * GIB)

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
    with pytest.raises(UsageError, match="dtype int4: must be auto or one of"):
        place("m", SEVEN_BILLION, dtype="int4")


NONE = "m needs a GPU with about 17 GiB (bfloat16), and this machine has none; "


@pytest.mark.parametrize(
    ("set_up", "device", "said"),
    [
        ({"cpu_gib": 64}, "auto", f"{NONE}{SERVED}; --device cpu is slow"),
        ({}, "cuda", "--device cuda: this machine has no cuda device; use --device cpu"),
        ({"gpus": 1, "gpu_gib": 80}, "cuda:3", "--device cuda:3: this machine has 1 CUDA"),
        (
            {"cpu_gib": 16},
            "cpu",
            f"m needs about 34 GiB (float32) on cpu, of which 16.0 GiB are free; {SERVED}",
        ),
        (
            {"gpus": 2, "gpu_gib": [8, 7]},
            "auto",
            "m needs about 17 GiB (bfloat16) on 2 GPUs together, of which 15.0 GiB are free; "
            + SERVED,
        ),
        (
            {"gpus": 2, "gpu_gib": [8, 70]},
            "cuda:0",
            f"m needs about 17 GiB (bfloat16) on cuda:0, of which 8.0 GiB are free; {SERVED}",
        ),
    ],
)
def test_what_does_not_fit_says_what_would(
    set_up: dict[str, float], device: str, said: str, machine: Machine
) -> None:
    machine(**set_up)
    with pytest.raises(UsageError) as told:
        place("m", SEVEN_BILLION, device=device, serve=SERVE)
    assert str(told.value).startswith(said)
    assert told.value.exit_code == 2


@pytest.mark.parametrize(
    ("gib", "size", "where", "gpus"),
    [
        ([80, 80], SEVEN_BILLION, "cuda:0", 0),
        # Another program has the first.
        ([2, 80], SEVEN_BILLION, "cuda:1", 0),
        ([10, 10], SEVEN_BILLION, "cuda:0, cuda:1", 2),
        ([75, 75], ModelSize(72_700_000_000, "awq", 4), "cuda:0", 0),
        ([80] * 4, ModelSize(73_000_000_000), "cuda:0, cuda:1, cuda:2, cuda:3", 4),
    ],
)
def test_what_fits_on_no_gpu_is_spread_over_all(
    gib: list[float], size: ModelSize, where: str, gpus: int, machine: Machine
) -> None:
    machine(gpus=len(gib), gpu_gib=gib)
    placement = place("m", size)
    assert str(placement) == where
    assert len(placement.room) == gpus
    assert all(room < gib[gpu] * GIB for gpu, room in placement.room.items())


def test_layers_that_are_on_no_gpu_are_refused() -> None:
    spread = Placement(torch.device("cuda", 0), torch.bfloat16, {0: 10, 1: 10})
    check_spread("m", spread, {"vision": 0, "layers.0": 1})
    with pytest.raises(UsageError, match="m: its layers do not fit on 2 GPUs; use larger"):
        check_spread("m", spread, {"vision": 0, "layers.0": 1, "layers.1": "disk"})


def test_a_dead_device_can_be_released(monkeypatch: pytest.MonkeyPatch) -> None:
    def dead() -> None:
        raise RuntimeError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(torch.cuda, "empty_cache", dead)
    devices.release(torch.device("cuda", 0))


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (MemoryError(), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), True),
        (
            RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
            True,
        ),
        (RuntimeError("CUDA error: device-side assert triggered"), False),
        (RuntimeError("shape mismatch"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_running_out_of_memory_is_recognised(error: Exception, is_one: bool) -> None:
    assert is_out_of_memory(error) is is_one
