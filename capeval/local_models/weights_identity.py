"""Identify the weights in a folder: a hash of the content of every file that is loaded from it.

The name of a folder does not identify its content, which may be replaced. Reading 15 GB takes half
a minute, so each file's hash is kept in the user's cache folder, under the file's path, size and
times. What is kept is a hint: if it cannot be read or written, the file is hashed again.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

import platformdirs

from capeval.errors import UsageError
from capeval.text import shown

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
# Configuration, tokenizer (also sentencepiece and tiktoken) and processor; not README and pictures.
_OTHER = (".json", ".jinja", ".txt", ".model", ".tiktoken")
# Left by training; nothing is loaded from them.
_UNUSED = frozenset(
    {"trainer_state.json", "training_args.bin", "all_results.json", "train_results.json"}
    | {"optimizer.pt", "scheduler.pt", "eval_results.json", "requirements.txt", "LICENSE.txt"}
)
# Without a graphics card's worth of weights nobody notices the time.
_WORTH_A_NOTICE = 2 << 30
# Hashing is limited by the disk; more threads would only compete for it.
_THREADS = 4
# Those that transformers looks for first.
_PREFERRED = ("model.safetensors", "model.safetensors.index.json")


def folder_hash(
    folder: Path, *, cache: Path | None = None, on_notice: Callable[[str], None] = lambda _: None
) -> str:
    """Return the SHA-256 of the names and contents of a model's files in `folder`.

    `cache` is a folder, by default in the user's cache. Raises `UsageError` if a file cannot be
    read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     _ = Path(name, "config.json").write_text("{}")
    ...     folder_hash(Path(name), cache=Path(name, "cache"))[:12]
    'bef6acf233bd'
    """
    cache = default_cache() if cache is None else cache
    try:
        files = model_files(folder)
        unknown = sum(file.stat().st_size for file in files if _kept(file, cache) is None)
        if unknown > _WORTH_A_NOTICE:
            on_notice(
                f"Reading {unknown / 2**30:.1f} GiB of weights in {folder} to identify them; "
                "this is done once for each file"
            )
        with ThreadPoolExecutor(_THREADS) as pool:
            hashes = list(pool.map(lambda file: _file_hash(file, cache), files))
    except OSError as error:
        raise UsageError(f"{error.filename or folder}: cannot be read ({error.strerror})") from None
    named = zip((file.relative_to(folder).as_posix() for file in files), hashes, strict=True)
    listed = "".join(f"{name}\0{one}\n" for name, one in named)
    # A name need not be UTF-8.
    return hashlib.sha256(os.fsencode(listed)).hexdigest()


def default_cache() -> Path:
    """Return the folder of the hashes in the user's cache."""
    return Path(platformdirs.user_cache_dir("capeval")) / "weights"


def folder_state(folder: Path) -> list[dict[str, Any]]:
    """Return what changes when a file of a model is replaced: paths, sizes and times.

    Raises `UsageError` as `model_files` does.
    """
    try:
        return [_state(file) for file in model_files(folder)]
    except OSError as error:
        raise UsageError(f"{error.filename or folder}: cannot be read ({error.strerror})") from None


def model_files(folder: Path) -> list[Path]:
    """Return the files of `folder` from which a model, its tokenizer or processor is loaded.

    Raises `UsageError` where one is a device or a pipe, or an index names a file elsewhere.
    """
    inside = [path for path in folder.iterdir() if _is_used(path)]
    # Further chat templates have a folder of their own.
    inside += (folder / "additional_chat_templates").glob("*.jinja")
    if any(path.name in _PREFERRED for path in inside):
        # The same weights may be there in another format as well.
        inside = [path for path in inside if path.suffix not in _WEIGHTS[1:]]
    for index in [path for path in inside if path.name.endswith(".index.json")]:
        inside += _shards_below(folder, index)
    return sorted(set(inside))


def _shards_below(folder: Path, index: Path) -> list[Path]:
    """Return the files in subfolders that an index of weights names."""
    try:
        names = {*json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []  # transformers refuses it
    below = []
    for name in names:
        parts = PurePosixPath(name).parts if isinstance(name, str) else ()
        if not parts or ".." in parts or PurePosixPath(name).is_absolute():
            raise UsageError(f"{index}: weight_map: {shown(name)} is not a file in its folder")
        if len(parts) > 1 and (folder / name).is_file():
            below.append(folder / name)
    return below


def _is_used(path: Path) -> bool:
    is_kind = path.suffix in _WEIGHTS or path.suffix in _OTHER
    if not is_kind or path.name in _UNUSED or path.name.startswith("."):
        return False
    if path.is_file():
        return True
    with suppress(OSError):  # a link that leads nowhere
        if not stat.S_ISDIR(path.stat().st_mode):
            # Opening a pipe would wait for its other end.
            raise UsageError(f"{path}: is not a regular file")
    return False


def _file_hash(file: Path, cache: Path) -> str:
    if (kept := _kept(file, cache)) is not None:
        return kept
    before = _state(file)
    with file.open("rb") as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()
    if _state(file) == before:  # else it was changed meanwhile
        _keep(cache, {**before, "sha256": found})
    return found


def _state(file: Path) -> dict[str, Any]:
    # The file itself, not the link to it. The time of the last change of its inode moves even where
    # a copy was given the old file's modification time.
    real = file.resolve()
    state = real.stat()
    return {
        "path": str(real),
        "size": state.st_size,
        "modified": state.st_mtime_ns,
        "changed": state.st_ctime_ns,
    }


def _entry(path: str, cache: Path) -> Path:
    return cache / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}.json"


def _kept(file: Path, cache: Path) -> str | None:
    state = _state(file)
    try:
        kept = json.loads(_entry(state["path"], cache).read_text(encoding="utf-8"))
        found = kept.pop("sha256")
    except (OSError, ValueError, AttributeError, LookupError, TypeError, RecursionError):
        return None
    is_hash = isinstance(found, str) and len(found) == 64
    return found if is_hash and kept == state else None


def _keep(cache: Path, entry: dict[str, Any]) -> None:
    with suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        # Renamed into place: another process sees the old entry or the new one.
        handle, written = tempfile.mkstemp(dir=cache, suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                json.dump(entry, out)
            Path(written).replace(_entry(entry["path"], cache))
        except OSError:
            Path(written).unlink(missing_ok=True)
