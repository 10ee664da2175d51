"""Whether the structure of a container is whole, for those whose decoders hide that it is not.

A demuxer that meets noise in a transport stream, or in a Matroska or WebM file, looks for the next
place that it understands, and says nothing; VP8, VP9 and MPEG-2 have no checksums either.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from capeval.video.container_size import EBML, SEGMENT, ebml_number

_SYNC = 0x47
# A transport packet, and one with the time in front that Blu-ray and camcorders write.
_PACKETS = ((188, 0), (192, 4))
_AT_A_TIME = 188 * 192 * 32

_CLUSTER = 0x1F43B675
_OF_SEGMENT = frozenset(
    {0x114D9B74, 0x1549A966, 0x1654AE6B, 0x1C53BB6B, 0x1043A770, 0x1254C367, 0x1941A469}
    | {_CLUSTER, 0xEC, 0xBF}
)
_OF_CLUSTER = frozenset({0xE7, 0xA3, 0xA0, 0xAB, 0xA7, 0x5854, 0xAF, 0xEC, 0xBF})
# Hours of video have some hundred thousand; a hostile file could have any number.
_MOST_ELEMENTS = 5_000_000
_ELEMENTS_A_STEP = 1000


def broken_at(path: Path, check: Callable[[], None] = lambda: None) -> int | None:
    """Return the byte at which a file stops following its container's structure, else None.

    `check` is called now and then, to end early by an exception.
    """
    with path.open("rb") as file:
        start = file.read(2 * max(length for length, _ in _PACKETS))
        for length, offset in _PACKETS:
            if len(start) > length + offset and start[offset] == start[length + offset] == _SYNC:
                return _transport(file, length, offset, check)
        if int.from_bytes(start[:4]) == EBML:
            return _matroska(file, start, check)
    return None


def _transport(file: BinaryIO, length: int, offset: int, check: Callable[[], None]) -> int | None:
    at = 0
    file.seek(0)
    while block := file.read(_AT_A_TIME):
        check()
        marks = block[offset::length]
        if marks.count(_SYNC) < len(marks):
            first = next(n for n, mark in enumerate(marks) if mark != _SYNC)
            return at + first * length
        at += len(block)
    return None


def _matroska(file: BinaryIO, start: bytes, check: Callable[[], None]) -> int | None:
    end = file.seek(0, 2)
    length, width = ebml_number(start, 4)
    at = 4 + width + length
    if int.from_bytes(start[at : at + 4]) != SEGMENT:
        return None
    length, width = ebml_number(start, at + 4)
    at += 4 + width
    if length != _unknown(width):
        end = min(end, at + length)
    cluster_end = at  # outside of any
    for number in range(_MOST_ELEMENTS):
        if number % _ELEMENTS_A_STEP == 0:
            check()
        if at >= end:
            return None
        file.seek(at)
        head = file.read(12)
        identifier, used = _identifier(head)
        inside = at < cluster_end
        known = _OF_CLUSTER if inside else _OF_SEGMENT
        # A cluster of unknown size ends where something else of the segment begins.
        if inside and cluster_end == end and identifier in _OF_SEGMENT - _OF_CLUSTER:
            known = _OF_SEGMENT
        length, width = ebml_number(head, used)
        if identifier not in known or width == 0:
            return at
        body = at + used + width
        if identifier == _CLUSTER:
            cluster_end = end if length == _unknown(width) else body + length
            at = body
        else:
            at = body + length
    return None


def _identifier(head: bytes) -> tuple[int, int]:
    """Return an element's identifier and how many bytes it takes; 0 bytes where there is none."""
    if not head or head[0] < 0x10:
        return 0, 0
    width = 9 - head[0].bit_length()
    return int.from_bytes(head[:width]), width


def _unknown(width: int) -> int:
    return (1 << 7 * width) - 1
