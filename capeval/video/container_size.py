"""The size that a video file announces, read from its outermost structure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

EBML, SEGMENT = 0x1A45DFA3, 0x18538067
# A real file has a few, a fragmented one thousands; a hostile one could have millions.
_MOST_BOXES = 100_000


def announced_size(path: Path) -> int:
    """Return the bytes that an ISO, Matroska, WebM or AVI file should have; 0 if unknown."""
    with path.open("rb") as file:
        start = file.read(64)
    if start[4:8] == b"ftyp":
        return max((end for _, end in _boxes(path)), default=0)
    if start[:4] == b"RIFF":
        # Larger files continue in further chunks, which the first one does not count.
        return 8 + int.from_bytes(start[4:8], "little")
    if int.from_bytes(start[:4]) == EBML:
        return _segment_end(start)
    return 0


def lacks_index(path: Path) -> bool:
    """Return whether an ISO media file has no `moov` box."""
    with path.open("rb") as file:
        if file.read(12)[4:8] != b"ftyp":
            return False
    return all(kind != b"moov" for kind, _ in _boxes(path))


def _boxes(path: Path) -> Iterator[tuple[bytes, int]]:
    """Yield the kind and the end of each top-level box."""
    with path.open("rb") as file:
        total = file.seek(0, 2)
        at = 0
        for _ in range(_MOST_BOXES):
            if at >= total:
                return
            file.seek(at)
            head = file.read(16)
            if len(head) < 8:
                return
            size = int.from_bytes(head[:4])
            if size == 1:
                size = int.from_bytes(head[8:16])
            elif size == 0:
                # It goes on to the end, wherever that is.
                size = total - at
            if size < 8:
                return
            at += size
            yield head[4:8], at


def _segment_end(start: bytes) -> int:
    length, width = ebml_number(start, 4)
    at = 4 + width + length
    if int.from_bytes(start[at : at + 4]) != SEGMENT:
        return 0
    length, width = ebml_number(start, at + 4)
    is_unknown = length == (1 << 7 * width) - 1
    return 0 if width == 0 or is_unknown else at + 4 + width + length


def ebml_number(data: bytes, at: int) -> tuple[int, int]:
    """Return an EBML number and how many bytes it takes; 0 bytes where there is none."""
    if at >= len(data) or data[at] == 0:
        return 0, 0
    width = 9 - data[at].bit_length()
    return int.from_bytes(data[at : at + width]) & ((1 << 7 * width) - 1), width
