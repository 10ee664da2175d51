"""How fast 32 frames are decoded, held against other decoders on the same clip in the same run."""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np

from benchmarks.judging import Row
from capeval.video import Uniform, decoder_named

__all__ = ["measure"]

_SECONDS, _RATE, _FRAMES, _ROUNDS = 15, 24, 32, 5
_POLICY = Uniform(_FRAMES)
_WANTED = [int(i) for i in np.linspace(0, _SECONDS * _RATE - 1, _FRAMES)]


def _make(path: Path, *, size: tuple[int, int], seconds: int, gop: int) -> Path:
    """Write a clip that is as hard to decode as a film: texture that moves, and grain."""
    width, height = size
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 255, (height // 8 + 40, width // 8 + 80, 3), dtype=np.uint8)
    texture = coarse.repeat(8, axis=0).repeat(8, axis=1)
    grain = rng.integers(0, 24, (height + 32, width + 32, 1), dtype=np.uint8)
    with av.open(str(path), "w") as out:
        options = {"preset": "veryfast", "crf": "23"}
        stream = out.add_stream("libx264", rate=_RATE, options=options)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = *size, "yuv420p", gop
        for n in range(seconds * _RATE):
            x, y = (n * 3) % 600, int(100 + 80 * np.sin(n / 9))
            part = texture[y : y + height, x : x + width] // 2 + 40
            dy, dx = rng.integers(0, 32, 2)
            frame = av.VideoFrame.from_ndarray(
                part + grain[dy : dy + height, dx : dx + width], format="rgb24"
            )
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return path


def _ours(path: Path) -> Any:
    return decoder_named("pyav").read(path, _POLICY).frames


def _decord(path: Path) -> Any:
    import decord

    return decord.VideoReader(str(path)).get_batch(_WANTED).asnumpy()


def _opencv(path: Path) -> Any:
    import cv2

    frames: list[Any] = []
    video, number = cv2.VideoCapture(str(path)), 0
    while len(frames) < _FRAMES and video.grab():
        if number == _WANTED[len(frames)]:
            frames.append(cv2.cvtColor(video.retrieve()[1], cv2.COLOR_BGR2RGB))
        number += 1
    return np.stack(frames)


def _opencv_seeking(path: Path) -> Any:
    import cv2

    frames: list[Any] = []
    video = cv2.VideoCapture(str(path))
    for index in _WANTED:
        video.set(cv2.CAP_PROP_POS_FRAMES, index)
        frames.append(cv2.cvtColor(video.read()[1], cv2.COLOR_BGR2RGB))
    return np.stack(frames)


def _pyav_seeking(path: Path) -> Any:
    frames: list[Any] = []
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        assert stream.time_base is not None
        for index in _WANTED:
            wanted = round(index / _RATE / stream.time_base)
            container.seek(wanted, stream=stream)
            for frame in container.decode(stream):
                if frame.pts is not None and frame.pts >= wanted:
                    frames.append(frame.to_ndarray(format="rgb24"))
                    break
    return np.stack(frames)


def _times(ways: dict[str, Callable[[Path], Any]], path: Path, rounds: int) -> dict[str, float]:
    """Return the median seconds of each way, taken in turns; all must give the same number."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            began = time.perf_counter()
            frames = way(path)
            taken[name].append(time.perf_counter() - began)
            if len(frames) != _FRAMES:
                raise SystemExit(f"{name} gave {len(frames)} frames")
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def _told(times: dict[str, float]) -> str:
    return ", ".join(f"{name} {seconds:.2f} s" for name, seconds in times.items())


def _against_others(path: Path, what: str) -> Iterator[Row]:
    ways: dict[str, Callable[[Path], Any]] = {"ours": _ours}
    ways |= {"decord": _decord} if importlib.util.find_spec("decord") else {}
    ways |= {"OpenCV": _opencv} if importlib.util.find_spec("cv2") else {}
    times = _times(ways, path, _ROUNDS)
    others = [seconds for name, seconds in times.items() if name != "ours"]
    ratio = times["ours"] / min(others) if others else 1.0
    yield Row(
        f"{_FRAMES} frames of a {_SECONDS} s {what} h264 clip, against the fastest other "
        f"sequential decoder installed (median of {_ROUNDS})",
        f"{ratio:.2f} x its time ({_told(times)})",
        "<= 1.35 x" if others else "",
        ratio <= 1.35,
    )


def _against_seekers(path: Path) -> Iterator[Row]:
    ways: dict[str, Callable[[Path], Any]] = {"ours": _ours, "PyAV seeking": _pyav_seeking}
    ways |= {"OpenCV seeking": _opencv_seeking} if importlib.util.find_spec("cv2") else {}
    times = _times(ways, path, 1)
    ratio = min(seconds for name, seconds in times.items() if name != "ours") / times["ours"]
    yield Row(
        "the same with one key frame in 300, against seeking for each frame",
        f"{ratio:.1f} x faster ({_told(times)})",
        ">= 3 x",
        ratio >= 3,
    )


def measure(folder: Path) -> Iterator[Row]:
    """Yield the rows one by one; `folder` is for scratch files."""
    sizes = {"1280x720": (1280, 720), "1580x892": (1580, 892)}
    for what, size in sizes.items():
        path = _make(folder / f"{what}.mp4", size=size, seconds=_SECONDS, gop=250)
        yield from _against_others(path, what)
    long = _make(folder / "long.mp4", size=(1280, 720), seconds=_SECONDS, gop=300)
    yield from _against_seekers(long)
