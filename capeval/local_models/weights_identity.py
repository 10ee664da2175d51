"""Identify the weights in a folder: a hash of the content of every file that is loaded from it.

The name of a folder does not identify its content, which may be replaced.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from capeval.errors import UsageError

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
