"""The public functions: each is the only orchestration of the command with its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

FilePath = str | Path
Notices = Callable[[str], None]


def ignore(_notice: str) -> None:
    """Ignore a notice: the `on_notice` of a caller who gives none."""
