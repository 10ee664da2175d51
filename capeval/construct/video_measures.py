"""What the frames of a video say about it: cuts, black and frozen time, activity, its content.

All measures are of frames scaled to `SIDE` by `SIDE` pixels, whatever their shape: a video held
upright and a copy of it in another size have the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from capeval.errors import VideoError
from capeval.video.frames import FrameSet, Timeline
from capeval.video.pyav_decoder import PyAVDecoder
from capeval.video.sampling import Choice, Fps

Frames = NDArray[np.uint8]
Grey = NDArray[np.float32]
Hashes = NDArray[np.uint64]

SIDE = 48
"""Noise is averaged away, and what is 2% of the picture wide still has a pixel."""

_BLOCK = 4

_CUT_RATE = 30.0
"""Frames a second in which cuts are looked for: all, so that their times are exact."""

_RATE = 10
"""Frames a second for everything else."""

_REACH = 2
"""Pixels of 24 that a block is followed between two frames: a pan of two widths a second."""

_CUT_LEAST = 8.0
"""Levels of 255 by which a cut changes the picture: a cut between dark shots is about 15."""

_CUT_RATIO = 2.5
"""Times by which a cut exceeds the changes around it; an abrupt movement is about 1.5."""

_CUT_AROUND = 12
"""Frames on each side that a change is compared with: half a second, as a rule."""

_FLASH = 12
"""Frames after which a flash is over: the picture is what it was before."""

_FLASH_LIKE = 0.5
"""The share of a change that is left between the frames before and after a flash."""

_SHORTEST_SHOT = 0.2
"""Seconds; two cuts closer than this are one, with a flash between two shots."""

_DARK = 28.0
"""Levels of 255 that 98% of a black frame stay below; black of video with noise is about 20."""

_SAME = 1.5
"""Levels of 255 by which each block of a still picture may change: what encoding does to it."""

_FROZEN_RUN = 1.0
"""Seconds that a picture must stand still to count as frozen: a shorter pause is a pause."""

_LAG = 5
"""Tenths of a second after which movement is looked for; slow movement is visible by then."""

_ACTIVE_TIME = 0.9
"""The quantile over time of the activity: what moves for a tenth of the time, moves."""

_FLAT = 4.0
"""The deviation in levels below which a picture has no content to hash, as in a fade."""

_HASH_EVERY = 2
"""A hash each 0.2 s, so that copies that begin at another moment can be aligned."""

_UNRELATED = 32
"""The expected distance of the hashes of two pictures, of 64 bits."""

_DUPLICATE = 10.0
"""The mean distance of hashes up to which two videos are one; of copies about 5, of others > 20."""


@dataclass(frozen=True)
class Measures:
    """What is known of a video; of a longer one than asked for, only its size and duration.

    Attributes
    ----------
    seconds, cuts : in seconds from the first frame
    black, frozen : shares of the time
    activity : how much the most active block moves, in levels of 255
    hashes : 64 bits each, in hexadecimal; a dash for a picture without content
    """

    width: int
    height: int
    seconds: float
    fps: float
    cuts: tuple[float, ...] = ()
    black: float | None = None
    frozen: float | None = None
    activity: float | None = None
    hashes: str = ""


def measure(path: Path, decoder: PyAVDecoder, longest: float) -> Measures:
    """Decode a video once, and measure it unless it takes more than `longest` seconds.

    Raises
    ------
    VideoError
        It cannot be decoded, or not cleanly.
    """
    found = decoder.read(path, _Sampling(longest))
    if found.damage:
        raise VideoError(f"does not decode cleanly ({found.damage[0]})", file=path)
    width, height = found.shown_size
    known = Measures(width, height, round(found.duration, 3), round(found.fps, 3))
    if found.duration > longest:
        return known
    cuts = cut_times(found.frames, found.times)
    grey = _evenly(found)
    shots = np.searchsorted(cuts, np.arange(len(grey)) / _RATE, side="right")
    return Measures(
        *(width, height, known.seconds, known.fps),
        cuts=tuple(round(time, 3) for time in cuts),
        black=round(black_share(grey), 3),
        frozen=round(frozen_share(grey), 3),
        activity=round(activity(grey, shots), 2),
        hashes=hashes(grey[::_HASH_EVERY]),
    )


@dataclass(frozen=True)
class _Sampling:
    """All frames of a video, at most `_CUT_RATE` a second, or the first if it is too long."""

    longest: float

    def choose(self, timeline: Timeline) -> Choice:
        if timeline.duration > self.longest:
            return Choice((0,))
        return Fps(_CUT_RATE).choose(timeline)


def _evenly(found: FrameSet) -> Grey:
    """Return what is shown at each tenth of a second, in grey."""
    moments = np.arange(max(1, int(found.duration * _RATE))) / _RATE
    # Half a millisecond: a frame is shown at its own time, however that is rounded.
    shown = np.searchsorted(found.times, moments + 0.0005, side="right") - 1
    return found.frames[shown].mean(axis=-1, dtype=np.float32)


def cut_times(frames: Frames, times: Sequence[float]) -> list[float]:
    """Return the times of the first frames after cuts.

    A cut changes the picture much more than the frames around it do, and for good: after a flash it
    is as before. Fades and dissolves change it little at a time.

    Parameters
    ----------
    frames : shape (n, SIDE, SIDE, 3)
    """
    if len(frames) < 2:
        return []
    halves = frames.reshape(len(frames), SIDE // 2, 2, SIDE // 2, 2, 3)
    small = halves.mean(axis=(2, 4), dtype=np.float32).astype(np.int16)
    change = _changes(small[:-1], small[1:])
    around = sliding_window_view(np.pad(change, _CUT_AROUND), 2 * _CUT_AROUND + 1).copy()
    beside = around[:, _CUT_AROUND - 1 : _CUT_AROUND + 2]
    is_peak = change >= beside.max(axis=1)
    # A cut may fall between two frames, which are then blends.
    beside[:] = 0
    # The second largest: there may be another cut nearby.
    usual = np.partition(around, -2, axis=1)[:, -2]
    found: list[float] = []
    for before in np.flatnonzero(is_peak & (change > np.maximum(_CUT_LEAST, _CUT_RATIO * usual))):
        is_near = found and times[before + 1] - found[-1] < _SHORTEST_SHOT
        if not is_near and not _is_flash(small, int(before), change[before]):
            found.append(times[before + 1])
    return found


def _is_flash(small: NDArray[np.int16], before: int, change: float) -> bool:
    """Return whether a change after frame `before` begins or ends a flash."""
    after = small[before + 2 : before + 2 + _FLASH]
    earlier = small[max(0, before - _FLASH) : before]
    pairs = [(np.broadcast_to(small[before], after.shape), after)]
    pairs += [(np.broadcast_to(small[before + 1], earlier.shape), earlier)]
    return any(len(b) and _changes(a, b).min() < _FLASH_LIKE * change for a, b in pairs)


def _changes(first: NDArray[np.int16], second: NDArray[np.int16]) -> NDArray[np.float32]:
    """Return how much each picture differs from another, movement of its blocks left out."""
    count, side = len(first), first.shape[1]
    padded = np.pad(second, ((0, 0), (_REACH, _REACH), (_REACH, _REACH), (0, 0)), mode="edge")
    best: NDArray[np.float32] | None = None
    for down in range(2 * _REACH + 1):
        for right in range(2 * _REACH + 1):
            moved = padded[:, down : down + side, right : right + side]
            blocks = _blocks(np.abs(moved - first).mean(axis=-1, dtype=np.float32))
            best = blocks if best is None else np.minimum(best, blocks)
    assert best is not None
    return best.reshape(count, -1).mean(axis=1)


def _blocks(pictures: Grey) -> Grey:
    """Return the mean of each block of pictures."""
    count, side = len(pictures), pictures.shape[1] // _BLOCK
    return pictures.reshape(count, side, _BLOCK, side, _BLOCK).mean(axis=(2, 4))


def black_share(grey: Grey) -> float:
    """Return the share of pictures that are black."""
    return float((np.quantile(grey, 0.98, axis=(1, 2)) < _DARK).mean())


def frozen_share(grey: Grey) -> float:
    """Return the share of the time in which the picture stands still for `_FROZEN_RUN` or more.

    Each picture is compared with the first of its run, so that slow movement is seen.
    """
    still = start = 0
    for at in range(1, len(grey) + 1):
        same = at < len(grey) and _blocks(np.abs(grey[at : at + 1] - grey[start])).max() <= _SAME
        if not same:
            still += at - start if at - start >= _FROZEN_RUN * _RATE else 0
            start = at
    return still / len(grey)


def activity(grey: Grey, shots: NDArray[np.intp]) -> float:
    """Return how much the most active block changes, most of the time at least.

    The mean of all blocks would miss a small object. What changes in the whole picture alike, such
    as its brightness, and what changes by a cut, is no movement.
    """
    inside = shots[_LAG:] == shots[:-_LAG]
    if not inside.any():
        return 0.0
    change = (grey[_LAG:] - grey[:-_LAG])[inside]
    local = change - np.median(change, axis=(1, 2), keepdims=True)
    return float(np.quantile(_blocks(np.abs(local)).max(axis=(1, 2)), _ACTIVE_TIME))


def hashes(grey: Grey) -> str:
    """Return a hash of each picture: which of its 64 lowest frequencies are above their median."""
    from scipy.fft import dctn

    low = dctn(grey, axes=(1, 2), norm="ortho")[:, :8, :8].reshape(len(grey), 64)
    bits = low > np.median(low[:, 1:], axis=1, keepdims=True)
    texts = [row.tobytes().hex() for row in np.packbits(bits, axis=1)]
    flat = grey.std(axis=(1, 2)) < _FLAT
    return " ".join("-" if is_flat else text for is_flat, text in zip(flat, texts, strict=True))
