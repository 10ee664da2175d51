"""The decoders by name, and readers: a decoder with a sampling policy."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from capeval.errors import UsageError
from capeval.video.frames import DEFAULT_TIMEOUT, FrameSet
from capeval.video.sampling import Policy, Shuffled, read_policy


class Decoder(Protocol):
    """Takes frames out of a video; safe to call from several threads."""

    def read(
        self, path: Path, policy: Policy, *, cancel: threading.Event | None = None
    ) -> FrameSet:
        """Return the frames that `policy` chooses, at full size, upright.

        Raises
        ------
        VideoError
            The file holds no video that can be decoded, or the decoder stood still.
        MissingExtra
            The decoder is not installed.
        """
        ...


def _pyav(*, threads: int, timeout: float) -> Decoder:
    from capeval.video.pyav_decoder import PyAVDecoder

    return PyAVDecoder(threads=threads, timeout=timeout)


def _decord(*, threads: int, timeout: float) -> Decoder:  # noqa: ARG001 # always one
    from capeval.video.decord_decoder import DecordDecoder

    return DecordDecoder(timeout=timeout)


DECODERS: dict[str, Callable[..., Decoder]] = {"pyav": _pyav, "decord": _decord}


def decoder_named(name: str, *, threads: int = 0, timeout: float = DEFAULT_TIMEOUT) -> Decoder:
    """Return the decoder of that name; `threads` 0 leaves their number to it.

    `timeout` is for how many seconds it may stand still before the video is given up: for PyAV
    between two packets, for decord over the whole of counting or of decoding.

    Raises
    ------
    UsageError
        There is none of that name.
    MissingExtra
        It is not installed.
    """
    if name not in DECODERS:
        raise UsageError(f"decoder {name!r} is not one of {', '.join(DECODERS)}")
    return DECODERS[name](threads=threads, timeout=timeout)


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

    def read(self, path: Path, *, cancel: threading.Event | None = None) -> FrameSet:
        """Return the frames of a video; ends early once `cancel` is set; raises `VideoError`."""
        ...


def open_reader(policy: str, decoder: str = "pyav", *, shuffle: int | None = None) -> FrameReader:
    """Return the reader for a policy as typed after `--frames`; `shuffle` is a seed.

    Raises
    ------
    UsageError, MissingExtra
        The policy or the decoder is unknown, or the decoder is not installed.
    """
    chosen = read_policy(policy)
    if shuffle is not None:
        chosen = Shuffled(chosen, shuffle)
    return _PolicyReader(chosen, decoder, decoder_named(decoder))


@dataclass(frozen=True)
class _PolicyReader:
    chosen: Policy
    decoder: str
    video: Decoder

    @property
    def policy(self) -> str:
        return str(self.chosen)

    def read(self, path: Path, *, cancel: threading.Event | None = None) -> FrameSet:
        return self.video.read(path, self.chosen, cancel=cancel)
