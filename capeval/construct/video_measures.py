"""What the frames of a video say about it: its cuts, black and still time, movement, and content.

All measures are of frames scaled to `SIDE` by `SIDE` pixels, whatever their shape. That averages
noise away, and copies of other sizes are measured alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from capeval.errors import VideoError
from capeval.video.decoding import PyAVDecoder
from capeval.video.sampling import Choice, Fps, Timeline

Pictures = NDArray[Any]
"""Shape (n, SIDE, SIDE) in grey, or (n, SIDE, SIDE, 3); levels from 0 to 255."""

SIDE, _BLOCK = 48, 4
# Cuts are looked for in all frames, so that their times are exact; the rest changes slowly.
_CUT_RATE, _RATE = 30.0, 10

# Two shots differ by this share of their contrast: cuts by 0.6 or more, abrupt pans by 0.25 ...
_SHOT_CONTRAST = 0.35
# ... and by as many levels, which encoding does not change even in the dark ...
_SHOT_LEVELS = 3.0
# ... in this share of the blocks: not only in a subtitle, but between the bars of a narrow picture.
_SHOT_BLOCKS = 0.25
# A block is followed by so many pixels of 24 to the next frame: a pan of two widths a second.
_REACH = 2
# A cut exceeds the changes of so many frames before and after it, half a second; in steady movement
# the ratio stays below 2.
_AROUND, _RATIO = 12, 2.5
# After so many frames a flash is over, and the picture is what it was before.
_FLASH = 12
# Seconds; two cuts closer than this are one, with a flash between the shots.
_SHORTEST_SHOT = 0.2

# All of a black picture is darker: black is 0, or 16 if the range is wrongly tagged.
_BLACK = 20.0
# Movement is what changes in half a second; slow movement is visible by then.
_LAG = 5
# Levels by which encoding may change a block of a picture that stands still.
_STILL = 1.5
# What moves for a tenth of the time, moves.
_MOVING_TIME = 0.9

# One hash in 0.2 s, as copies begin at any moment; of the shorter video one in 5 is looked for.
_HASH_EVERY, _ASK_EVERY = 2, 5
# About half of the 64 bits of any hash differ from this, as from the hash of another video.
_OUTSIDE = 0x5555555555555555
# The mean distance of the hashes of a copy, at most: usually 5, of other videos over 20.
_COPY = 10.0


@dataclass(frozen=True)
class _Sampling:
    """All frames of a video, or the first if it is too long."""

    longest: float

    def choose(self, timeline: Timeline) -> Choice:
        if timeline.duration > self.longest:
            return Choice((0,))
        return Fps(_CUT_RATE).choose(timeline)


def measure(path: Path, decoder: PyAVDecoder, longest: float) -> dict[str, Any]:
    """Decode a video once, and return its measures; see `capeval.construct.video_filter.VideoRow`.

    If it takes more than `longest` seconds, these are its size, duration and frame rate.

    Raises
    ------
    VideoError
        It cannot be decoded, or not cleanly.
    """
    read = decoder.read(path, _Sampling(longest))
    if read.damage:
        raise VideoError(f"does not decode cleanly ({read.damage[0]})", file=path)
    width, height = read.shown_size
    known = {"width": width, "height": height, "seconds": read.duration, "fps": read.fps}
    if read.duration > longest:
        return known
    cuts = cut_times(read.frames, read.times)
    moments = np.arange(max(1, int(read.duration * _RATE))) / _RATE
    # Half a millisecond: a frame is shown at its own time, however that is rounded.
    shown = np.searchsorted(read.times, moments + 0.0005, side="right") - 1
    grey = read.frames[shown].mean(axis=-1)
    moved = movement(grey, np.searchsorted(cuts, moments, side="right"))
    return known | {
        "cuts": tuple(cuts),
        "black": float((grey.max(axis=(1, 2)) < _BLACK).mean()),
        "frozen": float((moved < _STILL).mean()),
        "activity": float(np.quantile(moved, _MOVING_TIME)),
        "hashes": hashes(grey[::_HASH_EVERY]),
    }


def cut_times(frames: Pictures, times: Sequence[float]) -> list[float]:
    """Return the times of the first frames of shots after the first.

    A cut changes the picture much more than the frames around it do, and for good: after a flash it
    is as before. Fades and dissolves change it little at a time.
    """
    if len(frames) < 2:
        return []
    small = frames.reshape(len(frames), SIDE // 2, 2, SIDE // 2, 2, 3).mean(axis=(2, 4))
    change = _differences(small[:-1], small[1:])
    around = sliding_window_view(np.pad(change, _AROUND), 2 * _AROUND + 1).copy()
    beside = around[:, _AROUND - 1 : _AROUND + 2]
    is_peak = (change > 1) & (change == beside.max(axis=1))
    # Not of a cut itself, which may be blended into a frame on each side, nor of another nearby.
    beside[:] = 0
    usual = np.partition(around, -2, axis=1)[:, -2]
    found: list[float] = []
    for at in map(int, np.flatnonzero(is_peak & (change > _RATIO * usual)) + 1):
        earlier, later = small[max(0, at - 1 - _FLASH) : at - 1], small[at + 1 : at + 1 + _FLASH]
        back = _differences(small[at - 1 : at], later), _differences(small[at : at + 1], earlier)
        is_near = found and times[at] - found[-1] < _SHORTEST_SHOT
        if not is_near and not (np.concatenate(back) < 1).any():
            found.append(times[at])
    return found


def _differences(first: Pictures, second: Pictures) -> NDArray[np.float64]:
    """Return how much pictures differ, movement of blocks left out; those of two shots by over 1.

    Either is as many as the other, or one.
    """
    side, best = first.shape[1], np.array(np.inf)
    edges = (0, 0), (_REACH, _REACH), (_REACH, _REACH), (0, 0)
    padded = np.pad(second, edges, mode="edge").astype(np.float32)
    for down, right in np.ndindex(2 * _REACH + 1, 2 * _REACH + 1):
        moved = padded[:, down : down + side, right : right + side]
        best = np.minimum(best, _blocks(np.abs(moved - first).mean(axis=-1)))
    contrast = np.minimum(first.std(axis=(1, 2, 3)), second.std(axis=(1, 2, 3)))
    levels = np.quantile(best, 1 - _SHOT_BLOCKS, axis=(1, 2))
    return np.asarray(levels / np.maximum(_SHOT_LEVELS, _SHOT_CONTRAST * contrast))


def _blocks(pictures: Pictures) -> Pictures:
    count, side = len(pictures), pictures.shape[1] // _BLOCK
    return np.asarray(pictures.reshape(count, side, _BLOCK, side, _BLOCK).mean(axis=(2, 4)))


def movement(grey: Pictures, shots: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return how many levels the most active block changes in half a second of one shot.

    The mean of all blocks would miss a small object. Brightness and contrast of the whole picture
    may change without movement. The pictures are a tenth of a second apart.
    """
    inside = shots[_LAG:] == shots[:-_LAG]
    if not inside.any():
        return np.zeros(1)
    centred = grey - grey.mean(axis=(1, 2), keepdims=True)
    before, after = centred[:-_LAG][inside], centred[_LAG:][inside]
    power = np.maximum((before**2).sum(axis=(1, 2), keepdims=True), 1.0)
    alike = before * ((before * after).sum(axis=(1, 2), keepdims=True) / power)
    return np.asarray(_blocks(np.abs(after - alike)).max(axis=(1, 2)))


def hashes(grey: Pictures) -> str:
    """Return 64 bits for each picture, in hexadecimal: its low frequencies above their median."""
    from scipy.fft import dctn

    low = dctn(grey, axes=(1, 2))[:, :8, :8].reshape(len(grey), 64)
    return np.packbits(low > np.median(low, axis=1, keepdims=True)).tobytes().hex()


def copies(found: Sequence[str]) -> list[int | None]:
    """Return for each video the earlier one that it is a copy of, or a part of.

    Parameters
    ----------
    found : the `hashes` of videos, longer ones first
    """
    read = [np.frombuffer(bytes.fromhex(text), np.uint64) for text in found]
    longest = max(map(len, read), default=0)
    # A copy may begin before its original or end after it, but not with a third of its time.
    edge = longest // 3
    table = np.full((len(read), longest + 2 * edge), _OUTSIDE, np.uint64)
    originals: list[int] = []
    result: list[int | None] = []
    for number, own in enumerate(read):
        count, asked = len(originals), own[::_ASK_EVERY]
        result.append(None)
        if count and len(asked):
            last = table.shape[1] - _ASK_EVERY * (len(asked) - 1)
            total = np.zeros((count, last), np.uint32)
            for at, one in enumerate(asked):
                start = _ASK_EVERY * at
                total += np.bitwise_count(table[:count, start : start + last] ^ one)
            least = total.min(axis=1)
            if least.min() <= _COPY * len(asked):
                result[-1] = originals[int(least.argmin())]
        if result[-1] is None:
            table[count, edge : edge + len(own)] = own
            originals.append(number)
    return result
