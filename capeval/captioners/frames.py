"""Where frames come from: the only place here that knows which decoder there is."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from capeval.video import Decoder, FrameSet, Policy, Shuffled, decoder_named, read_policy


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
class ReadFrames(FrameSet):
    """Frames in memory, for readers of one's own."""

    decoder: str = "memory"
    version: str = "0"


def open_reader(policy: str, decoder: str = "pyav", *, shuffle: int | None = None) -> FrameReader:
    """Return the reader for a policy as typed after `--frames`; `shuffle` is a seed.

    Raises
    ------
    UsageError, MissingExtra
        The policy or the decoder is not known, or the decoder is not installed.
    """
    chosen = read_policy(policy)
    if shuffle is not None:
        chosen = Shuffled(chosen, shuffle)
    # Videos are decoded side by side: more threads for each would only stand in each other's way.
    return _VideoReader(chosen, decoder, decoder_named(decoder))


@dataclass(frozen=True)
class _VideoReader:
    chosen: Policy
    decoder: str
    video: Decoder

    @property
    def policy(self) -> str:
        return str(self.chosen)

    def read(self, path: Path, *, cancel: threading.Event | None = None) -> Frames:
        return self.video.read(path, self.chosen, cancel=cancel)
