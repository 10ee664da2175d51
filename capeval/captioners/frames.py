"""Where frames come from: the only place here that knows which decoder there is."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from capeval.errors import MissingExtra, UsageError, VideoError

__all__ = ["FrameReader", "Frames", "ReadFrames", "frame_record", "open_reader"]


class Frames(Protocol):
    """The frames of one video and all that must be recorded of them (`capeval.video.FrameSet`)."""

    @property
    def frames(self) -> NDArray[np.uint8]:
        """The pixels, (n, height, width, 3), RGB."""
        ...

    @property
    def indices(self) -> tuple[int, ...]:
        """Which frames of the video they are, from 0."""
        ...

    @property
    def times(self) -> tuple[float, ...]:
        """When they are shown, in seconds from the first."""
        ...

    @property
    def total(self) -> int:
        """How many frames the video shows."""
        ...

    @property
    def fps(self) -> float:
        """The video's own rate."""
        ...

    @property
    def duration(self) -> float:
        """The video's length in seconds."""
        ...

    @property
    def decoder(self) -> str:
        """Which decoder read them."""
        ...

    @property
    def version(self) -> str:
        """Its version."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong with them."""
        ...


class FrameReader(Protocol):
    """Reads the frames of videos by one policy with one decoder; called from several threads."""

    @property
    def policy(self) -> str:
        """The sampling policy, as it is typed."""
        ...

    @property
    def decoder(self) -> str:
        """The decoder's name."""
        ...

    def read(self, path: Path, *, cancel: threading.Event | None = None) -> Frames:
        """Return the frames of a video; ends early once `cancel` is set.

        Raises
        ------
        VideoError
            No frames can be had from it.
        MissingExtra
            The decoder is not installed.
        """
        ...


def frame_record(frames: Frames, policy: str) -> dict[str, Any]:
    """Return what a caption line says of the frames: everything but the pixels."""
    return {
        "policy": policy,
        "indices": list(frames.indices),
        "times": [round(time, 6) for time in frames.times],
        "total_frames": frames.total,
        "fps": frames.fps,
        "duration": frames.duration,
        "decoder": frames.decoder,
        "decoder_version": frames.version,
    }


@dataclass(frozen=True, eq=False)
class ReadFrames:
    """Frames in memory: what the reader below returns, and tests."""

    frames: NDArray[np.uint8]
    indices: tuple[int, ...]
    times: tuple[float, ...]
    total: int
    fps: float
    duration: float
    decoder: str = "memory"
    version: str = "0"
    warnings: tuple[str, ...] = ()


def open_reader(policy: str, decoder: str = "pyav", *, shuffle: int | None = None) -> FrameReader:
    """Return the reader for a policy as typed after `--frames`; `shuffle` is a seed.

    Raises
    ------
    UsageError, MissingExtra
        The policy or the decoder is not known, or the decoder is not installed.
    """
    return _PlainReader(policy, decoder, shuffle)


# Until capeval.video is there: a reader that decodes everything and keeps the chosen frames.


class _PlainReader:
    def __init__(self, policy: str, decoder: str, shuffle: int | None) -> None:
        if decoder != "pyav":
            raise UsageError(f"decoder {decoder!r} is not one of pyav")
        try:
            import av
        except ImportError:
            raise MissingExtra(
                "reading videos needs PyAV: pip install 'capeval[generate]'"
            ) from None
        self._version = av.__version__
        self._shuffle = shuffle
        _chosen(policy, 100, 25.0)  # an unknown policy is told now
        self._policy = policy

    @property
    def policy(self) -> str:
        return self._policy if self._shuffle is None else f"{self._policy} shuffled"

    @property
    def decoder(self) -> str:
        return "pyav"

    def read(self, path: Path, *, cancel: threading.Event | None = None) -> Frames:  # noqa: ARG002
        import av

        try:
            with av.open(str(path)) as clip:
                shown = list(clip.decode(video=0))
                rate = float(clip.streams.video[0].average_rate or 25)
        except (av.FFmpegError, OSError, IndexError, ValueError) as error:
            raise VideoError(f"cannot be decoded ({error})", file=path) from None
        if not shown:
            raise VideoError("shows no frame", file=path)
        indices = _chosen(self._policy, len(shown), rate)
        if self._shuffle is not None:
            indices = [int(i) for i in np.random.default_rng(self._shuffle).permutation(indices)]
        return ReadFrames(
            frames=np.stack([shown[i].to_ndarray(format="rgb24") for i in indices]),
            indices=tuple(indices),
            times=tuple(i / rate for i in indices),
            total=len(shown),
            fps=rate,
            duration=len(shown) / rate,
            decoder="pyav",
            version=self._version,
        )


def _chosen(policy: str, total: int, rate: float) -> Sequence[int]:
    text, _, most = policy.strip().lower().partition("@")
    try:
        if text == "auto":
            text = "2fps" if total / rate < 16 else "1fps"
        if text.endswith("fps"):
            step = rate / float(text.removesuffix("fps"))
            found = [int(n * step) for n in range(int(total / step) + 1) if int(n * step) < total]
            if not most or len(found) <= int(most):
                return found
            text = most
        count = min(int(text), total)
        return [int(i) for i in np.linspace(0, total - 1, count).astype(int)]
    except (ValueError, ZeroDivisionError):
        raise UsageError(f"frames: {policy!r} is not one of 32, 2fps, auto") from None
