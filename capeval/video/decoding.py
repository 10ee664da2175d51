"""The decoders by name, and readers with a sampling policy."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from capeval.errors import UsageError, VideoError
from capeval.video.frames import FrameSet
from capeval.video.sampling import Policy, read_policy

if TYPE_CHECKING:
    from capeval.video.pyav_decoder import PyAVDecoder


DECODERS = ("pyav", "decord")


def decoder_named(name: str) -> PyAVDecoder:
    """Return the decoder of that name; it is safe to call from several threads.

    UsageError if there is none of that name; MissingExtra if it is not installed.
    """
    if name not in DECODERS:
        raise UsageError(f"decoder {name!r} is not one of {', '.join(DECODERS)}")
    if name == "decord":
        from capeval.video.decord_decoder import DecordDecoder

        return DecordDecoder()
    from capeval.video.pyav_decoder import PyAVDecoder

    return PyAVDecoder()


class FrameReader(Protocol):
    """Reads the frames of videos by one policy with one decoder; called from several threads."""

    @property
    def policy(self) -> str:
        """The sampling policy, in the syntax of `--frames`."""

    @property
    def decoder(self) -> str: ...

    def read(self, path: Path, *, cancel: threading.Event | None = None) -> FrameSet:
        """Return the frames of a video; ends early once `cancel` is set; raises `VideoError`."""


def open_reader(
    policy: str | Policy,
    decoder: str = "pyav",
    *,
    allow_damaged: bool = False,
) -> FrameReader:
    """Return the reader for a policy, or one in the syntax of `--frames`.

    It raises `VideoError` for a video that does not decode cleanly, unless `allow_damaged` is set.
    UsageError if the policy or the decoder is unknown; MissingExtra if that is not installed.
    """
    chosen = read_policy(policy) if isinstance(policy, str) else policy
    return _PolicyReader(chosen, decoder, decoder_named(decoder), allow_damaged)


@dataclass(frozen=True)
class _PolicyReader:
    chosen: Policy
    decoder: str
    video: PyAVDecoder
    allow_damaged: bool

    @property
    def policy(self) -> str:
        return str(self.chosen)

    def read(self, path: Path, *, cancel: threading.Event | None = None) -> FrameSet:
        frames = self.video.read(path, self.chosen, cancel=cancel)
        if frames.damage and not self.allow_damaged:
            raise VideoError(
                f"does not decode cleanly ({frames.damage[0]}); repair or replace it",
                file=path,
            )
        return frames
