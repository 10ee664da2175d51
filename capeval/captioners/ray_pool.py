"""Work on the machines of a Ray cluster, each of whose workers holds a loaded captioner.

Ray Data sends jobs to the workers, which read the videos and ask the model. Only this process
writes the run's files.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import warnings
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from capeval.captioners.catalogue import ModelEntry, OpenCaptioner
from capeval.captioners.opening import choose_model, open_captioner
from capeval.captioners.options import CaptionerOptions, FramesOptions
from capeval.captioners.pipeline import FailFast, Job, KeepOutcome, caption_videos
from capeval.captioners.protocol import (
    TRAITS,
    Captioned,
    Captioner,
    CaptionRequest,
    Outcomes,
    Uncaptioned,
)
from capeval.errors import CapevalError, MissingExtra, ModelDown, UsageError
from capeval.files.jsonl import as_stored
from capeval.options import ignore
from capeval.runs.concurrency import in_thread
from capeval.runs.folder import RunFolder
from capeval.text import describe
from capeval.video import FrameReader

LOST = "its worker ended twice before it was done: killed, crashed, or out of memory"

# Only paths and texts go through it; by default it takes a third of the memory.
_OBJECT_STORE = 256 << 20
_CONNECTING = 10.0
# Set before Ray is imported: it sends no usage data and prints no messages of its own.
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    # It would print to stdout that a worker ended.
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
    # A thread that Ctrl-C abandoned would otherwise start another cluster.
    "RAY_ENABLE_AUTO_CONNECT": "0",
}


@dataclass(frozen=True)
class _Opened:
    name: str
    traits: Mapping[str, bool]
    settings: Mapping[str, Any]
    batch_size: int
    memory: int


@dataclass(frozen=True)
class _Reply:
    """The outcomes of some clips, and the reason to stop the run, if there is one."""

    outcomes: list[tuple[str, Captioned | Uncaptioned, dict[str, Any]]]
    stopped: str | None = None
    model_is_down: bool = False


class _Worker:
    """Captions clips in a process of the cluster; its errors are part of the reply."""

    def __init__(self, folder: str, sent: bytes, settings: Mapping[str, Any] | None = None) -> None:
        from ray import cloudpickle

        self._runner, self._stack, self._fail_fast = asyncio.Runner(), AsyncExitStack(), FailFast()
        self.fault: str | None = None
        try:
            # Paths, also those of capeval.toml, mean the same here.
            os.chdir(folder)
            options, self._reader = cloudpickle.loads(sent)
            opening = open_captioner(options, choose_model(options))
            opened = self._runner.run(self._stack.enter_async_context(opening))
            self._captioner = opened.captioner
            if settings not in (None, as_stored(self._captioner.settings)):
                raise UsageError("the model here differs, or has other settings")
        except Exception as error:
            self.fault = _reason(error)

    def opened(self) -> _Opened:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        one = self._captioner
        traits = {name: bool(getattr(one, name, False)) for name in TRAITS}
        return _Opened(one.name, traits, as_stored(one.settings), one.batch_size, peak)

    def __call__(self, row: Mapping[str, bytes]) -> dict[str, bytes]:
        from ray import cloudpickle

        reply = _Reply([], self.fault)
        if not self.fault:
            reply = self._runner.run(self._caption(cloudpickle.loads(row["jobs"])))
        return {"reply": cloudpickle.dumps(reply)}

    async def _caption(self, jobs: Sequence[Job]) -> _Reply:
        outcomes: list[tuple[str, Captioned | Uncaptioned, dict[str, Any]]] = []

        def keep(job: Job, outcome: Captioned | Uncaptioned, frames: Mapping[str, Any]) -> None:
            outcomes.append((job.index, outcome, dict(frames)))

        try:
            await caption_videos(
                jobs, self._reader, self._captioner, keep, fail_fast=self._fail_fast
            )
        except Exception as error:
            return _Reply(outcomes, _reason(error), isinstance(error, ModelDown))
        return _Reply(outcomes)


def _reason(error: Exception) -> str:
    what = str(error) if isinstance(error, CapevalError) else describe(error)
    return f"{what} (on {socket.gethostname()})"


def _probe(folder: str, sent: bytes) -> _Opened | str:
    worker = _Worker(folder, sent)
    return worker.fault or worker.opened()


class RayPool:
    """A cluster's workers as one captioner."""

    concurrency = 1

    def __init__(self, ray: Any, options: CaptionerOptions, opened: _Opened, gpus: int) -> None:
        self._ray, self._options, self._opened, self._gpus = ray, options, opened, gpus
        vars(self).update(opened.traits)
        self.name, self.settings, self.batch_size = opened.name, opened.settings, opened.batch_size

    async def caption(self, requests: Sequence[CaptionRequest]) -> Outcomes:
        """Raise an error: frames never leave the machine that reads them."""
        raise TypeError("Ray workers read their videos themselves: see caption_videos")

    async def caption_videos(
        self,
        jobs: Sequence[Job],
        reader: FrameReader,
        captioner: Captioner,
        record: KeepOutcome,
    ) -> None:
        """Do the jobs on the workers; one whose worker ends twice fails."""
        if not jobs:
            return
        waiting = {job.index: job for job in jobs}
        rows = self._rows(jobs, reader)
        while row := await in_thread(partial(_next, rows)):
            reply: _Reply = self._ray.cloudpickle.loads(row)
            for index, outcome, frames in reply.outcomes:
                record(waiting.pop(index), outcome, frames)
            if reply.stopped is not None:
                raise (ModelDown if reply.model_is_down else UsageError)(reply.stopped)
        for job in waiting.values():
            record(job, Uncaptioned(job.index, LOST), {})

    def _rows(self, jobs: Sequence[Job], reader: FrameReader) -> Iterator[Any]:
        """Send the jobs in the captioner's batches; return an iterator of the replies."""
        data, dumps = self._ray.data, self._ray.cloudpickle.dumps
        size = max(1, self.batch_size)
        batches = [dumps(jobs[at : at + size]) for at in range(0, len(jobs), size)]
        context = data.DataContext.get_current()
        context.enable_progress_bars = False
        # Ray drops a video that crashes its worker, without an error.
        context.max_errored_blocks = -1
        # A worker waits until a machine has enough memory for it.
        needed: dict[str, Any] = {"num_cpus": 1, "memory": self._opened.memory}
        places = int(self._ray.cluster_resources()["CPU"])
        if self._gpus:
            needed = {"num_gpus": self._gpus}
            places = int(self._ray.cluster_resources()["GPU"]) // self._gpus
        with warnings.catch_warnings():
            # Until Ray 2.64 the counts of restarts and retries are passed in this way.
            warnings.simplefilter("ignore", self._ray.util.annotations.RayDeprecationWarning)
            replies = data.from_items(
                [{"jobs": batch} for batch in batches], override_num_blocks=len(batches)
            ).map(
                _Worker,
                fn_constructor_args=(
                    str(Path.cwd()),
                    _pickled(self._ray, self._options, reader),
                    self.settings,
                ),
                # A second task that waits at a worker would be lost with the first.
                compute=data.ActorPoolStrategy(
                    size=min(len(batches), places), max_tasks_in_flight_per_actor=1
                ),
                **needed,
                # A clip is tried twice (default: no limit). Workers restart without limit: once all
                # have ended for good, Ray waits for them forever.
                max_restarts=-1,
                max_task_retries=1,
            )
        # With read-ahead, a reply would wait for the next.
        return iter(
            replies.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0)
        )


def _next(rows: Iterator[Any]) -> bytes | None:
    try:
        found = next(rows, None)
    except Exception as error:
        raise ModelDown(f"Ray stopped: {describe(error)}") from error
    return None if found is None else bytes(found["reply"][0].as_py())


def open_model(
    options: FramesOptions, entry: ModelEntry | None, *, dry_run: RunFolder | None
) -> AbstractAsyncContextManager[OpenCaptioner]:
    """Open the captioner here, or on the cluster of `--ray`; `dry_run` as in `open_captioner`."""
    if options.ray is None:
        return open_captioner(options, entry, dry_run=dry_run)
    return _open_ray(options, entry, options.ray)


@asynccontextmanager
async def _open_ray(
    options: CaptionerOptions, entry: ModelEntry | None, address: str
) -> AsyncIterator[OpenCaptioner]:
    """Connect to the cluster at an address, or start one here for the block."""
    if entry is None or (entry.reached == "endpoint" and isinstance(options.model, str)):
        raise UsageError("--ray is for models that capeval loads; for a server, omit it")
    os.environ.update(_ENVIRONMENT)
    try:
        import ray
        import ray.data
    except ModuleNotFoundError as error:
        raise MissingExtra(f"--ray needs {error.name}", "ray") from error
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    sent = replace(options, progress=None, on_notice=ignore)
    _pickled(ray, sent)
    try:
        # Not in a thread of its own: Ray's processes end with the thread that started them.
        _connect(ray, address)
        opened, gpus = await _opened(ray, sent)
        yield OpenCaptioner(RayPool(ray, sent, opened, gpus), entry)
    finally:
        ray.shutdown()


def _connect(ray: Any, address: str) -> None:
    starts: dict[str, Any] = {}
    stderr = os.dup(2)
    try:
        if address == "local":
            starts = {"object_store_memory": _OBJECT_STORE, "include_dashboard": False}
        elif address != "auto":
            # If nothing listens, Ray ends this process after a minute.
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), timeout=_CONNECTING).close()
        # Ray's library prints on stderr that it is silenced.
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL, **starts)
    except (OSError, RuntimeError, ValueError) as error:  # ConnectionError is an OSError
        raise UsageError(
            f"--ray {address}: no Ray cluster can be reached there; give HOST:PORT, auto on a "
            f"machine of the cluster, or local ({describe(error, 150)})"
        ) from error
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


async def _opened(ray: Any, options: CaptionerOptions) -> tuple[_Opened, int]:
    """Open the captioner once; return its settings, and the number of GPUs of each worker.

    That number starts at one and doubles while the model does not fit.
    """
    nodes = [node["Resources"].get("GPU", 0) for node in ray.nodes() if node["Alive"]]
    most = 0 if options.device == "cpu" else int(max(nodes))
    gpus = min(1, most)
    while True:
        # A new process, so that the model's memory is free again afterwards.
        task = ray.remote(num_gpus=gpus, max_calls=1, max_retries=0)(_probe)
        try:
            found = await task.remote(str(Path.cwd()), _pickled(ray, options))
        except ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None) or error
            raise UsageError(f"no worker could open the model: {describe(cause)}") from error
        if isinstance(found, _Opened):
            return found, gpus
        if not 0 < 2 * gpus <= most:
            raise UsageError(found)
        gpus *= 2


def _pickled(ray: Any, options: CaptionerOptions, reader: FrameReader | None = None) -> bytes:
    try:
        return bytes(ray.cloudpickle.dumps((options, reader)))
    except Exception as error:  # an object may raise anything
        raise UsageError(
            f"--ray: the captioner or the reader cannot be sent to workers: {describe(error)}"
        ) from error
