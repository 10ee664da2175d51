"""Checking where a command is to write, before any work, so that no input is destroyed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from capeval.config import config_file
from capeval.errors import UsageError
from capeval.files.jsonl import printable_json, write_atomic

# Written to in place: replacing a device with a file would break other programs.
_OTHER_KINDS = (".csv", ".tsv", ".xlsx", ".parquet", ".md", ".tex", ".txt", ".html", ".pdf")
_PLAIN = ("/dev/stdout", "/dev/null")
# The files of runs, of shards too, the configuration and the cache: another run's may be there, or
# be taken for one later. Some file systems ignore case.
_OWN = re.compile(
    r"(captions|ungenerated|responses)(\.\d+-of-\d+)?\.jsonl|judgments\.jsonl"
    r"|(manifest|judge|scores|calibrated)\.json"
    r"|\.lock(\..*)?|capeval\.toml|replies\.sqlite(-\w+)?",
    re.IGNORECASE,
)


def check_json(path: Path, *others: str) -> None:
    """Refuse a name for JSON that looks like another kind of file, unless it is one of `others`."""
    if path.suffix.lower() in _OTHER_KINDS and path.suffix.lower() not in others:
        kinds = ", ".join((".json", *others))
        raise UsageError(f"--out: {path}: the result is written as {kinds}; choose such a name")


def check_output(
    path: Path, inputs: Iterable[Path | str], *, option: str = "--out", own: str = ""
) -> None:
    """Refuse an output that is one of the inputs, or has the name of a file of capeval's own.

    Links are followed, and inputs may be folders. `/dev/stdout` and `/dev/null` are allowed. `own`
    is the one of capeval's own names that the output may have.
    """
    if str(path) in _PLAIN:
        return
    target = Path(os.path.realpath(path))
    why = ""
    if not path.name or target.is_dir():
        why = "is a folder; name a file in it"
    elif target.exists() and not target.is_file():
        why = "is no regular file; choose another"
    elif any(_is_read(Path(file), target) for file in (*inputs, config_file())):
        why = "is one of the files to be read; choose another"
    elif target.name.lower() != own and _OWN.fullmatch(target.name):
        why = "has a name that capeval uses itself; choose another"
    if why:
        raise UsageError(f"{option}: {path} {why}")


def _is_read(file: Path, target: Path) -> bool:
    if not (file.exists() and target.exists()):
        return Path(os.path.realpath(file)) == target
    # Around the working folder, earlier outputs are in it too, and may be replaced.
    inside = file.is_dir() and not Path.cwd().is_relative_to(file.resolve())
    # Hard links have paths of their own.
    return file.samefile(target) or (inside and target.is_relative_to(file.resolve()))


def write_output(path: Path, text: str | bytes) -> None:
    """Write a file that `check_output` has accepted, completely or not at all."""
    if str(path) == "/dev/stdout" and isinstance(text, str):
        sys.stdout.write(printable_json(text) if text.startswith(("{", "[")) else text)
    elif str(path) not in _PLAIN:
        write_atomic(path, text)
