"""From videos to captions: frames are read ahead, batched, and captioned.

Videos with equal numbers of frames share a batch. A model that can pad also gets videos of
similar length together.
"""

from __future__ import annotations

import asyncio
import math
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from capeval.captioners.catalogue import OpenCaptioner
from capeval.captioners.protocol import Captioned, Captioner, CaptionRequest, Outcome, Uncaptioned
from capeval.errors import CapevalError, ModelDown, ReplyError, UsageError, VideoError
from capeval.files.captions import REASONING_REMOVED, caption_in, has_reasoning
from capeval.language import words
from capeval.llm.money import CHARACTERS, TOKENS_PER_IMAGE
from capeval.llm.tracing import trace
from capeval.runs.concurrency import in_thread
from capeval.schema import Usage
from capeval.text import counted, describe, one_line, shown
from capeval.video import FrameReader, FrameSet

CUT_OFF = "cut off at {} tokens"

# Each decodes with all cores; the second reads and scales while the first waits for its file.
READERS = 2
# Decoded frames that wait for the model; a batch of 32 frames of 1080p is 200 MB a video.
AHEAD_BYTES = 2 << 30
_RECORDED = (
    *("indices", "times", "total_frames", "fps", "duration"),
    *("decoder", "decoder_version", "hdr", "tone_mapping"),
)


@dataclass(frozen=True)
class Job:
    """One video to caption; questions have their own class.

    `video` is the file's path in the folder of the videos and its size in bytes, `run` the id of
    the caption's run, and `kind` the kind of reply: see `CaptionRequest`.
    """

    index: str
    path: Path
    prompt: str
    video: Mapping[str, Any] = field(default_factory=dict)
    run: str = field(default="", kw_only=True)
    kind: ClassVar[Literal["caption", "answer"]] = "caption"

    def read(self, reader: FrameReader, cancel: threading.Event | None = None) -> FrameSet:
        return reader.read(self.path, cancel=cancel)

    def request(self, frames: FrameSet, reader: FrameReader) -> CaptionRequest:
        del reader
        return CaptionRequest(
            index=self.index,
            prompt=self.prompt,
            frames=frames.frames,
            indices=frames.indices,
            times=frames.times,
            fps=frames.fps,
            total_frames=frames.total,
            duration=frames.duration,
            run=self.run,
        )

    def record(self, frames: FrameSet, reader: FrameReader) -> dict[str, Any]:
        """Return the caption line's record of the frames."""
        record = frames.record()
        return {"policy": reader.policy} | {key: record[key] for key in _RECORDED if key in record}


KeepOutcome = Callable[[Job, Outcome, Mapping[str, Any]], None]
"""Called once with each outcome and the caption line's record of its frames."""


async def caption_videos(
    jobs: Sequence[Job],
    reader: FrameReader,
    captioner: Captioner,
    record: KeepOutcome,
    *,
    fail_fast: FailFast | None = None,
) -> None:
    """Caption videos, and pass each outcome to `record`; `fail_fast` counts outcomes."""
    await _Pipeline(reader, captioner, record, fail_fast or FailFast()).run(jobs)


_Read = tuple[Job, FrameSet]


class _Pipeline:
    """Runs the readers, the batches (in the order of the videos) and the model's calls.

    Which videos share a batch depends on their order and frame counts alone, never on which was
    decoded first: in bf16 a caption can depend on its batch.
    """

    def __init__(
        self, reader: FrameReader, captioner: Captioner, record: KeepOutcome, fail_fast: FailFast
    ) -> None:
        self._reader, self._captioner, self._record = reader, captioner, record
        self._fail_fast = fail_fast
        self._mixes = bool(getattr(captioner, "mixes_frame_counts", False))
        self._pool: list[_Read] = []
        self._bytes = 0
        self._turns = asyncio.Semaphore(READERS)
        self._cancel = threading.Event()
        self._stopped: list[BaseException] = []
        self._calls: set[asyncio.Task[None]] = set()

    async def run(self, jobs: Sequence[Job]) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                await self._run(iter(jobs), group)
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from several
        finally:
            self._cancel.set()
        if self._stopped:
            raise self._stopped[0]

    async def _run(self, todo: Iterator[Job], group: asyncio.TaskGroup) -> None:
        ahead: deque[asyncio.Task[_Read | None]] = deque()
        while not self._stopped:
            size = self._size
            room = (3 * size if size > 1 else 1) + READERS
            while len(ahead) + len(self._pool) < room and self._bytes < AHEAD_BYTES:
                if (job := next(todo, None)) is None:
                    break
                ahead.append(group.create_task(self._read(job)))
            is_last = not ahead
            if is_last and not self._pool:
                return
            if ahead and (read := await ahead.popleft()):
                self._pool.append(read)
                del read
            if not (batch := self._take_batch(is_last=is_last)):
                continue
            call = group.create_task(self._caption(batch))
            del batch
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
            # The call starts first, so that it can free its frames.
            await asyncio.sleep(0)
            while self._calls and len(self._calls) >= self._captioner.concurrency:
                await asyncio.wait(self._calls, return_when=asyncio.FIRST_COMPLETED)

    @property
    def _size(self) -> int:
        return max(1, self._captioner.batch_size)

    def _take_batch(self, *, is_last: bool) -> list[_Read]:
        """Take a batch from the queue; none while it is better to read more videos first.

        It has the most common frame count; for a model that pads, the longest-waiting video and
        those nearest in length.
        """

        def alike(one: _Read) -> list[_Read]:
            def apart(read: _Read) -> int:
                return abs(len(read[1]) - len(one[1]))

            found = (read for read in self._pool if self._mixes or not apart(read))
            return sorted(found, key=apart)

        size = self._size
        batch = max(map(alike, self._pool[:1] if self._mixes else self._pool), key=len, default=[])
        # For a model that pads, more than one batch waits, to group videos of similar length. For
        # others, waiting longer for equal frame counts would only block the readers.
        is_full = len(batch) >= size and not self._mixes
        waiting = sum(frames.frames.nbytes for _, frames in self._pool)
        if not (is_last or is_full or len(self._pool) >= 2 * size or waiting >= AHEAD_BYTES // 2):
            return []
        batch = batch[:size]
        self._pool = [read for read in self._pool if read not in batch]
        self._bytes -= sum(frames.frames.nbytes for _, frames in batch)
        return batch

    async def _read(self, job: Job) -> _Read | None:
        async with self._turns:
            if self._stopped:
                return None
            try:
                frames = await in_thread(partial(job.read, self._reader, self._cancel))
            except UsageError as failure:  # no decoder: no video can be read
                self._stop(failure)
                return None
            except VideoError as failure:
                reason = failure.message
            except Exception as failure:
                # A decoder may raise anything on a broken file; the other videos continue.
                trace("video not decoded", failure=failure, index=job.index)
                reason = f"cannot be decoded ({describe(failure, 300)})"
            else:
                self._bytes += frames.frames.nbytes
                return job, frames
            if not self._stopped:  # else the run was stopped while it was read
                self._recorded(job, Uncaptioned(job.index, one_line(reason)), {})
            return None

    async def _caption(self, batch: list[_Read]) -> None:
        seen = [(job, job.record(frames, self._reader), frames.warnings) for job, frames in batch]
        started = time.perf_counter()
        returned: Sequence[object]
        raised: str | None = None
        try:
            call = self._captioner.caption(
                [job.request(frames, self._reader) for job, frames in batch]
            )
            # Only the call still has the frames, and may release them.
            batch.clear()
            returned = _as_list(await call, len(seen))
        except CapevalError as failure:
            self._stop(failure)
            return
        except Exception as failure:
            trace("model failed", failure=failure, indexes=[job.index for job, _, _ in seen])
            raised = describe(failure, 300)
            returned = [Uncaptioned(job.index, f"the model failed: {raised}") for job, _, _ in seen]
        seconds = (time.perf_counter() - started) / len(seen)
        for (job, frames, warnings), value in zip(seen, returned, strict=True):
            outcome = _checked(job, value, warnings, seconds, self._captioner.name)
            self._recorded(job, outcome, frames)
            if (error := self._fail_fast.record(outcome)) and not self._stopped:
                self._stop(error)
        if (down := self._fail_fast.called(raised, len(seen))) and not self._stopped:
            self._stop(down)

    def _recorded(self, job: Job, outcome: Outcome, frames: Mapping[str, Any]) -> None:
        reason = outcome.reason if isinstance(outcome, Uncaptioned) else None
        trace("captioned" if reason is None else "not captioned", index=job.index, reason=reason)
        try:
            self._record(job, outcome, frames)
        except Exception as failure:  # the disk is full: nothing can be kept any more
            self._stop(failure, lets_calls_finish=True)

    def _stop(self, failure: BaseException, *, lets_calls_finish: bool = False) -> None:
        self._stopped.append(failure)
        self._cancel.set()
        # Otherwise calls in progress are awaited: they are already paid for.
        if not (lets_calls_finish or getattr(failure, "lets_calls_finish", False)):
            for call in self._calls:
                if call is not asyncio.current_task():
                    call.cancel()


def _as_list(returned: object, count: int) -> Sequence[object]:
    if not isinstance(returned, list | tuple):
        raise TypeError(f"it returned a {type(returned).__name__}, not a list of captions")
    if len(returned) != count:
        raise ValueError(f"it returned {len(returned)} captions for {count} videos")
    return [*returned]


def _checked(
    job: Job, outcome: object, frame_warnings: tuple[str, ...], seconds: float, model: str
) -> Outcome:
    """Return a captioner's outcome as recorded; one that cannot be recorded is `Uncaptioned`."""
    index = job.index
    if isinstance(outcome, str):
        outcome = Captioned(index, outcome, Usage(), seconds, model)
    if not isinstance(outcome, Outcome):
        return Uncaptioned(index, f"the model returned a {type(outcome).__name__}, not a caption")
    if outcome.index != index:
        other = shown(outcome.index)
        return Uncaptioned(index, f"the model returned the outcome of {other} instead")
    if isinstance(outcome, Uncaptioned):
        return Uncaptioned(index, one_line(str(outcome.reason)))
    text, found = outcome.text.strip(), [*frame_warnings, *outcome.warnings]
    if job.kind == "caption":
        try:
            text = caption_in(text)
        except ReplyError as fault:
            return Uncaptioned(index, str(fault))
        if is_empty(text):
            return Uncaptioned(index, "the caption is empty")
        if has_reasoning(outcome.text):
            found.append(REASONING_REMOVED)
        found += filter(None, [repetition_warning(text)])
    return replace(outcome, text=text, warnings=tuple(dict.fromkeys(found)))


# ---- When a failing run stops --------------------------------------------------------------------

# This many requests refused for one reason are not the fault of the videos. Files that cannot be
# decoded do not count.
_FAILURES = 20
# A GPU whose context is lost fails every later call. A bad video fails only its own; three in a
# row, with eight videos, are no coincidence, and few decoded videos are wasted.
_CALLS_IN_A_ROW = 3
_VIDEOS_IN_A_ROW = 8


class FailFast:
    """Stops a run whose first videos fail for one reason, or whose model fails repeatedly."""

    def __init__(self) -> None:
        self._reason: str | None = None
        self._failures = 0
        self._is_over = False
        self._calls = self._videos = 0

    def record(self, outcome: Outcome) -> CapevalError | None:
        """Count an outcome; return an error if the first outcomes share one reason."""
        if isinstance(outcome, Captioned) or (self._failures and outcome.reason != self._reason):
            self._is_over = True
        if self._is_over or isinstance(outcome, Captioned):
            return None
        self._failures, self._reason = self._failures + 1, outcome.reason
        if self._failures < _FAILURES:
            return None
        return UsageError(
            f"the first {self._failures} videos all failed for the same reason: {outcome.reason}"
        )

    def called(self, failure: str | None, videos: int) -> CapevalError | None:
        """Count a call; `failure` is the model's error. Return an error after several in a row."""
        if failure is None:
            self._calls = self._videos = 0
            return None
        self._calls, self._videos = self._calls + 1, self._videos + videos
        if self._calls < _CALLS_IN_A_ROW or self._videos < _VIDEOS_IN_A_ROW:
            return None
        return ModelDown(
            f"the model failed on {self._calls} calls in a row ({counted(self._videos, 'video')})"
            f", the last time with: {failure}"
        )


# ---- Empty captions and repetition loops ---------------------------------------------------------

# Markers of chat templates, such as <|im_end|>, are not words.
_MARKER = re.compile(r"<\|[^|<>]{1,40}\|>")


def is_empty(text: str) -> bool:
    """Return whether a text has no letter or digit of any script."""
    return not any(character.isalnum() for character in _MARKER.sub("", text))


# See `repetition_warning`: long enough for a repeated paragraph.
_LONGEST_PERIOD = 120
_FEWEST_REPEATS = 4
_FEWEST_WORDS = 24


def repetition_warning(text: str) -> str | None:
    """Return a warning if a block of words is repeated too often in a row, else None.

    A block of 1 to 120 words counts if it occurs at least 4 times in a row and the repeats
    together are at least 24 words long; case and punctuation are ignored. An ordinary list
    ("a red car, a red bus, a red van") stays far below that.

    >>> repetition_warning("A dog runs. " + "It runs on and on. " * 9)
    'repetition loop: "it runs on and on" 9 times'
    >>> repetition_warning("A dog runs, then it sleeps.") is None
    True
    """
    found = words(text)
    length = period = start = 0
    for size in range(1, min(_LONGEST_PERIOD, len(found) // _FEWEST_REPEATS) + 1):
        same = 0
        for at in range(size, len(found)):
            same = same + 1 if found[at] == found[at - size] else 0
            whole = same + size if same else 0
            if whole > length and whole >= max(_FEWEST_WORDS, _FEWEST_REPEATS * size):
                length, period, start = whole, size, at + 1 - whole
    if not length:
        return None
    block = " ".join(found[start : start + min(period, 12)]) + (" …" if period > 12 else "")
    return f'repetition loop: "{block}" {length // period} times'


# ---- The expected cost ---------------------------------------------------------------------------

# Tokens of a dense caption of a short clip.
_CAPTION_TOKENS = 300
_SAMPLED_VIDEOS = 3


async def estimate_generation(
    work: Sequence[Job], reader: FrameReader, opened: OpenCaptioner, written: int | None = None
) -> tuple[int, Usage]:
    """Estimate the frames per video and the tokens of `work`; reads up to three videos.

    `written` is the tokens per reply, by default the length of a caption.
    """
    if opened.base_url is None or not work:  # a model in this process costs nothing
        return 0, Usage()
    tokens, frames, seen = 0, 0, 0
    for job in work[:: max(1, len(work) // _SAMPLED_VIDEOS)][:_SAMPLED_VIDEOS]:
        try:
            read = await in_thread(partial(job.read, reader))
        except CapevalError:
            continue  # reported when it is captioned
        count, height, width = read.frames.shape[:3]
        tokens += count * image_tokens(opened.priced, width, height)
        frames += count
        seen += 1
    tokens, frames = (tokens // seen, round(frames / seen)) if seen else (0, 0)
    asked = sum(len(job.prompt) for job in work) // CHARACTERS
    return frames, Usage(
        calls=len(work),
        input_tokens=len(work) * tokens + asked,
        output_tokens=len(work) * (written or _CAPTION_TOKENS),
    )


def image_tokens(model: str, width: int, height: int) -> int:
    """Return the tokens of one image: by OpenAI's tiles where they apply, else a rough number.

    >>> image_tokens("gpt-4o-2024-08-06", 1280, 720)
    1105
    """
    if not model.startswith(("gpt-4o", "gpt-4.1", "gpt-4.5")) or "mini" in model or "nano" in model:
        return TOKENS_PER_IMAGE
    fits = min(1.0, 2048 / max(width, height))
    fits = min(fits, 768 / (min(width, height)))
    tiles = math.ceil(width * fits / 512) * math.ceil(height * fits / 512)
    return 85 + 170 * tiles
