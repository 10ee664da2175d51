"""Checking where a command is to write, before any work, so that no input is destroyed."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryFile

from capeval.config import CONFIG
from capeval.errors import UsageError
from capeval.files.jsonl import printable_json, write_atomic

# Bytes of a log's first line, which has the command: the arguments of a process may be long.
_LONGEST_START = 10_000_000
# Written to in place: replacing a device with a file would break other programs.
_PLAIN = ("/dev/stdout", "/dev/null")
# The files of runs, of shards too, of cards and bridges, the configuration and the cache: another
# run's may be there, or be taken for one later. Some file systems ignore case.
_OWN = re.compile(
    r"(captions|ungenerated|responses)(\.\d+-of-\d+)?\.jsonl|judgments(\.next|\.aside)?\.jsonl"
    r"|probes\.jsonl|(manifest|anchors|probe|bridge|scores)\.json"
    r"|\.lock(\..*)?|capeval\.toml|replies\.sqlite(-\w+)?",
    re.IGNORECASE,
)


def check_output(
    path: Path, inputs: Iterable[Path | str], *, option: str = "--out", own: str = ""
) -> None:
    """Refuse an output that cannot be written, or that would overwrite what the command reads.

    A link is followed. `/dev/stdout` and `/dev/null` are allowed. Missing folders are created when
    the file is written.

    Parameters
    ----------
    inputs : files that the command reads, and folders that it reads files of; those that do not
        exist are ignored; `capeval.toml` under another name is always one
    option : its name in messages
    own : the one of capeval's own names that the output may have, such as scores.json

    Raises
    ------
    UsageError
        The output is one of the inputs (under any name), has a name of capeval's own files, is a
        debug log, a folder, a device or a pipe, or its folder cannot be written to.
    """
    if not path.name:
        raise UsageError(f"{option} names no file")
    if str(path) in _PLAIN:
        return
    if "\0" in str(path):
        raise UsageError(f"{option}: no file can have this name")
    target = Path(os.path.realpath(path))
    is_own = target.name.lower() != own and bool(_OWN.fullmatch(target.name))
    for file in (*inputs, *([] if is_own else [CONFIG])):
        if _is_same_file(Path(file), target) or _is_file_in(Path(file), target):
            also = "" if str(file) == str(path) else f" (it is {file})"
            raise UsageError(
                f"{option}: {path} is one of the files to be read{also}; choose another"
            )
    if is_own:
        raise UsageError(f"{option}: {path} has a name that capeval uses itself; choose another")
    try:
        found = target.stat()
    except FileNotFoundError:
        _check_folder(target.parent, path, option)
        return
    except OSError as fault:
        raise UsageError(f"{option}: {path} cannot be written ({fault.strerror})") from None
    if stat.S_ISDIR(found.st_mode):
        raise UsageError(f"{option}: {path} is a folder; name a file in it")
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{option}: {path} is no regular file; choose another")
    if option != "--debug" and is_debug_log(target):
        raise UsageError(f"{option}: {path} is a debug log; choose another")
    _check_folder(target.parent, path, option)


def is_debug_log(path: Path) -> bool:
    """Return whether a file begins as every log of `--debug` does."""
    try:
        with path.open("rb") as file:
            first = json.loads(file.readline(_LONGEST_START))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(first, dict) and first.get("event") == "start" and "capeval" in first


def _is_same_file(file: Path, target: Path) -> bool:
    try:
        # Hard links have paths of their own.
        return Path(os.path.realpath(file)) == target or file.samefile(target)
    except (OSError, ValueError):
        return False


def _is_file_in(folder: Path, target: Path) -> bool:
    try:
        inside = folder.is_dir() and target.is_file() and target.is_relative_to(folder.resolve())
        # Around the working folder, earlier outputs are in it too, and may be replaced.
        return inside and not Path.cwd().is_relative_to(folder.resolve())
    except (OSError, ValueError):
        return False


def _check_folder(folder: Path, path: Path, option: str) -> None:
    # Missing folders are created when the file is written.
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise UsageError(f"{option}: {path}: {folder} is no folder")
    try:
        # Some folders, such as /proc, take no files whatever their permissions are. The file has
        # no name where the system can do that, and is removed at once where it cannot.
        with TemporaryFile(dir=folder):
            able = os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        able = False
    if not able:
        raise UsageError(f"{option}: {path}: the folder {folder} cannot be written to")


def write_output(path: Path, text: str) -> None:
    """Write a file that `check_output` has accepted, completely or not at all."""
    if str(path) == "/dev/stdout":
        sys.stdout.write(printable_json(text) if text.startswith(("{", "[")) else text)
    elif str(path) not in _PLAIN:
        write_atomic(path, text)


def run_files(path: Path, *, scores: bool = True) -> list[Path]:
    """Return the files of the run that a file, a judge's folder or a run's folder belongs to.

    Parameters
    ----------
    scores : False if scores.json may be overwritten
    """
    folders = [path, path.parent] if path.is_dir() else [path.parent, path.absolute().parent.parent]
    found = [] if path.is_dir() else [path]
    names = ("captions.jsonl", "manifest.json", "human.json", *(["scores.json"] if scores else []))
    found += [folder / name for folder in folders for name in names]
    if path.is_dir():
        for pattern in ("*.jsonl", *(["scores.json"] if scores else [])):
            found += [*path.glob(pattern), *path.glob(f"*/{pattern}")]
    return found
