import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from capeval.captioners import loading
from capeval.errors import UsageError
from capeval.local_models import ModelSize, Placement
from tests.captioners import tiny
from tests.captioners.tiny import Checkpoint


def edit_config(folder: Path, **config: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config), encoding="utf-8")


def test_a_model_that_is_not_to_be_had_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("time.sleep", lambda _: None)
    for offline in (True, False):
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", offline)
        with pytest.raises(UsageError, match=r"^nobody/nothing: the hub cannot be reached, ") as e:
            tiny.load("nobody/nothing")
        assert "\n" not in str(e.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"cannot be loaded: .*config\.json"):
        tiny.load(tmp_path / "empty")


def test_code_from_a_repository_never_runs(checkpoint: Checkpoint, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    folder = Path(shutil.copytree(checkpoint("llava-onevision"), tmp_path / "own-code"))
    edit_config(
        folder,
        model_type="their_own",
        auto_map={
            "AutoConfig": "own.Config",
            "AutoModelForImageTextToText": "own.Model",
        },
    )
    (folder / "own.py").write_text(f"open({str(ran)!r}, 'w')\n", encoding="utf-8")
    with pytest.raises(UsageError, match="cannot be loaded"):
        tiny.load(folder)
    assert not ran.exists()


def lose_a_tensor(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors[next(name for name in tensors if "mlp" in name)]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def spoil(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


def other(**config: Any) -> Callable[[Path], object]:
    return lambda folder: edit_config(folder, **config)


NO_WEIGHTS = spoil("model.safetensors", b"")
HALF_OF_THE_WEIGHTS = spoil("model.safetensors", b"\x10\0\0\0\0\0\0\0{")
HALF_OF_THE_TOKENS = spoil("tokenizer.json", b'{"version": ')
LACKING = r"its checkpoint lacks 1 tensors, such as .*mlp"


@pytest.mark.parametrize(
    ("family", "damage", "said"),
    [
        ("qwen2-vl", HALF_OF_THE_WEIGHTS, "model"),
        ("qwen2-vl", HALF_OF_THE_TOKENS, "model"),
        ("qwen2-vl", spoil("adapter_config.json", b"{}"), "merge it first"),
        ("qwen2-vl", lose_a_tensor, LACKING),
        ("llava-video", NO_WEIGHTS, "model"),
        ("llava-video", other(num_hidden_layers=1), "more layers than its config.json states"),
        ("llava-video", other(mm_hidden_size=768), "mm_hidden_size: 768"),
        ("llava-video", other(mm_vision_tower="openai/clip"), "mm_vision_tower: 'openai/clip"),
        ("llava-video", other(mm_newline_position="one_token"), "mm_newline_position: 'one_token'"),
    ],
)
def test_a_damaged_folder_is_refused_in_one_line(
    family: str,
    damage: Callable[[Path], object],
    said: str,
    checkpoint: Checkpoint,
    tmp_path: Path,
) -> None:
    folder = Path(shutil.copytree(checkpoint(family), tmp_path / "model"))
    damage(folder)
    with pytest.raises(UsageError, match=said) as refused:
        tiny.load(folder)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("family", "options", "said"),
    [
        ("llava-onevision", {"preset": "tuna"}, "it has no preset 'tuna'"),
        ("llava-video", {"preset": "paper"}, "preset 'paper': must be one of published, tuna"),
        # The benchmark has no omni model.
        ("qwen2.5-omni", {"preset": "tuna"}, "preset 'tuna': must be one of published"),
        ("llava-onevision", {"device": "tpu"}, "--device tpu: must be one of auto, cuda, mps, cpu"),
    ],
)
def test_wrong_options_are_refused(
    family: str, options: dict[str, Any], said: str, checkpoint: Checkpoint
) -> None:
    with pytest.raises(UsageError, match=said):
        tiny.load(checkpoint(family), **options)


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}


@pytest.mark.parametrize("family", ["llava-video", "qwen2-vl"])
def test_a_model_that_fits_on_no_gpu_is_loaded_by_accelerates_map(
    family: str, checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(checkpoint(family), tmp_path / "model"))
    edit_config(folder, quantization_config=AWQ)
    sizes: list[ModelSize] = []
    seen: dict[str, Any] = {}
    room = {0: 10**9, 1: 2 * 10**9}

    def placed(_: str, size: ModelSize, **__: Any) -> Placement:
        sizes.append(size)
        return Placement(torch.device("cuda", 0), torch.float32, room)

    def remember(*_: Any, **arguments: Any) -> Any:
        seen.update(arguments)
        raise UsageError("no further")

    with monkeypatch.context() as patch:
        patch.setattr(loading, "place", placed)
        patch.setattr(PreTrainedModel, "from_pretrained", remember)
        with pytest.raises(UsageError, match="no further"):
            tiny.load(folder)
    assert (seen["device_map"], seen["max_memory"]) == ("auto", room)
    # Packed weights count as they are packed.
    (size,) = sizes
    assert size.needed(torch.bfloat16).endswith(" GiB (awq)")
    assert size.bytes(torch.bfloat16) == size.parameters // 2
    if family == "llava-video":
        return
    # Without the package that unpacks them, one line says which it is.
    with pytest.raises(UsageError, match=r"cannot be loaded: .*gptqmodel"):
        tiny.load(folder)
