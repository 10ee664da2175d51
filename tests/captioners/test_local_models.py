from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from capeval import local_models
from capeval.errors import UsageError
from capeval.local_models import (
    ModelSize,
    Placement,
    check_spread,
    folder_hash,
    is_out_of_memory,
    model_files,
    place,
)
from tests.captioners import tiny
from tests.captioners.tiny import Checkpoint

GIB = 2**30
SEVEN_BILLION = ModelSize(8_030_346_528)
SERVE = "vllm serve ORG/M --tensor-parallel-size 2"
SERVED = f"serve it on a larger machine (`{SERVE}`), and name the server with --base-url"

Machine = Callable[..., None]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    def set_up(*, gpus: int = 0, gpu_gib: float | Sequence[float] = 0, cpu_gib: float = 16) -> None:
        each = [gpu_gib] * gpus if isinstance(gpu_gib, int | float) else [*gpu_gib]

        def free(device: torch.device) -> int:
            return int((each[device.index] if device.type == "cuda" else cpu_gib) * GIB)

        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
        monkeypatch.setattr(local_models, "free_memory", free)

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
            f"m needs about 34 GiB (float32) on cpu, and only 16.0 GiB are free; {SERVED}",
        ),
        (
            {"gpus": 2, "gpu_gib": [8, 7]},
            "auto",
            "m needs about 17 GiB (bfloat16) on 2 GPUs together, and only 15.0 GiB are free; "
            + SERVED,
        ),
        (
            {"gpus": 2, "gpu_gib": [8, 70]},
            "cuda:0",
            f"m needs about 17 GiB (bfloat16) on cuda:0, and only 8.0 GiB are free; {SERVED}",
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


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), True),
        (RuntimeError("CUDA error: device-side assert triggered"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_running_out_of_memory_is_recognised(error: Exception, is_one: bool) -> None:
    assert is_out_of_memory(error) is is_one


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    made.mkdir()
    for name in (
        *("config.json", "generation_config.json", "preprocessor_config.json", "merges.txt"),
        *("tokenizer.json", "chat_template.jinja", "model-1.safetensors", "model-2.safetensors"),
        *("README.md", "trainer_state.json", "pytorch_model.bin", ".hidden.json"),
        "model.safetensors.index.json",
    ):
        (made / name).write_text(f"content of {name}")
    return made


def test_everything_that_is_loaded_counts_and_nothing_else(folder: Path) -> None:
    before = folder_hash(folder)
    used = {path.name for path in model_files(folder)}
    assert used == {
        *("config.json", "generation_config.json", "preprocessor_config.json", "merges.txt"),
        *("tokenizer.json", "chat_template.jinja", "model-1.safetensors", "model-2.safetensors"),
        "model.safetensors.index.json",
    }
    for path in sorted(folder.iterdir()):
        content = path.read_text()
        path.write_text(f"{content}!")
        assert (folder_hash(folder) != before) == (path.name in used), path.name
        path.write_text(content)
        assert folder_hash(folder) == before
    (folder / "model-1.safetensors").rename(folder / "model-3.safetensors")
    assert folder_hash(folder) != before


def test_a_hub_models_weights_are_its_commit(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    model, commits = tmp_path / "models--org--m", ["a" * 40, "b" * 40]
    (model / "snapshots").mkdir(parents=True)
    for commit in commits:
        (model / "snapshots" / commit).symlink_to(checkpoint("qwen2-vl"))
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(commits[1])
    newest, pinned = tiny.load("org/m"), tiny.load("org/m", revision=commits[0])
    assert [one.revision for one in (pinned, newest)] == commits
    assert [one.settings["weights"] for one in (pinned, newest)] == ["org/m"] * 2
