"""The decoders by name."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from capeval.errors import UsageError
from capeval.video.frames import DEFAULT_TIMEOUT, FrameSet
from capeval.video.sampling import Policy


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
