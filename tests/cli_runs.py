"""`capeval` as it is typed, in a folder of its own, in a process of its own where it needs one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.typed import Said, typed

__all__ = ["capeval", "environment", "process", "run", "start"]

ROOT = Path(__file__).resolve().parent.parent


def environment(cwd: Path, **more: str) -> dict[str, str]:
    """Return that of the tests with a cache of its own and without keys."""
    # What was typed in this process has set OpenBLAS's.
    unlike = ("OPENAI_", "GEMINI_", "OPENBLAS_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(unlike)}
    kept |= {"XDG_CACHE_HOME": str(cwd / "cache"), "PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    return kept | more


def run(cwd: Path, *arguments: str, **variables: str) -> Said:
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
    return Said(done.returncode, done.stdout, done.stderr)


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


async def process(cwd: Path, *arguments: str, **more: Any) -> Said:
    """Run `capeval` to its end in a process of its own."""
    started = await start(cwd, *arguments, **more)
    out, err = await asyncio.wait_for(started.communicate(), 60)
    return Said(started.returncode or 0, out.decode(), err.decode())


async def capeval(cwd: Path, *arguments: str, **variables: str) -> Said:
    """Type `capeval ...` in this process; two at a time need processes of their own."""
    return await asyncio.to_thread(typed, cwd, *arguments, env=environment(cwd, **variables))
