"""`--serve`: a server of the model while one command runs."""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import shutil
import socket
import sys
import tempfile
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from capeval.captioners import server_guard
from capeval.captioners.catalogue import ModelEntry
from capeval.captioners.options import CaptionerOptions
from capeval.config import config_file
from capeval.errors import EndpointRefused, UsageError
from capeval.llm.retry import CallFailed
from capeval.llm.tracing import parse_endpoint, redact, remember_secrets
from capeval.llm.wire import model_ids
from capeval.text import Loss, one_line

_HOST = "127.0.0.1"
# Seconds. Hundreds of gigabytes of weights on a network disk take half an hour.
_STARTUP = 3600.0
_BETWEEN_LOOKS, _LOOK = 0.5, 10.0
_LAST_LINES = 20
"""Of the log: a traceback's end and what came before it."""


def server_url(port: int) -> str:
    """Return the base URL of a server on this machine."""
    return f"http://{_HOST}:{port}/v1"


def serve_command(entry: ModelEntry, gpus: int | None, port: int | None) -> list[str]:
    """Return a model's serve command with capeval's additions; its keys become secrets.

    `gpus` is the number for all copies of the model; None for the command's own.
    """
    where = f'serve of [models."{entry.name}"] in {config_file()}'
    if not entry.serve:
        raise UsageError(f"{entry.name} has no serve command: set {where}")
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
    parser.add_argument("--api-key", nargs="*", default=[])
    try:
        words = shlex.split(entry.serve)
        known = parser.parse_known_args(words)[0]
    except (ValueError, argparse.ArgumentError) as error:
        raise UsageError(f"{entry.name}: {entry.serve!r}: {error}; correct {where}") from None
    each = max(1, known.tensor_parallel_size)
    remember_secrets(known.api_key)
    if (called := entry.hub or entry.name) not in words:
        words += ["--served-model-name", called]
    if gpus is not None:
        if gpus % each:
            raise UsageError(
                f"--gpus {gpus} cannot be divided by the {each} GPUs that one copy of {entry.name} "
                f"takes (--tensor-parallel-size): name a multiple, or change {where}"
            )
        words += ["--data-parallel-size", str(gpus // each)]
    return [*words, "--host", _HOST, *(["--port", str(port)] if port else [])]


@asynccontextmanager
async def serving(
    entry: ModelEntry, options: CaptionerOptions, on_notice: Callable[[str], None]
) -> AsyncIterator[str]:
    """Start a model's server, yield its base URL once it answers, and end it with the block.

    It also ends when this process does, even by SIGKILL: see `server_guard`. Raises
    `EndpointRefused` if it ended before it answered, or did not answer in time.
    """
    # The server's log may show them.
    secret = [name for name in os.environ if name == "HF_TOKEN" or name.endswith("_API_KEY")]
    remember_secrets(os.environ[name] for name in secret)
    port = _free_port()
    url = server_url(port)
    command = serve_command(entry, options.gpus, port)
    if shutil.which(command[0]) is None:
        raise UsageError(
            f"{command[0]}, which serves {entry.name}, is not installed here: install it, or start "
            "the server elsewhere and name it with --base-url"
        )
    # A file of its own for each start: several commands, also on several machines, may share a run.
    descriptor, log = tempfile.mkstemp(prefix="capeval-serve-", suffix=".log")
    on_notice(f"Starting the server: {redact(shlex.join(command))}")
    on_notice(f"It loads the model, which can take minutes; its log is {log}")
    with os.fdopen(descriptor) as stream:
        guard = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", server_guard.__file__, *command),
            stdin=PIPE,
            stdout=stream,
            stderr=STDOUT,
            start_new_session=True,
            # Relative paths in its file are relative to the file.
            cwd=config_file().parent,
        )

    def failed(what: str) -> str:
        lines = redact(Path(log).read_text(encoding="utf-8", errors="replace")).splitlines()
        last = [line for line in lines if line.strip()][-_LAST_LINES:]
        for line in last:
            on_notice(Loss(f"| {line}"))
        return f"the server of {entry.name} {what}; its log is {log} and ends: " + one_line(
            " | ".join(last[-2:]), 150
        )

    is_ready = False
    try:
        try:
            async with asyncio.timeout(_STARTUP):
                is_ready = await _is_ready(url, options.api_key, guard)
        except TimeoutError:
            late = f"did not answer within {_STARTUP / 60:g} minutes"
            raise EndpointRefused(failed(late)) from None
        if not is_ready:
            raise EndpointRefused(failed("ended before it answered"))
        yield url
    finally:
        has_ended = guard.returncode is not None
        if is_ready and has_ended:
            on_notice(Loss(failed("ended before the work was done")))
        if guard.stdin:
            guard.stdin.close()
        await guard.wait()
        if is_ready and not has_ended:
            os.unlink(log)  # noqa: PTH108


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


async def _is_ready(url: str, key: str | None, guard: Process) -> bool:
    """Wait until a server lists a model; return False if it has ended instead."""
    from capeval.llm.wire import Connection

    connection = Connection(parse_endpoint(url), key or "", timeout=_LOOK, connections=1)
    try:
        while guard.returncode is None:
            try:
                if model_ids(await connection.get("/models", _LOOK)):
                    return True
            except CallFailed as failure:
                if failure.status in (401, 403):  # it is up; the first call reports the missing key
                    return True
            await asyncio.sleep(_BETWEEN_LOOKS)
        return False
    finally:
        await connection.close()
