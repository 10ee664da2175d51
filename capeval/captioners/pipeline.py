"""From videos to captions: frames are read ahead, batched by their number, and captioned."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from capeval.captioners.frames import FrameReader, Frames, frame_record
from capeval.captioners.protocol import Captioned, Captioner, CaptionRequest, Uncaptioned
from capeval.captioners.texts import LOOP, is_empty, loops
from capeval.errors import BudgetReached, CapevalError, UsageError, VideoError, one_line

__all__ = ["Job", "Record", "caption_videos", "in_thread"]

T = TypeVar("T")

# Decoded frames that wait for the model; a batch of 32 frames of 1080p is 200 MB a video.
AHEAD_BYTES = 2 << 30
ALIKE_UNTIL_HOPELESS = 20


@dataclass(frozen=True)
class Job:
    """One video to caption."""

    index: str
    path: Path
    prompt: str


Record = Callable[[Job, Captioned | Uncaptioned, Mapping[str, Any]], None]
"""Told of each outcome once, with what the caption line says of its frames."""


@dataclass
class _Read:
    job: Job
    frames: Frames
    size: int

    def request(self) -> CaptionRequest:
        frames = self.frames
        return CaptionRequest(
            index=self.job.index,
            prompt=self.job.prompt,
            frames=frames.frames,
            indices=frames.indices,
            times=frames.times,
            fps=frames.fps,
            total_frames=frames.total,
            duration=frames.duration,
        )


async def caption_videos(
    jobs: Sequence[Job],
    reader: FrameReader,
    captioner: Captioner,
    *,
    record: Record,
    threads: int = 2,
) -> None:
    """Caption videos; `record` gets each outcome as soon as it is there.

    `threads` videos are decoded at a time. A video without frames or caption is an `Uncaptioned`.

    Raises
    ------
    EndpointRefused, EndpointDown, BudgetReached
        No further video can be captioned; what was recorded stays.
    UsageError
        The decoder is not installed, or the first videos all fail alike.
    """
    await _Pipeline(jobs, reader, captioner, record).run(threads)


class _Pipeline:
    def __init__(
        self, jobs: Sequence[Job], reader: FrameReader, captioner: Captioner, record: Record
    ) -> None:
        self._todo: Iterator[Job] = iter(jobs)
        self._reader, self._captioner, self._record = reader, captioner, record
        self._waiting: dict[int, list[_Read]] = {}
        self._held = self._bytes = self._reading = self._readers = 0
        self._changed = asyncio.Event()
        self._cancel = threading.Event()
        self._stopped: list[BaseException] = []
        self._calls: set[asyncio.Task[None]] = set()
        self._hope = _Hope()

    async def run(self, threads: int) -> None:
        self._readers = threads
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(threads):
                    group.create_task(self._read_on(threads))
                await self._caption_all(group)
        finally:
            self._cancel.set()
        if self._stopped:
            raise self._stopped[0]

    # Reading

    async def _read_on(self, threads: int) -> None:
        try:
            while not self._stopped:
                if self._is_full(threads):
                    await self._change()
                    continue
                job = next(self._todo, None)
                if job is None:
                    return
                self._reading += 1
                try:
                    frames = await in_thread(
                        partial(self._reader.read, job.path, cancel=self._cancel)
                    )
                except UsageError as failure:  # no decoder: no video can be read
                    self._stop(failure)
                except VideoError as failure:
                    self._unread(job, failure.message)
                except Exception as failure:
                    # Whatever a broken file does to a decoder, the other videos go on.
                    said = one_line(f"{type(failure).__name__}: {failure}")
                    self._unread(job, f"cannot be decoded ({said})")
                else:
                    self._hold(_Read(job, frames, frames.frames.nbytes))
                    del frames
                finally:
                    self._reading -= 1
                    self._tell()
        finally:
            self._readers -= 1
            self._tell()

    def _unread(self, job: Job, reason: str) -> None:
        if not self._stopped:  # else it was not read because nobody wanted it any more
            self._recorded(job, Uncaptioned(job.index, one_line(reason)), {})

    def _is_full(self, threads: int) -> bool:
        count = 2 * max(1, self._captioner.batch_size) + threads
        return self._held + self._reading >= count or self._bytes >= AHEAD_BYTES

    def _hold(self, read: _Read) -> None:
        self._waiting.setdefault(len(read.frames.indices), []).append(read)
        self._held += 1
        self._bytes += read.size

    # Captioning

    async def _caption_all(self, group: asyncio.TaskGroup) -> None:
        while not self._stopped:
            free = len(self._calls) < max(1, self._captioner.concurrency)
            batch = self._batch() if free else None
            if batch:
                call = group.create_task(self._caption(batch))
                del batch
                self._calls.add(call)
                call.add_done_callback(self._called)
                # The call starts before the next is chosen, so that it can let go of frames.
                await asyncio.sleep(0)
            elif self._readers == 0 and not self._held:
                return
            else:
                await self._change()

    def _batch(self) -> list[_Read]:
        """A full batch; or what there is, where waiting longer would bring nothing."""
        size = max(1, self._captioner.batch_size)
        if not self._waiting:
            return []
        count = max(self._waiting, key=lambda count: len(self._waiting[count]))
        last = self._readers == 0 or (self._reading == 0 and self._is_full(0))
        if len(self._waiting[count]) < size and not last:
            return []
        batch, rest = self._waiting[count][:size], self._waiting[count][size:]
        if rest:
            self._waiting[count] = rest
        else:
            del self._waiting[count]
        self._held -= len(batch)
        self._bytes -= sum(read.size for read in batch)
        self._tell()
        return batch

    async def _caption(self, batch: list[_Read]) -> None:
        seen = [
            (read.job, frame_record(read.frames, self._reader.policy), read.frames.warnings)
            for read in batch
        ]
        requests = [read.request() for read in batch]
        batch.clear()
        try:
            # A list made here would keep the frames alive as long as the call runs.
            outcomes = await self._captioner.caption(_handed_over(requests))
            if len(outcomes) != len(seen):
                raise ValueError(f"{len(outcomes)} outcomes for {len(seen)} requests")
        except CapevalError as failure:
            self._stop(failure)
            return
        except Exception as failure:
            said = one_line(f"the model failed: {type(failure).__name__}: {failure}")
            outcomes = [Uncaptioned(job.index, said) for job, _, _ in seen]
        for (job, frames, warnings), outcome in zip(seen, outcomes, strict=True):
            checked = _checked(outcome, warnings)
            self._recorded(job, checked, frames)
            if (hopeless := self._hope.lost(checked)) and not self._stopped:
                self._stop(hopeless)

    def _recorded(
        self, job: Job, outcome: Captioned | Uncaptioned, frames: Mapping[str, Any]
    ) -> None:
        try:
            self._record(job, outcome, frames)
        except Exception as failure:  # the disk is full: nothing can be kept any more
            self._stop(failure)

    def _called(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        self._tell()

    def _stop(self, failure: BaseException) -> None:
        self._stopped.append(failure)
        self._cancel.set()
        # A reached budget lets what is under way come in, since it is paid for already.
        if not isinstance(failure, BudgetReached):
            for call in self._calls:
                if call is not asyncio.current_task():
                    call.cancel()
        self._tell()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _tell(self) -> None:
        self._changed.set()


def _handed_over(requests: list[CaptionRequest]) -> list[CaptionRequest]:
    handed = requests.copy()
    requests.clear()
    return handed


def _checked(
    outcome: Captioned | Uncaptioned, frame_warnings: tuple[str, ...]
) -> Captioned | Uncaptioned:
    if isinstance(outcome, Uncaptioned):
        return outcome
    text = outcome.text.strip()
    if is_empty(text):
        return Uncaptioned(outcome.index, "the caption is empty")
    loop = (LOOP,) if loops(text) and not any("loop" in w for w in outcome.warnings) else ()
    return Captioned(
        index=outcome.index,
        text=text,
        usage=outcome.usage,
        seconds=outcome.seconds,
        model=outcome.model,
        revision=outcome.revision,
        warnings=(*frame_warnings, *outcome.warnings, *loop),
        details=outcome.details,
    )


class _Hope:
    """Notices that nothing will ever come: the first videos all fail, and all in the same way."""

    def __init__(self) -> None:
        self._reason: str | None = None
        self._alike = 0

    def lost(self, outcome: Captioned | Uncaptioned) -> CapevalError | None:
        if isinstance(outcome, Captioned) or (self._alike and outcome.reason != self._reason):
            self._alike = -1
        if self._alike < 0 or isinstance(outcome, Captioned):
            return None
        self._alike, self._reason = self._alike + 1, outcome.reason
        if self._alike < ALIKE_UNTIL_HOPELESS:
            return None
        return UsageError(f"the first {self._alike} videos all failed alike: {outcome.reason}")


async def in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread that nobody waits for at exit: a decoder may hang for ever."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, failure: BaseException | None) -> None:
        if future.done():  # cancelled meanwhile
            return
        if failure is not None:
            future.set_exception(failure)
        else:
            future.set_result(cast("T", result))

    def run() -> None:
        result: T | None = None
        failure: BaseException | None = None
        try:
            result = work()
        except BaseException as caught:
            failure = caught
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, daemon=True).start()
    return await future
