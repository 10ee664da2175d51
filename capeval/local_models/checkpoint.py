"""A checkpoint on the hub or in a folder: its configuration, size, identity and completeness."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError
from transformers.utils import cached_file
from transformers.utils.hub import extract_commit_hash

from capeval.errors import CapevalError, UsageError
from capeval.local_models.devices import ModelSize
from capeval.text import describe, one_line

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
# Configuration, tokenizer (also sentencepiece and tiktoken) and processor; not README and pictures.
_OTHER = (".json", ".jinja", ".txt", ".model", ".tiktoken")
# Left by training; nothing is loaded from them.
_UNUSED = frozenset(
    {"trainer_state.json", "training_args.bin", "all_results.json", "train_results.json"}
    | {"optimizer.pt", "scheduler.pt", "eval_results.json", "requirements.txt", "LICENSE.txt"}
)
# Less is read in a few seconds.
_WORTH_A_NOTICE = 2 << 30
# Hashing is limited by the disk; more threads would only compete for it.
_THREADS = 4
# Those that transformers looks for first.
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
    try:
        files = model_files(folder)
        size = sum(file.stat().st_size for file in files)
        if size > _WORTH_A_NOTICE:
            on_notice(f"Reading {size / 2**30:.1f} GiB of weights in {folder} to identify them")
        with ThreadPoolExecutor(_THREADS) as pool:
            hashes = list(pool.map(_file_hash, files))
    except OSError as error:
        raise UsageError(f"{error.filename or folder}: cannot be read ({error.strerror})") from None
    listed = "".join(f"{file.name}\0{one}\n" for file, one in zip(files, hashes, strict=True))
    # A name need not be UTF-8.
    return hashlib.sha256(os.fsencode(listed)).hexdigest()


def model_files(folder: Path) -> list[Path]:
    """Return the files of `folder` from which a model, its tokenizer or processor is loaded."""
    inside = [path for path in folder.iterdir() if _is_used(path)]
    if any(path.name in _PREFERRED for path in inside):
        # Many checkpoints have the same weights in another format as well.
        inside = [path for path in inside if path.suffix not in _WEIGHTS[1:]]
    # Further chat templates have a folder of their own.
    return sorted([*inside, *(folder / "additional_chat_templates").glob("*.jinja")])


def _is_used(path: Path) -> bool:
    is_kind = path.suffix in _WEIGHTS + _OTHER and path.name not in _UNUSED
    return is_kind and not path.name.startswith(".") and path.is_file()


def _file_hash(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint: a hub id at a commit, or a folder."""

    model: str
    published: Mapping[str, Any]
    folder: Path
    """Where its config.json is: for the hub, the local copy as far as it is downloaded."""
    revision: str | None
    """The commit, so that all files are of the same one; None for a folder."""

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of the user's."""
        return Path(self.model).is_dir()

    @property
    def arguments(self) -> dict[str, Any]:
        """What every `from_pretrained` gets."""
        return {"revision": self.revision, "trust_remote_code": False}

    def size(self, meta: Any) -> ModelSize:
        """Return the size of its weights; `meta` is the model without them."""
        parameters = sum(parameter.numel() for parameter in meta.parameters())
        packed = quantisation(self.published)
        if packed is None:
            return ModelSize(parameters)
        method = str(packed.get("quant_method", "quantised"))
        wide = "fp8" in method or packed.get("load_in_8bit")
        return ModelSize(parameters, method, int(packed.get("bits") or (8 if wide else 4)))

    def identity(self, on_notice: Callable[[str], None]) -> dict[str, str] | str:
        """Return what identifies the weights: a hash, or the hub's id, whose commit is known."""
        if not self.is_local:
            return self.model
        return {
            "folder": self.folder.resolve().name,
            "sha256": folder_hash(self.folder, on_notice=on_notice),
        }


def quantisation(published: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the `quantization_config` of a config.json, wherever it has it."""
    for part in (published, published.get("text_config")):
        if isinstance(part, Mapping) and isinstance(part.get("quantization_config"), Mapping):
            found: Mapping[str, Any] = part["quantization_config"]
            return found
    return None


def find_checkpoint(model: str, revision: str | None) -> Checkpoint:
    """Return a hub id's or a folder's checkpoint; raises `OSError` or `ValueError`."""
    is_local = Path(model).is_dir()
    if is_local:
        file: str | Path | None = Path(model) / "config.json"
    else:
        if try_to_load_from_cache(model, "config.json", revision=revision) is None:
            _check_hub(model, revision)
        file = cached_file(model, "config.json", revision=revision)
    if file is None:
        raise OSError("it has no config.json")
    loaded = json.loads(Path(file).read_text(encoding="utf-8"))
    if not isinstance(loaded, dict):
        raise OSError("its config.json is not an object")
    commit = None if is_local else extract_commit_hash(str(file), None) or revision
    return Checkpoint(model, loaded, Path(file).parent, commit)


_HUB_TIMEOUT = 5.0
"""Seconds. The hub's client would try again for half a minute where there is no network."""


def _check_hub(model: str, revision: str | None) -> None:
    """Raise `UsageError` where the hub cannot be reached."""
    try:
        get_hf_file_metadata(
            hf_hub_url(model, "config.json", revision=revision), timeout=_HUB_TIMEOUT
        )
    except HfHubHTTPError:
        pass  # It answers; what is wrong shows when the file is downloaded.
    except Exception as error:  # of whichever HTTP library its client uses
        raise _unreachable(model, error) from error


def _unreachable(model: str, error: Exception) -> UsageError:
    return UsageError(
        f"{model}: the hub cannot be reached, and the model was not downloaded before; check the "
        "connection (and HF_ENDPOINT, if it is set), or name a folder as ./FOLDER "
        f"({describe(error, 80)})"
    )


def check_complete(model: str, info: Mapping[str, Any]) -> None:
    """Raise `UsageError` where the checkpoint lacks tensors."""
    # Missing weights would be initialised at random, with only a warning.
    missing = sorted(info.get("missing_keys") or ())
    if missing:
        raise UsageError(
            f"{model}: its checkpoint lacks {len(missing)} tensors, such as {missing[0]}"
        )


def check_vocabulary(model: str, tokenizer: Any) -> None:
    """Raise `UsageError` where a tokenizer has no vocabulary."""
    # Without its files transformers makes an empty one, which reads every text alike.
    if not set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens):
        raise UsageError(f"{model}: its tokenizer has no vocabulary (tokenizer.json is missing)")


@contextmanager
def one_line_errors(model: str) -> Iterator[None]:
    """Turn whatever transformers raises over a checkpoint into one line."""
    try:
        yield
    except CapevalError:
        raise
    except Exception as error:
        # A damaged file or a malformed field can raise anything.
        if isinstance(error, OSError) and "couldn't connect to" in str(error):
            raise _unreachable(model, error) from error
        said = str(error) if isinstance(error, OSError | ValueError | ImportError) else ""
        if isinstance(error, pickle.UnpicklingError):
            # torch's message advises to run the code in the file.
            said = "its weights are damaged, or contain code, which is not run"
        said = one_line(said or describe(error, 220), 220)
        raise UsageError(f"{model}: cannot be loaded: {said}") from error
