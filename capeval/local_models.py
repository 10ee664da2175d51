"""Models in this process: required packages, checkpoints on the hub or in a folder, and devices."""

from __future__ import annotations

import gc
import hashlib
import importlib
import json
import os
import pickle
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capeval.errors import CapevalError, MissingExtra, UsageError
from capeval.text import describe, one_line

if TYPE_CHECKING:
    import torch


def require_packages(names: Sequence[str], extra: str) -> None:
    """Import the packages that a model needs; raises `MissingExtra`, `UsageError`."""
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


# ---- Checkpoints ---------------------------------------------------------------------------------

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
# Configuration, tokenizer (also sentencepiece and tiktoken) and processor; not README and pictures.
_OTHER = (".json", ".jinja", ".txt", ".model", ".tiktoken")
_UNUSED = frozenset(
    {"trainer_state.json", "training_args.bin", "all_results.json", "train_results.json"}
    | {"optimizer.pt", "scheduler.pt", "eval_results.json", "requirements.txt", "LICENSE.txt"}
)
# Bytes. Less is read in a few seconds.
_WORTH_A_NOTICE = 2 << 30
# Hashing is limited by the disk; more threads would only compete for it.
_THREADS = 4
_PREFERRED = ("model.safetensors", "model.safetensors.index.json")


def folder_hash(folder: Path, *, on_notice: Callable[[str], None] = lambda _: None) -> str:
    """Return the SHA-256 of the names and contents of a model's files in `folder`.

    Raises `UsageError` if a file cannot be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     _ = Path(name, "config.json").write_text("{}")
    ...     folder_hash(Path(name))[:12]
    'bef6acf233bd'
    """

    def hashed(file: Path) -> str:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()

    try:
        files = model_files(folder)
        size = sum(file.stat().st_size for file in files)
        if size > _WORTH_A_NOTICE:
            on_notice(f"Reading {size / 2**30:.1f} GiB of weights in {folder} to identify them")
        with ThreadPoolExecutor(_THREADS) as pool:
            hashes = list(pool.map(hashed, files))
    except OSError as error:
        raise UsageError(f"{error.filename or folder}: cannot be read ({error.strerror})") from None
    listed = "".join(f"{file.name}\0{one}\n" for file, one in zip(files, hashes, strict=True))
    # A name need not be UTF-8.
    return hashlib.sha256(os.fsencode(listed)).hexdigest()


def model_files(folder: Path) -> list[Path]:
    """Return the files of `folder` from which a model, its tokenizer or processor is loaded."""
    inside = [
        path
        for path in folder.iterdir()
        if path.suffix in _WEIGHTS + _OTHER and path.name not in _UNUSED
        if not path.name.startswith(".") and path.is_file()
    ]
    if any(path.name in _PREFERRED for path in inside):
        # Many checkpoints have the same weights in another format as well.
        inside = [path for path in inside if path.suffix not in _WEIGHTS[1:]]
    # Further chat templates have a folder of their own.
    return sorted([*inside, *(folder / "additional_chat_templates").glob("*.jinja")])


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint: a hub id at a commit, or a folder.

    `published` is its config.json, and `folder` the place of that file; `revision` is the commit,
    so that all files are of the same one, and None for a folder.
    """

    model: str
    published: Mapping[str, Any]
    folder: Path
    revision: str | None

    @property
    def is_local(self) -> bool:
        return Path(self.model).is_dir()

    @property
    def arguments(self) -> dict[str, Any]:
        return {"revision": self.revision, "trust_remote_code": False}

    def size(self, meta: Any) -> ModelSize:
        parameters = sum(parameter.numel() for parameter in meta.parameters())
        packed = quantisation(self.published)
        if packed is None:
            return ModelSize(parameters)
        method = str(packed.get("quant_method", "quantised"))
        wide = "fp8" in method or packed.get("load_in_8bit")
        return ModelSize(parameters, method, int(packed.get("bits") or (8 if wide else 4)))

    def identity(self, on_notice: Callable[[str], None]) -> dict[str, str] | str:
        """Return the identity of the weights: a hash, or the hub's id, whose commit is known."""
        if not self.is_local:
            return self.model
        return {
            "folder": self.folder.resolve().name,
            "sha256": folder_hash(self.folder, on_notice=on_notice),
        }


def quantisation(published: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the `quantization_config` of a config.json or of its text model."""
    for part in (published, published.get("text_config")):
        if isinstance(part, Mapping) and isinstance(part.get("quantization_config"), Mapping):
            found: Mapping[str, Any] = part["quantization_config"]
            return found
    return None


def find_checkpoint(model: str, revision: str | None) -> Checkpoint:
    """Return the checkpoint of a hub id or a folder; raises `OSError` or `ValueError`."""
    from transformers.utils import cached_file
    from transformers.utils.hub import extract_commit_hash

    is_local = Path(model).is_dir()
    file = cached_file(model, "config.json", revision=None if is_local else revision)
    if file is None:
        raise OSError("it has no config.json")
    loaded = json.loads(Path(file).read_text(encoding="utf-8"))
    commit = None if is_local else extract_commit_hash(str(file), None) or revision
    return Checkpoint(model, loaded, Path(file).parent, commit)


def check_complete(model: str, info: Mapping[str, Any]) -> None:
    # Missing weights would be initialised at random, with only a warning.
    if missing := sorted(info.get("missing_keys") or ()):
        raise UsageError(
            f"{model}: its checkpoint lacks {len(missing)} tensors, such as {missing[0]}"
        )


def check_vocabulary(model: str, tokenizer: Any) -> None:
    # Without its files transformers makes an empty one, which reads every text alike.
    if not set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens):
        raise UsageError(f"{model}: its tokenizer has no vocabulary (tokenizer.json is missing)")


@contextmanager
def one_line_errors(model: str) -> Iterator[None]:
    """Turn any error of transformers about a checkpoint into one line; hide its messages."""
    import transformers

    transformers.logging.set_verbosity_error()
    if not sys.stderr.isatty():
        # An error is then one line.
        transformers.logging.disable_progress_bar()
    try:
        yield
    except CapevalError:
        raise
    except Exception as error:
        # A damaged file or a malformed field can raise anything.
        if isinstance(error, OSError) and "couldn't connect to" in str(error):
            raise UsageError(
                f"{model}: the hub cannot be reached, and the model was not downloaded before; "
                "check the connection (and HF_ENDPOINT, if it is set), or name a folder as "
                f"./FOLDER ({describe(error, 80)})"
            ) from error
        message = str(error) if isinstance(error, OSError | ValueError | ImportError) else ""
        if isinstance(error, pickle.UnpicklingError):
            # torch's message advises to run the code in the file.
            message = "its weights are damaged, or contain code, which is not run"
        message = one_line(message or describe(error, 220), 220)
        raise UsageError(f"{model}: cannot be loaded: {message}") from error


# ---- Devices and their memory --------------------------------------------------------------------

_GIB = 2**30
MEMORY_PER_WEIGHT = 1.15
"""Memory per byte of weights, with the cache and activations of a 32-frame video."""
# A larger model is not run on a CPU unless requested: a caption would take minutes.
_MOST_PARAMETERS_UNASKED = 1_000_000_000
_NAMES = ("auto", "cuda", "mps", "cpu")


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
        return self.parameters * (self.bits if self.quantisation else 8 * dtype.itemsize) // 8

    def needed(self, dtype: torch.dtype) -> str:
        gib = self.bytes(dtype) * MEMORY_PER_WEIGHT / _GIB
        how = self.quantisation or str(dtype).removeprefix("torch.")
        return f"about {gib:.{0 if gib >= 10 else 1}f} GiB ({how})"


@dataclass(frozen=True)
class Placement:
    """The device that gets the inputs, and the precision of a model.

    `room` is how many bytes of weights each GPU takes, for a model on several.
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
    """Return the placement of a model on the device of `one_device`; raises `UsageError`.

    `dtype` auto is bfloat16, on a CPU float32. With auto and cuda, a model that fits on no
    single GPU is spread over all of them. `serve` is a command for the message.
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
            f"{model} needs {size.needed(precision)} on {where}, and only {total / _GIB:.1f} GiB "
            f"are free; {_advice(serve)}"
        )
    room = {gpu: int((memory or 0) / MEMORY_PER_WEIGHT) for gpu, memory in enumerate(free)}
    return Placement(devices[0], precision, room)


def check_spread(model: str, placement: Placement, parts: Mapping[str, Any]) -> None:
    """Raise `UsageError` if layers of a model are on no GPU; `parts` is its device map."""
    # accelerate offloads what does not fit, and a caption would take hours.
    if placement.room and {"cpu", "disk"} & set(map(str, parts.values())):
        raise UsageError(
            f"{model}: its layers do not fit on {len(placement.room)} GPUs; {_advice(None)}"
        )


def _advice(serve: str | None) -> str:
    if serve:
        return f"serve it on a larger machine (`{serve}`), and name the server with --base-url"
    return "use larger or more GPUs, or a server that runs it (--base-url)"


def one_device(device: str = "auto") -> torch.device:
    """Return the device: auto (the first GPU, mps, or the CPU), cuda, cuda:N, mps or cpu."""
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
    """Return the free bytes on `device`, or None if unknown."""
    import torch

    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if device.type == "mps":
        return int(torch.mps.recommended_max_memory()) - int(torch.mps.current_allocated_memory())
    meminfo = Path("/proc/meminfo")
    available = meminfo.is_file() and re.search(r"MemAvailable: *(\d+)", meminfo.read_text("ascii"))
    return int(available[1]) * 1024 if available else None


def is_out_of_memory(error: BaseException) -> bool:
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    # The words of torch, cuBLAS (also cuSOLVER and cuSPARSE) and cuDNN.
    signs = r"out of memory|can't allocate memory|status_alloc_failed|(device|host)_allocation_fail"
    return isinstance(error, RuntimeError) and re.search(signs, str(error).lower()) is not None


def release(device: torch.device) -> None:
    import torch

    gc.collect()
    # A device whose context is lost refuses this too; that must not hide why the run stopped.
    with suppress(RuntimeError):
        if device.type == "cuda":
            torch.cuda.empty_cache()
        elif device.type == "mps":
            torch.mps.empty_cache()
