"""Running `capeval` as people do: in a process of its own, in a folder of its own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Ended", "capeval", "environment", "run", "start"]

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    code: int
    out: str
    err: str


def environment(cwd: Path, **more: str) -> dict[str, str]:
    """Return that of the tests with a cache of its own and without keys."""
    # What was typed in this process has set OpenBLAS's.
    unlike = ("OPENAI_", "GEMINI_", "OPENBLAS_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(unlike)}
    kept |= {"XDG_CACHE_HOME": str(cwd / "cache"), "PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    return kept | more


def run(cwd: Path, *arguments: str, **variables: str) -> Ended:
    """Run `capeval` to its end, with nothing else to do meanwhile."""
    done = subprocess.run(
        [sys.executable, "-m", "capeval", *arguments],
        cwd=cwd,
        env=environment(cwd, **variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


async def start(
    cwd: Path, *arguments: str, prepare: Callable[[], None] | None = None, **variables: str
) -> asyncio.subprocess.Process:
    """Start `capeval` with the given arguments."""
    more: dict[str, Any] = {"preexec_fn": prepare} if prepare else {}
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "capeval",
        *arguments,
        cwd=cwd,
        env=environment(cwd, **variables),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        **more,
    )


async def capeval(cwd: Path, *arguments: str, **more: Any) -> Ended:
    """Run `capeval` to its end."""
    process = await start(cwd, *arguments, **more)
    out, err = await asyncio.wait_for(process.communicate(), 60)
    return Ended(process.returncode or 0, out.decode(), err.decode())
