from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from capeval.errors import MissingExtra, VideoError
from capeval.video import FrameSet, Policy, Uniform, decoder_named, prefetch
from tests.video.clips import make_clip, numbers


def frame_set() -> FrameSet:
    frames = np.zeros((2, 8, 8, 3), np.uint8)
    return FrameSet(frames, (0, 1), (0.0, 0.1), 2, 10, 0.2, "fake", "1")


class FakeDecoder:
    """Counts the frame sets that are alive."""

    def __init__(self, fails: str = "bad") -> None:
        self.alive, self.most_alive, self.reads = 0, 0, 0
        self._fails, self._lock = fails, threading.Lock()

    def read(
        self, path: Path, policy: Policy, *, cancel: threading.Event | None = None
    ) -> FrameSet:
        if self._fails in path.name:
            raise VideoError("is broken", file=path)
        # Later videos are ready first.
        time.sleep(0.002 * (hash(path.name) % 3))
        frames = frame_set()
        with self._lock:
            self.reads += 1
            self.alive += 1
            self.most_alive = max(self.most_alive, self.alive)
        weakref.finalize(frames, self._freed)
        return frames

    def _freed(self) -> None:
        with self._lock:
            self.alive -= 1


def test_videos_come_in_input_order_with_errors_as_values() -> None:
    names = [f"{'bad' if n % 10 == 3 else 'good'}_{n}" for n in range(60)]
    seen = []
    for name, outcome in prefetch(names, Uniform(2), FakeDecoder(), workers=4, depth=8):
        seen.append(name)
        assert isinstance(outcome, VideoError) == name.startswith("bad")
        if isinstance(outcome, VideoError):
            assert str(outcome) == f"{name}: is broken"
    assert seen == names


def test_no_more_than_depth_and_one_are_alive_and_the_list_is_read_lazily() -> None:
    decoder = FakeDecoder()
    named: list[str] = []

    def names() -> Iterator[str]:
        for n in range(100):
            named.append(f"v{n}")
            yield named[-1]

    for done, (_, _outcome) in enumerate(
        prefetch(names(), Uniform(2), decoder, workers=3, depth=4), start=1
    ):
        assert len(named) <= done + 4
    gc.collect()
    assert decoder.reads == 100
    assert decoder.most_alive <= 5


def test_it_goes_no_further_than_depth_ahead_of_a_slow_user() -> None:
    decoder = FakeDecoder()
    ahead = prefetch((f"v{n}" for n in range(100)), Uniform(2), decoder, workers=2, depth=3)
    next(ahead)
    time.sleep(0.1)
    assert decoder.reads <= 4
    ahead.close()  # type: ignore[attr-defined]
    assert decoder.reads <= 4


class EndlessDecoder:
    def __init__(self) -> None:
        self.cancelled = threading.Event()

    def read(
        self, path: Path, policy: Policy, *, cancel: threading.Event | None = None
    ) -> FrameSet:
        if path.name == "first":
            return frame_set()
        assert cancel is not None
        assert cancel.wait(30)
        self.cancelled.set()
        raise VideoError("was stopped", file=path)


@pytest.mark.parametrize("fault", [None, KeyboardInterrupt, RuntimeError])
def test_leaving_early_stops_the_decoding_under_way(fault: type[BaseException] | None) -> None:
    decoder = EndlessDecoder()
    before = threading.active_count()

    def use() -> None:
        for name, _ in prefetch(["first", "second", "third"], Uniform(2), decoder):
            assert name == "first"
            if fault is not None:
                raise fault
            break

    if fault is None:
        use()
    else:
        with pytest.raises(fault):
            use()
    gc.collect()
    assert decoder.cancelled.wait(5)
    assert threading.active_count() == before


def test_a_real_decoder_is_stopped_in_the_middle_of_a_video(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "v.mp4", 200)
    before = threading.active_count()
    ahead = prefetch([path] * 50, Uniform(32), decoder_named("pyav"), workers=2, depth=4)
    _, first = next(ahead)
    ahead.close()  # type: ignore[attr-defined]
    assert isinstance(first, FrameSet)
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before


def test_a_fault_that_is_not_of_the_video_ends_the_run() -> None:
    class Absent:
        def read(
            self, path: Path, policy: Policy, *, cancel: threading.Event | None = None
        ) -> FrameSet:
            raise MissingExtra("it needs PyAV")

    with pytest.raises(MissingExtra):
        list(prefetch(["a"], Uniform(2), Absent()))


def test_frames_that_do_not_fit_into_memory_are_an_error_of_the_video() -> None:
    class Huge:
        def read(
            self, path: Path, policy: Policy, *, cancel: threading.Event | None = None
        ) -> FrameSet:
            raise MemoryError

    (_, outcome), *_ = prefetch(["a"], Uniform(2), Huge())
    assert str(outcome) == "a: its frames do not fit into memory"


def test_real_videos_and_broken_ones_together(tmp_path: Path) -> None:
    videos = [make_clip(tmp_path / f"{n}.mp4", 10 + n) for n in range(8)]
    videos[3].write_bytes(b"")
    videos[5] = tmp_path / "missing.mp4"
    decoder = decoder_named("pyav", threads=1)
    outcomes = list(prefetch(videos, Uniform(4), decoder, workers=3, depth=3))
    assert [video for video, _ in outcomes] == videos
    reasons = [str(outcome) for _, outcome in outcomes if isinstance(outcome, VideoError)]
    assert [reason.split(": ", 1)[1] for reason in reasons] == [
        "is empty (0 bytes)",
        "does not exist",
    ]
    for video, outcome in outcomes:
        if isinstance(outcome, FrameSet):
            assert numbers(outcome.frames) == list(outcome.indices), video
            assert outcome.total == 10 + int(video.stem)
