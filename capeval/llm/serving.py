"""`--serve`: the server of a model, for as long as one command runs."""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import shutil
import socket
import sys
import tempfile
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from capeval.config import config_file
from capeval.errors import EndpointDown, EndpointRefused, UsageError
from capeval.files.jsonl import short_hash
from capeval.llm.client import ServeOptions
from capeval.llm.tracing import parse_endpoint, redact, remember_secrets
from capeval.llm.wire import CallFailed, Connection, model_ids
from capeval.text import Loss, one_line

_HOST = "127.0.0.1"
# Seconds. Hundreds of gigabytes of weights on a network disk take half an hour.
_STARTUP = 3600.0
_BETWEEN_LOOKS, _LOOK = 0.5, 10.0
# Seconds. vLLM stops its engines and frees their GPUs in a few.
_UNTIL_KILLED = 10.0
_LAST_LINES = 20
"""Of the log: a traceback's end and what came before it."""

# Runs the server and ends it with capeval, which holds the other end of the pipe that is its
# standard input. The pipe closes when capeval is done, and the system closes it when capeval dies:
# then the server and its children are asked to end and, after a while, killed. The program leads
# their process group, so no other group can have its number, and gets its own signal too. Children
# of a server that has ended keep its GPUs, so they are killed with the program.
_GUARD = """
import os, signal, subprocess, sys, threading, time

def end_with_capeval():
    sys.stdin.buffer.read()
    os.killpg(0, signal.SIGTERM)
    time.sleep(float(sys.argv[1]))
    os.killpg(0, signal.SIGKILL)

signal.signal(signal.SIGTERM, lambda *_: None)
server = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL)
threading.Thread(target=end_with_capeval, daemon=True).start()
print(f"The server has ended with exit code {server.wait()}.", flush=True)
os.killpg(0, signal.SIGKILL)
"""


SERVED_URL = f"http://{_HOST}/v1"
"""The address in results and in the cache, without the port, which differs with every start."""


@dataclass(frozen=True)
class Server:
    """The server that `--serve` starts for a model, which it calls `model`.

    `command` runs in `folder`, and the requests have the `key`. `weights` tell it from the servers
    of other commands in results and in the cache: a hash of the serve command.
    """

    model: str
    command: tuple[str, ...]
    folder: Path
    weights: str
    key: str | None
    on_notice: Callable[[str], None]


def find_server(
    o: ServeOptions, table: str, name: str, serve: str | None, served_as: str, *, offline: bool
) -> Server:
    """Return the server of a model's serve command, with capeval's additions.

    `table` is where capeval.toml has the command, and relative paths in it are relative to that
    file. An `offline` server is only shown. Keys in the command become secrets.
    """
    file, gpus = config_file(), o.gpus
    where = f'serve of [{table}."{name}"] in {file}'
    if not serve:
        raise UsageError(f"{name} has no serve command: omit --serve, or set {where}")
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
    parser.add_argument("--api-key", nargs="*", default=[])
    parser.add_argument("--served-model-name", nargs="+", default=[])
    try:
        words = shlex.split(serve)
        weights = f"serve {short_hash([_absolute(word, file.parent) for word in words])[:6]}"
        known = parser.parse_known_args(words)[0]
    except (ValueError, argparse.ArgumentError) as error:
        raise UsageError(f"{name}: {serve!r}: {error}; correct {where}") from None
    each = max(1, known.tensor_parallel_size)
    remember_secrets(known.api_key)
    if served_as not in (known.served_model_name or words):
        words += ["--served-model-name", served_as]
    if gpus is not None:
        if gpus % each:
            raise UsageError(
                f"--gpus {gpus} cannot be divided by the {each} GPUs that one copy of {name} "
                f"takes (--tensor-parallel-size): name a multiple, or change {where}"
            )
        words += ["--data-parallel-size", str(gpus // each)]
    if offline:
        o.on_notice(f"Would start the server: {redact(shlex.join(words))}")
    elif shutil.which(file.parent / words[0] if "/" in words[0] else words[0]) is None:
        raise UsageError(
            f"{words[0]}, which serves {name}, is not installed here: install it, or start "
            "the server elsewhere and name it with --base-url"
        )
    command = (*words, "--host", _HOST)
    return Server(name, command, file.parent, weights, o.api_key, o.on_notice)


def _absolute(word: str, folder: Path) -> str:
    """Return a word of a command, with the whole path of a file or folder that it names.

    `./checkpoint`, or `--lora-modules judge=./lora`, in the folder of another capeval.toml has
    other weights.
    """
    name, equals, text = word.rpartition("=")
    path = folder / text
    # Without following links; unlike that of Path, `exists` never fails.
    is_there = "/" in text and os.path.exists(path)  # noqa: PTH110
    return f"{name}{equals}{os.path.abspath(path)}" if is_there else word  # noqa: PTH100


@asynccontextmanager
async def serving(server: Server) -> AsyncIterator[str]:
    """Start a server, yield its base URL once it answers, and end it with the block.

    It also ends when this process does, even by SIGKILL. Raises `EndpointRefused` if it ended
    before it answered or did not answer in time, and `EndpointDown` at once if it ends during the
    block.
    """
    name, on_notice = server.model, server.on_notice
    # The server's log may show them.
    secret = [one for one in os.environ if one == "HF_TOKEN" or one.endswith("_API_KEY")]
    remember_secrets(os.environ[one] for one in secret)
    port = _free_port()
    url, command = f"http://{_HOST}:{port}/v1", (*server.command, "--port", str(port))
    # A file of its own for each start: several commands, also on several machines, may share a run.
    descriptor, log = tempfile.mkstemp(prefix="capeval-serve-", suffix=".log")
    on_notice(f"Starting the server: {redact(shlex.join(command))}")
    on_notice(f"It loads the model, which can take minutes; its log is {log}")
    with os.fdopen(descriptor) as stream:
        guard = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-c", _GUARD, str(_UNTIL_KILLED), *command),
            stdin=PIPE,
            stdout=stream,
            stderr=STDOUT,
            start_new_session=True,
            cwd=server.folder,
        )

    def failed(what: str) -> str:
        lines = redact(Path(log).read_text(encoding="utf-8", errors="replace")).splitlines()
        last = [line for line in lines if line.strip()][-_LAST_LINES:]
        for line in last:
            on_notice(Loss(f"| {line}"))
        return f"the server of {name} {what}; its log is {log} and ends: " + one_line(
            " | ".join(last[-2:]), 150
        )

    async def watch() -> None:
        await guard.wait()
        limit.reschedule(0)

    limit = asyncio.timeout(_STARTUP)
    watching = asyncio.create_task(watch())
    is_ready = False
    try:
        async with limit:
            await _answer(url, server.key)
            limit.reschedule(None)
            is_ready = True
            yield url
    except TimeoutError:
        if not limit.expired():
            raise
        if guard.returncode is None:
            late = f"did not answer within {_STARTUP / 60:g} minutes"
            raise EndpointRefused(failed(late)) from None
        if is_ready:
            ended = failed("ended before the work was done")
            raise EndpointDown(f"{ended}; run the same command again to resume") from None
        raise EndpointRefused(failed("ended before it answered")) from None
    finally:
        watching.cancel()
        is_well = is_ready and guard.returncode is None
        if guard.stdin:
            guard.stdin.close()
        await guard.wait()
        if is_well:
            os.unlink(log)  # noqa: PTH108


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


async def _answer(url: str, key: str | None) -> None:
    connection = Connection(parse_endpoint(url), key or "", timeout=_LOOK, connections=1)
    try:
        while True:
            try:
                if model_ids(await connection.get("/models", _LOOK)):
                    return
            except CallFailed as failure:
                if failure.status in (401, 403):  # it is up; the first call reports the missing key
                    return
            await asyncio.sleep(_BETWEEN_LOOKS)
    finally:
        await connection.close()
