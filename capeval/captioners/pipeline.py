"""From videos to captions: frames are read ahead, batched, and captioned.

Videos with equal numbers of frames share a batch. A model that can pad also gets videos of
similar length together.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from capeval.captioners.caption_cleanup import (
    REASONING_REMOVED,
    caption_in,
    has_reasoning,
    is_empty,
    repetition_warning,
)
from capeval.captioners.fail_fast import FailFast
from capeval.captioners.protocol import Captioned, Captioner, CaptionRequest, Uncaptioned
from capeval.errors import (
    CapevalError,
    ReplyError,
    UsageError,
    VideoError,
)
from capeval.files.jsonl import as_stored
from capeval.plugins import blaming
from capeval.runs.concurrency import in_thread
from capeval.schema import Usage
from capeval.text import complaint, describe, one_line, shown
from capeval.tracing import trace
from capeval.video import FrameReader, FrameSet

# Decoded frames that wait for the model; a batch of 32 frames of 1080p is 200 MB a video.
AHEAD_BYTES = 2 << 30
_RECORDED = (
    *("indices", "times", "total_frames", "fps", "duration"),
    *("decoder", "decoder_version", "hdr", "tone_mapping"),
)


@dataclass(frozen=True)
class Job:
    """One video to caption; other work of the same models has jobs of its own class."""

    index: str
    path: Path
    prompt: str
    video: Mapping[str, Any] = field(default_factory=dict)
    """Which file this is: its path in the folder of the videos, and its size in bytes."""

    @property
    def kind(self) -> Literal["caption", "answer"]:
        """What the reply is; see `CaptionRequest`."""
        return "caption"

    def read(self, reader: FrameReader, cancel: threading.Event | None = None) -> FrameSet:
        """Return the frames that the model sees; raises `VideoError`."""
        return reader.read(self.path, cancel=cancel)

    def request(self, frames: FrameSet) -> CaptionRequest:
        """Return what the model is given."""
        return CaptionRequest(
            index=self.index,
            prompt=self.prompt,
            frames=frames.frames,
            indices=frames.indices,
            times=frames.times,
            fps=frames.fps,
            total_frames=frames.total,
            duration=frames.duration,
        )

    def record(self, frames: FrameSet, policy: str) -> dict[str, Any]:
        """Return what is recorded of the frames; `policy` is the reader's."""
        record = frames.record()
        return {"policy": policy} | {key: record[key] for key in _RECORDED if key in record}


Record = Callable[[Job, Captioned | Uncaptioned, Mapping[str, Any]], None]
"""Called once with each outcome and what the caption line records of its frames."""


@dataclass
class _Read:
    job: Job
    frames: FrameSet
    size: int


async def caption_videos(
    jobs: Sequence[Job],
    reader: FrameReader,
    captioner: Captioner,
    *,
    record: Record,
    threads: int = 2,
) -> None:
    """Caption videos, `threads` of them decoded at a time; pass each outcome to `record`."""
    await _Pipeline(jobs, reader, captioner, record).run(threads)


class _Pipeline:
    """Runs the readers, the batches (in the order of the videos) and the model's calls.

    Which videos share a batch depends on their order and frame counts alone, never on which was
    decoded first: in bf16 a caption can depend on its batch.
    """

    def __init__(
        self, jobs: Sequence[Job], reader: FrameReader, captioner: Captioner, record: Record
    ) -> None:
        self._todo: Iterator[tuple[int, Job]] = enumerate(jobs)
        self._reader, self._captioner, self._record = reader, captioner, record
        self._arrived: dict[int, _Read | None] = {}
        self._next = 0
        self._waiting: dict[int, list[_Read]] = {}
        self._pool: list[_Read] = []
        self._mixes = bool(getattr(captioner, "mixes_frame_counts", False))
        self._ready: deque[list[_Read]] = deque()
        self._held = self._bytes = self._reading = self._readers = 0
        self._changed = asyncio.Event()
        self._cancel = threading.Event()
        self._stopped: list[BaseException] = []
        self._calls: set[asyncio.Task[None]] = set()
        self._fail_fast = FailFast()

    async def run(self, threads: int) -> None:
        self._readers = threads
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(threads):
                    group.create_task(self._read_on(threads))
                await self._caption_all(group)
        except BaseExceptionGroup as several:
            # Such as of a captioner whose batch size can no longer be read.
            raise several.exceptions[0] from several
        finally:
            self._cancel.set()
        if self._stopped:
            raise self._stopped[0]

    # Reading

    async def _read_on(self, threads: int) -> None:
        try:
            while not self._stopped:
                if self._is_full(threads):
                    await self._wait_for_change()
                    continue
                number, job = next(self._todo, (0, None))
                if job is None:
                    return
                self._reading += 1
                try:
                    read = await self._read(job)
                finally:
                    self._reading -= 1
                self._arrive(number, read)
                del read
                self._changed.set()
        finally:
            self._readers -= 1
            if self._readers == 0:
                while self._waiting:
                    self._ready.append(self._waiting.pop(next(iter(self._waiting))))
                while self._pool:
                    self._take_from_pool()
            self._changed.set()

    async def _read(self, job: Job) -> _Read | None:
        try:
            with blaming(
                lambda error: _FailedError(describe(error, 300)), passing=(UsageError, VideoError)
            ):
                frames = await in_thread(partial(job.read, self._reader, self._cancel))
        except UsageError as failure:  # no decoder: no video can be read
            self._stop(failure)
        except VideoError as failure:
            self._unread(job, failure.message)
        except _FailedError as failure:
            # A decoder may raise anything on a broken file; the other videos continue.
            trace("video not decoded", failure=failure, index=job.index)
            self._unread(job, f"cannot be decoded ({failure})")
        else:
            return _Read(job, frames, frames.frames.nbytes)
        return None

    def _unread(self, job: Job, reason: str) -> None:
        if not self._stopped:  # else the run was stopped while it was read
            self._recorded(job, Uncaptioned(job.index, one_line(reason)), {})

    def _is_full(self, threads: int) -> bool:
        size = self._size
        count = (3 * size if size > 1 else 1) + threads
        return self._held + self._reading >= count or self._bytes >= AHEAD_BYTES

    # Batching

    @property
    def _size(self) -> int:
        return max(1, self._captioner.batch_size)

    def _arrive(self, number: int, read: _Read | None) -> None:
        self._arrived[number] = read
        if read is not None:
            self._held += 1
            self._bytes += read.size
        while self._next in self._arrived:
            ready = self._arrived.pop(self._next)
            self._next += 1
            if ready is not None:
                self._gather(ready)

    def _gather(self, read: _Read) -> None:
        if self._mixes:
            self._pool.append(read)
            # Wider than a batch, so that videos of similar length find each other.
            if len(self._pool) >= 2 * self._size or self._pooled() >= AHEAD_BYTES // 2:
                self._take_from_pool()
            return
        count = len(read.frames.indices)
        self._waiting.setdefault(count, []).append(read)
        if len(self._waiting[count]) >= self._size:
            self._ready.append(self._waiting.pop(count))
        waiting = [read for group in self._waiting.values() for read in group]
        # Videos of many different frame counts: waiting longer would only block the readers.
        if len(waiting) >= 2 * self._size or sum(r.size for r in waiting) >= AHEAD_BYTES // 2:
            fullest = max(self._waiting, key=lambda count: len(self._waiting[count]))
            self._ready.append(self._waiting.pop(fullest))

    def _pooled(self) -> int:
        return sum(read.size for read in self._pool)

    def _take_from_pool(self) -> None:
        # The one that waits longest, with those nearest to it in length: they are padded least.
        first = len(self._pool[0].frames.indices)
        nearest = sorted(self._pool, key=lambda read: abs(len(read.frames.indices) - first))
        batch = nearest[: self._size]
        chosen = set(map(id, batch))
        self._pool = [read for read in self._pool if id(read) not in chosen]
        self._ready.append(batch)

    # Captioning

    async def _caption_all(self, group: asyncio.TaskGroup) -> None:
        while not self._stopped:
            if self._ready and len(self._calls) < max(1, self._captioner.concurrency):
                batch = self._ready.popleft()
                self._held -= len(batch)
                self._bytes -= sum(read.size for read in batch)
                call = group.create_task(self._caption(batch))
                del batch
                self._calls.add(call)
                call.add_done_callback(self._calls.discard)
                call.add_done_callback(lambda _: self._changed.set())
                self._changed.set()
                # The call starts before the next batch is chosen, so that it can free its frames.
                await asyncio.sleep(0)
            elif self._readers == 0 and not self._ready:
                return
            else:
                await self._wait_for_change()

    async def _caption(self, batch: list[_Read]) -> None:
        seen = [
            (read.job, read.job.record(read.frames, self._reader.policy), read.frames.warnings)
            for read in batch
        ]
        requests = [read.job.request(read.frames) for read in batch]
        batch.clear()
        started = time.perf_counter()
        returned: Sequence[object]
        failed: str | None = None
        try:
            with blaming(lambda error: _FailedError(f"the model failed: {describe(error, 300)}")):
                # A list made here would keep the frames alive as long as the call runs.
                found = await self._captioner.caption(_handed_over(requests))
                returned = _as_list(found, len(seen))
        except CapevalError as failure:
            self._stop(failure)
            return
        except _FailedError as failure:
            trace("model failed", failure=failure, indexes=[job.index for job, _, _ in seen])
            returned = [Uncaptioned(job.index, str(failure)) for job, _, _ in seen]
            failed = str(failure)
        seconds = (time.perf_counter() - started) / len(seen)
        for (job, frames, warnings), value in zip(seen, returned, strict=True):
            made = (
                Captioned(job.index, value, Usage(), seconds, self._captioner.name)
                if isinstance(value, str)
                else value
            )
            outcome = _checked(job, made, warnings)
            self._recorded(job, outcome, frames)
            if (error := self._fail_fast.record(outcome)) and not self._stopped:
                self._stop(error)
        if (down := self._fail_fast.called(failed, len(seen))) and not self._stopped:
            self._stop(down)

    def _recorded(
        self, job: Job, outcome: Captioned | Uncaptioned, frames: Mapping[str, Any]
    ) -> None:
        reason = outcome.reason if isinstance(outcome, Uncaptioned) else None
        trace("captioned" if reason is None else "not captioned", index=job.index, reason=reason)
        try:
            self._record(job, outcome, frames)
        except Exception as failure:  # the disk is full: nothing can be kept any more
            self._stop(failure, lets_calls_finish=True)

    def _stop(self, failure: BaseException, *, lets_calls_finish: bool = False) -> None:
        self._stopped.append(failure)
        self._cancel.set()
        # Otherwise calls under way are awaited: they are paid for already.
        if not (lets_calls_finish or getattr(failure, "lets_calls_finish", False)):
            for call in self._calls:
                if call is not asyncio.current_task():
                    call.cancel()
        self._changed.set()

    async def _wait_for_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


def _handed_over(requests: list[CaptionRequest]) -> list[CaptionRequest]:
    handed = requests.copy()
    requests.clear()
    return handed


class _FailedError(Exception):
    """A model or a decoder failed; the message is the reason."""


def _as_list(returned: object, count: int) -> Sequence[object]:
    if not isinstance(returned, list | tuple):
        raise TypeError(f"it returned a {type(returned).__name__}, not a list of captions")
    if len(returned) != count:
        raise ValueError(f"it returned {len(returned)} captions for {count} videos")
    return [*returned]


def _checked(job: Job, outcome: object, frame_warnings: tuple[str, ...]) -> Captioned | Uncaptioned:
    """Return a captioner's outcome as recorded; one that cannot be recorded is `Uncaptioned`."""
    index = job.index
    try:
        with blaming(
            lambda error: _FailedError(f"a value that raises {describe(error)}"),
            passing=(_FailedError,),
        ):
            if isinstance(outcome, Uncaptioned) and outcome.index == index:
                return Uncaptioned(index, one_line(str(outcome.reason)))
            made = _validated(index, outcome)
    except _FailedError as fault:
        return Uncaptioned(index, one_line(f"the model returned {fault}"))
    if job.kind == "answer":
        warnings = (*frame_warnings, *made.warnings)
        return replace(made, warnings=tuple(dict.fromkeys(warnings)))
    try:
        caption = caption_in(made.text)
    except ReplyError as fault:
        return Uncaptioned(index, str(fault))
    if is_empty(caption):
        return Uncaptioned(index, "the caption is empty")
    removed = REASONING_REMOVED if has_reasoning(made.text) else None
    found = filter(None, (removed, repetition_warning(caption)))
    warnings = (*frame_warnings, *made.warnings, *found)
    return replace(made, text=caption, warnings=tuple(dict.fromkeys(warnings)))


def _validated(index: str, outcome: object) -> Captioned:
    """Return a caption of plain values that can be stored and read again."""
    if isinstance(outcome, Captioned | Uncaptioned) and outcome.index != index:
        raise _FailedError(f"the outcome of {shown(outcome.index)} in its place")
    if not isinstance(outcome, Captioned):
        raise _FailedError(f"a {type(outcome).__name__}, not a caption")
    values = {name: getattr(outcome, name) for name in _TYPES}
    for name, kind in _TYPES.items():
        if not isinstance(values[name], kind):
            raise _FailedError(f"a caption whose {name} is a {type(values[name]).__name__}")
    warnings = [*values["warnings"]]
    for warning in warnings:
        if not isinstance(warning, str):
            raise _FailedError(f"a caption with a warning that is a {type(warning).__name__}")
    try:
        seconds, details, usage = as_stored(
            [values["seconds"], dict(values["details"]), dict(values["usage"])]
        )
        return Captioned(
            index=index,
            text=_encodable(values["text"]).strip(),
            usage=Usage(**usage),
            seconds=seconds,
            model=_encodable(values["model"]),
            revision=None if values["revision"] is None else _encodable(values["revision"]),
            warnings=tuple(map(_encodable, warnings)),
            details=details,
            likelihoods=_pairs(values["likelihoods"]),
        )
    except ValidationError as faults:
        raise _FailedError(f"a caption whose usage.{': '.join(complaint(faults))}") from None
    except (TypeError, ValueError) as error:
        raise _FailedError(f"a caption that is not JSON: {one_line(str(error), 120)}") from None


def _pairs(values: Any) -> tuple[tuple[float, int], ...] | None:
    if values is None:
        return None
    pairs = tuple((float(total), int(tokens)) for total, tokens in values)
    if not all(math.isfinite(total) and tokens > 0 for total, tokens in pairs):
        raise ValueError("a likelihood is not a number")
    return pairs


def _encodable(text: str) -> str:
    # An unpaired surrogate can be neither printed nor read again; methods of `str` itself are used
    # because a subclass could have others.
    return str.encode(text, "utf-8", "replace").decode("utf-8")


_TYPES: Mapping[str, Any] = {
    "text": str,
    "usage": Usage,
    "seconds": int | float,
    "model": str,
    "revision": str | None,
    "warnings": list | tuple,
    "details": Mapping,
    "likelihoods": list | tuple | None,
}
