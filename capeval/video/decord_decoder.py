"""The decoder of the papers, decord, to compare with: `--decoder decord`, from the package decord2.

It gives other frames than a player for some files. So PyAV chooses and decodes the frames first,
and a video whose frames decord counts or shows otherwise is refused.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from capeval.errors import MissingExtra, UsageError, VideoError
from capeval.text import one_line
from capeval.video.frames import FrameSet, Guard
from capeval.video.pyav_decoder import PyAVDecoder, opened
from capeval.video.sampling import Policy

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
