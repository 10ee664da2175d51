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


from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from capeval.errors import MissingExtra
from capeval.text import one_line
from capeval.video.frames import Guard
from capeval.video.pyav_decoder import PyAVDecoder, opened

# Two decoders round colours differently, by less than one level of 255 on average; another picture
# differs by tens.
_SAME = 8.0


class DecordDecoder(PyAVDecoder):
    """Decodes with decord what PyAV has chosen."""

    def __init__(self) -> None:
        super().__init__()
        if (found := _version("decord2")) is None:
            raise MissingExtra(
                "decoding with decord needs decord2", otherwise=", or use --decoder pyav"
            )
        if _version("decord") is not None:
            raise UsageError(
                "decord and decord2 are both installed, and have the same module: pip uninstall "
                "decord decord2, then pip install decord2"
            )
        self._decord = f"decord2 {found}"

    def read(
        self, path: Path, policy: Policy, *, cancel: threading.Event | None = None
    ) -> FrameSet:
        """Return the frames that `policy` chooses; refuses a video of which decord has others."""
        import decord

        _check_kind(path, Guard(path))
        ours = super().read(path, policy, cancel=cancel)
        try:
            reader = decord.VideoReader(str(path), num_threads=1)
            total = len(reader)
            frames = reader.get_batch(list(ours.indices)).asnumpy() if total == ours.total else None
        except decord.DECORDError as fault:
            raise VideoError(f"decord: {one_line(str(fault), 120)}", file=path) from None
        if frames is None:
            raise VideoError(
                f"decord counts {total} frames, and a player shows {ours.total}", file=path
            )
        for index, mine, theirs in zip(ours.indices, ours.frames, frames, strict=True):
            if mine.shape != theirs.shape or np.abs(mine - theirs.astype(np.int16)).mean() > _SAME:
                raise VideoError(f"decord shows another picture as frame {index}", file=path)
        return replace(ours, frames=frames, decoder="decord", version=self._decord)


def _check_kind(path: Path, guard: Guard) -> None:
    """Refuse the kinds of file of which decord gives wrong frames."""
    with opened(path, guard) as (container, stream):
        codec, form = stream.codec_context, container.format.name
        kinds = {
            "HEVC": codec.name == "hevc",
            "AVI with B-frames": form == "avi" and codec.has_b_frames,
            "MPEG-TS": form == "mpegts",
        }
    for kind in (name for name, is_it in kinds.items() if is_it):
        raise VideoError(f"decord gives wrong frames of {kind}; use --decoder pyav", file=path)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


DECODERS = ("pyav", "decord")


def decoder_named(name: str) -> PyAVDecoder:
    """Return the decoder of that name; it is safe to call from several threads.

    UsageError if there is none of that name; MissingExtra if it is not installed.
    """
    if name not in DECODERS:
        raise UsageError(f"decoder {name!r} is not one of {', '.join(DECODERS)}")
    if name == "decord":
        from capeval.video.decoding import DecordDecoder

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
