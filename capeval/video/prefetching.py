"""Decodes videos ahead of their use, in order and in constant memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TypeVar

from capeval.errors import VideoError
from capeval.video.decoding import Decoder
from capeval.video.frames import FrameSet
from capeval.video.sampling import Policy

PathT = TypeVar("PathT", str, Path)


def prefetch(
    videos: Iterable[PathT], policy: Policy, decoder: Decoder, *, workers: int = 2, depth: int = 4
) -> Iterator[tuple[PathT, FrameSet | VideoError]]:
    """Yield every video with its frames, or with the reason why there are none, in input order.

    At most `depth` videos are decoded or being decoded ahead, besides the one that was handed out
    last. `videos` is read only so far ahead. Left early (`break`, an exception, Ctrl-C), it stops
    the decoding under way; close it (`contextlib.closing`) where it may outlive the loop.

    Raises
    ------
    MissingExtra
        The decoder needs a package that is not installed.
    """
    if workers < 1 or depth < 1:
        raise ValueError("workers and depth must be at least 1")
    cancel = threading.Event()

    def take(video: PathT) -> FrameSet | VideoError:
        try:
            return decoder.read(Path(video), policy, cancel=cancel)
        except VideoError as error:
            # Its traceback would keep the frames of the failed attempt alive.
            return error.with_traceback(None)
        except MemoryError:
            return VideoError("its frames do not fit into memory", file=video)

    source = iter(videos)
    waiting: deque[tuple[PathT, Future[FrameSet | VideoError]]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="prefetch")
    try:
        while True:
            for video in islice(source, depth - len(waiting)):
                waiting.append((video, pool.submit(take, video)))
            if not waiting:
                return
            # No reference to the frames may stay here.
            yield _first(waiting)
    finally:
        cancel.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _first(
    waiting: deque[tuple[PathT, Future[FrameSet | VideoError]]],
) -> tuple[PathT, FrameSet | VideoError]:
    video, future = waiting.popleft()
    return video, future.result()
