"""Clips whose every frame carries its number as pixels, and how to read it back."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.container import OutputContainer
from numpy.typing import NDArray

_COLUMNS, _ROWS = 4, 3
_BITS = _COLUMNS * _ROWS - 1

# In the words of the format: what is shown is turned clockwise by so many degrees.
MATRICES = {
    90: (0, 1, 0, -1, 0, 0, 0, 0, 1),
    180: (-1, 0, 0, 0, -1, 0, 0, 0, 1),
    270: (0, -1, 0, 1, 0, 0, 0, 0, 1),
    "mirrored": (-1, 0, 0, 0, 1, 0, 0, 0, 1),
}


def picture(number: int, width: int = 128, height: int = 96) -> NDArray[np.uint8]:
    """Return a picture of `number`: blocks of bits, the one at the top left always white."""
    bits = [1, *((number >> bit) & 1 for bit in range(_BITS))]
    grid = np.array(bits, np.uint8).reshape(_ROWS, _COLUMNS) * 215 + 20
    rows = np.minimum(np.arange(height) * _ROWS // height, _ROWS - 1)
    columns = np.minimum(np.arange(width) * _COLUMNS // width, _COLUMNS - 1)
    return np.repeat(grid[rows][:, columns, None], 3, axis=2)


def numbered(frame: NDArray[np.uint8]) -> int:
    """Read the number of one picture; -1 where it does not stand upright."""
    height, width = frame.shape[:2]
    bits = []
    for row in range(_ROWS):
        for column in range(_COLUMNS):
            y, x = (2 * row + 1) * height // (2 * _ROWS), (2 * column + 1) * width // (2 * _COLUMNS)
            bits.append(int(frame[y - 3 : y + 4, x - 3 : x + 4].mean() > 128))
    return sum(bit << place for place, bit in enumerate(bits[1:])) if bits[0] else -1


def numbers(frames: NDArray[np.uint8]) -> list[int]:
    return [numbered(frame) for frame in frames]


def _turned(pixels: NDArray[np.uint8], turn: int | str | None) -> NDArray[np.uint8]:
    """Return the picture as a camera held so stores it."""
    if turn is None:
        return pixels
    stored = pixels[:, ::-1] if turn == "mirrored" else np.rot90(pixels, k=int(turn) // 90)
    return np.ascontiguousarray(stored)


def make_clip(
    path: Path,
    count: int = 48,
    *,
    codec: str = "libx264",
    rate: Fraction | int = 24,
    size: tuple[int, int] = (128, 96),
    pixels: str = "yuv420p",
    gop: int = 24,
    b_frames: int = 0,
    times_ms: Sequence[int] | None = None,
    turn: int | str | None = None,
    shift: int = 0,
    delay_s: float = 0,
    audio: bool = False,
    options: dict[str, str] | None = None,
    container_options: dict[str, str] | None = None,
    form: str | None = None,
    pictures: Sequence[NDArray[np.uint8]] | None = None,
) -> Path:
    """Write a clip; `shift` puts so many frames before time 0, `delay_s` all of them after it."""
    extra = {"preset": "ultrafast"} if codec in {"libx264", "libx265"} else {}
    with av.open(str(path), "w", format=form, container_options=container_options or {}) as out:
        stream = out.add_stream(codec, rate=rate, options={**extra, **(options or {})})
        assert isinstance(stream, av.VideoStream)
        context = stream.codec_context
        base = Fraction(1, 1000) if times_ms else 1 / Fraction(rate)
        first = _turned(picture(0, *size) if pictures is None else pictures[0], turn)
        context.height, context.width = first.shape[:2]
        context.pix_fmt, context.time_base = pixels, base
        context.gop_size, context.max_b_frames = gop, b_frames
        if turn is not None:
            matrix = [n << 30 if i % 3 == 2 else n << 16 for i, n in enumerate(MATRICES[turn])]
            stream.set_display_matrix(matrix)
        sound = out.add_stream("aac", rate=48000) if audio else None
        moved = round(delay_s / base) - shift
        for number in range(count):
            shown = picture(number, *size) if pictures is None else pictures[number]
            frame = av.VideoFrame.from_ndarray(_turned(shown, turn), format="rgb24")
            frame.pts = times_ms[number] if times_ms else number
            frame.time_base = base
            _mux(out, stream.encode(frame), moved, base)
        _mux(out, stream.encode(None), moved, base)
        if sound is not None:
            silence = av.AudioFrame(format="fltp", layout="mono", samples=1024)
            for plane in silence.planes:
                plane.update(bytes(plane.buffer_size))
            silence.sample_rate = 48000
            for number in range(round(count / float(rate) * 48000 / 1024)):
                silence.pts = number * 1024
                out.mux(sound.encode(silence))
            out.mux(sound.encode(None))
    return path


def _mux(
    out: OutputContainer, packets: list[av.Packet[av.VideoStream]], moved: int, base: Fraction
) -> None:
    for packet in packets:
        if moved:
            assert packet.pts is not None
            assert packet.dts is not None
            step = round(moved * base / packet.time_base)
            packet.pts += step
            packet.dts += step
        out.mux(packet)
