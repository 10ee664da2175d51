"""The default decoder: counts the shown frames without decoding, then decodes in order.

The first pass reads packets only and so costs milliseconds; the second decodes with threads,
converts only the chosen frames and stops at the last. Every decoded frame's time is compared with
the first pass. Where they disagree (a damaged file, a stream that cannot start where it begins, two
packets for one frame), all is decoded once to learn which frames exist, and the choice is made
again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from capeval.errors import MissingExtra, VideoError
from capeval.text import one_line
from capeval.video.frames import (
    FrameSet,
    Guard,
    Timeline,
    check_memory,
    file_size,
)
from capeval.video.sampling import Policy

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream


# Video, and audio so that the message can name it. Playlists and image patterns are left out: a
# file that claims to be a video must not make us open other files or addresses.
_FORMATS = (
    "mov,matroska,webm,avi,mpegts,mpeg,mpegvideo,m4v,flv,asf,ogg,h264,hevc,av1,obu,ivf,gif,nut,mxf,"
    "rm,wtv,dv,yuv4mpegpipe,wav,mp3,flac,aac,amr,ac3,w64,aiff,caf"
)
_OPTIONS = {"format_whitelist": _FORMATS, "protocol_whitelist": "file"}
_ALL_CORES = 0
_DRAINS = 64
_NAMED = 10
# Seconds that a file may end early: muxers round the durations that they state.
_EARLY = 1.0
# FFmpeg's numbers of the transfer functions, as frames and streams carry them.
_HDR = {16: "PQ", 18: "HLG"}
# Without tone mapping the code values of HDR, made for much brighter screens, look flat and grey.
_NOT_MAPPED = "is HDR ({}), shown without tone mapping: its colours look pale"


class PyAVDecoder:
    """Decodes with PyAV (FFmpeg), with a thread for every core.

    Frames are scaled to `size`, width and height, where it is given.
    """

    name = "pyav"

    def __init__(self, size: tuple[int, int] | None = None) -> None:
        self._size = size
        try:
            import av
        except ImportError:
            raise MissingExtra("decoding needs PyAV", "frames") from None
        self._version = f"PyAV {av.__version__}, FFmpeg {av.ffmpeg_version_info}"

    def read(
        self, path: Path, policy: Policy, *, cancel: threading.Event | None = None
    ) -> FrameSet:
        """Return the frames that `policy` chooses, upright.

        VideoError if the file has no video that can be decoded, or no progress is made.
        """
        if (size := file_size(path)) == 0:
            raise VideoError("is empty (0 bytes)", file=path)
        guard = Guard(path, cancel)
        scan = _scan(path, size, guard)
        if scan.pts:
            try:
                return self._take(path, scan, policy, guard, _ALL_CORES)
            except _Disagreement:
                pass
        # One thread: with several, what survives of a damaged stream depends on their timing.
        scan = _decode_all(path, scan, guard)
        try:
            return self._take(path, scan, policy, guard, 1)
        except _Disagreement:
            raise VideoError("decodes differently each time", file=path) from None

    def _take(
        self, path: Path, scan: _Scan, policy: Policy, guard: Guard, threads: int
    ) -> FrameSet:
        timeline = scan.timeline()
        try:
            choice = policy.choose(timeline)
        except ValueError as fault:
            raise VideoError(str(fault), file=path) from None
        taken = _Taken(path, choice.to_decode, self._size)
        with opened(path, guard) as (container, stream):
            stream.codec_context.thread_count = threads
            source = _decoded(container, stream, scan, guard, taken.faults)
            for number, frame in enumerate(source):
                if number >= len(scan.pts) or scan.pts[number] not in (None, frame.pts):
                    raise _Disagreement
                # Later frames are made from it, whether it is wanted itself or not.
                if frame.is_corrupt:
                    taken.damaged.append(number)
                if taken.wants(number):
                    taken.add(number, frame)
                    if taken.is_whole:
                        break
            else:
                raise _Disagreement
        place = {index: n for n, index in enumerate(choice.to_decode)}
        order = [place[index] for index in choice.indices]
        height, width = taken.frames.shape[1:3]
        check_memory(len(order), width, height, path)
        damage = (*scan.damage, *taken.damage(scan))
        pale = () if taken.hdr is None else (_NOT_MAPPED.format(taken.hdr),)
        warnings = (*damage, *scan.warnings, *choice.warnings, *pale)
        return FrameSet(
            # Indexing copies, and most choices are in order already.
            frames=taken.frames if order == list(range(len(order))) else taken.frames[order],
            indices=choice.indices,
            times=tuple(timeline.times[index] for index in choice.indices),
            total=timeline.total,
            fps=timeline.fps,
            duration=timeline.duration,
            decoder=self.name,
            version=self._version,
            warnings=tuple(dict.fromkeys(warnings)),
            damage=damage,
            hdr=taken.hdr,
            shown_size=taken.shown_size,
        )


class _Disagreement(Exception):
    """The decoder shows other frames than the packets announce."""


@dataclass(frozen=True)
class _Scan:
    """What the packets announce: the time stamps of the shown frames, in order of showing."""

    pts: list[int | None]
    time_base: Fraction
    rate: Fraction | None
    last_duration: int
    packets: int
    warnings: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    """Of the packets that were refused when everything was decoded."""

    def timeline(self) -> Timeline:
        stamps = [stamp for stamp in self.pts if stamp is not None]
        if len(stamps) < len(self.pts) or stamps != sorted(stamps):
            rate = float(self.rate or 25)
            times = [n / rate for n in range(len(self.pts))]
            return Timeline(_rounded(times), rate, round(len(times) / rate, 6))
        base = float(self.time_base)
        times = [(stamp - stamps[0]) * base for stamp in stamps]
        fps = float(self.rate or 0)
        if times[-1] > 0:
            # The container's own rate is used only where the times agree with it.
            measured = (len(times) - 1) / times[-1]
            fps = fps if abs(fps - measured) < 0.005 * measured else measured
        fps = fps or 25.0
        last = self.last_duration * base or 1 / fps
        return Timeline(_rounded(times), round(fps, 6), round(times[-1] + last, 6))


@dataclass
class _Taken:
    """The array that chosen frames are converted into."""

    path: Path
    wanted: list[int]
    size: tuple[int, int] | None
    shown_size: tuple[int, int] = (0, 0)
    frames: NDArray[np.uint8] = field(default_factory=lambda: np.empty((0, 0, 0, 3), np.uint8))
    damaged: list[int] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    hdr: str | None = None
    _count: int = 0

    def wants(self, number: int) -> bool:
        return self.wanted[self._count] == number

    @property
    def is_whole(self) -> bool:
        return self._count == len(self.wanted)

    def add(self, number: int, frame: VideoFrame) -> None:
        width, height = self.size or (frame.width, frame.height)
        if self._count == 0:
            check_memory(len(self.wanted), width, height, self.path)
        stored = frame.to_ndarray(format="rgb24", width=width, height=height)
        pixels, now = self._upright(np.asarray(stored, np.uint8), frame)
        if self._count == 0:
            self.frames = np.empty((len(self.wanted), *pixels.shape), np.uint8)
            self.hdr, self.shown_size = _HDR.get(frame.color_trc), now
        elif now != self.shown_size:
            before = self.shown_size
            raise VideoError(
                f"changes its size at frame {number}, from {before[0]}x{before[1]} to "
                f"{now[0]}x{now[1]}",
                file=self.path,
            )
        self.frames[self._count] = pixels
        self._count += 1

    def _upright(
        self, pixels: NDArray[np.uint8], frame: VideoFrame
    ) -> tuple[NDArray[np.uint8], tuple[int, int]]:
        """Return the pixels as they are shown, and the width and height of the shown frame."""
        a, b, c, d = _matrix(frame)
        size, right, down = (frame.width, frame.height), a, d
        if a == d == 0 and b and c:
            pixels, size, right, down = pixels.transpose(1, 0, 2), size[::-1], c, b
        return pixels[:: -1 if down < 0 else 1, :: -1 if right < 0 else 1], size

    def damage(self, scan: _Scan) -> Iterator[str]:
        # The second time, decoding ends at the last frame and may not come to all of them.
        if faults := max(self.faults, scan.faults, key=len):
            yield f"{len(faults)} packets cannot be decoded ({faults[0]})"
        if self.damaged:
            some = ", ".join(map(str, self.damaged[:_NAMED]))
            more = "" if len(self.damaged) <= _NAMED else f" and {len(self.damaged) - _NAMED} more"
            yield f"damaged frames: {some}{more}"


def _matrix(frame: VideoFrame) -> tuple[int, int, int, int]:
    """Return a, b, c, d of the display matrix: a pixel is shown at x' = ax + cy, y' = bx + dy."""
    from av.sidedata.sidedata import SideDataContainer

    # Not `frame.side_data`: it makes the frame refer to itself, and with it all its decoder's
    # buffers stay until the garbage collector runs.
    data = cast("Any", SideDataContainer)(frame).get("DISPLAYMATRIX")
    if data is None:
        return 1, 0, 0, 1
    a, b, _, c, d = (int(n) for n in np.frombuffer(bytes(data), np.int32)[:5])
    return a, b, c, d


@contextmanager
def opened(path: Path, guard: Guard) -> Iterator[tuple[InputContainer, VideoStream]]:
    """Open a file and its main video stream; raises `VideoError` where there is none."""
    import av

    left = max(guard.left, 0.001)
    # For a title that is not UTF-8. Version 19, for Python 3.12 and newer, has dropped the option.
    tolerant: dict[str, Any] = (
        {} if int(av.__version__.split(".")[0]) >= 19 else {"metadata_errors": "replace"}
    )
    try:
        container = av.open(
            f"file:{path}",
            "r",
            container_options=_OPTIONS,
            timeout=(left, left),
            **tolerant,
        )
    except av.ArgumentError:
        # Of a format that is not in our list.
        raise VideoError("is not a video (text, a picture or a playlist)", file=path) from None
    except av.FFmpegError as fault:
        is_system = isinstance(fault, OSError) and not isinstance(fault, ValueError)
        what = "cannot be read" if is_system else "is not a video, or its index is cut off"
        raise VideoError(f"{what} ({_reason(fault)})", file=path) from None
    with container:
        stream = _main_stream(container, path)
        stream.thread_type = "AUTO"
        yield container, stream


def _main_stream(container: InputContainer, path: Path) -> VideoStream:
    from av.stream import Disposition

    covers = Disposition.attached_pic | Disposition.timed_thumbnails
    streams = [stream for stream in container.streams.video if not stream.disposition & covers]
    if not streams:
        why = " (audio only)" if container.streams.audio else ", or its index is cut off"
        raise VideoError(f"has no video{why}", file=path)
    for stream in streams:
        # Without a decoder there is no context.
        if stream.codec_context is None:
            raise VideoError("there is no decoder for its codec", file=path)
    return max(streams, key=lambda stream: stream.codec_context.width)


def _reason(fault: Exception) -> str:
    return one_line(getattr(fault, "strerror", None) or str(fault), 80)


def _scan(path: Path, size: int, guard: Guard) -> _Scan:
    import av

    pts: list[int | None] = []
    ends: dict[int | None, int] = {}
    damage: list[str] = []
    packets = 0
    reached = 0.0
    last_is_cut = last_is_shown = False
    with opened(path, guard) as (container, stream):
        try:
            # Of all streams: the stated duration is that of the longest.
            for packet in container.demux():
                if packet.size == 0:
                    continue
                guard.check()
                if packet.pts is not None:
                    end = packet.pts + (packet.duration or 0)
                    reached = max(reached, float(end * packet.time_base))
                if packet.stream_index != stream.index:
                    continue
                packets += 1
                last_is_cut = packet.is_corrupt
                last_is_shown = not packet.is_discard
                if last_is_shown:
                    pts.append(packet.pts)
                    ends[packet.pts] = packet.duration or 0
        except IndexError:
            # PyAV fails, at the very end, on streams that appeared in the middle.
            pass
        except av.FFmpegError as fault:
            guard.check()
            damage.append(f"cannot be read to its end ({_reason(fault)})")
        if packets == 0:
            raise VideoError("has no frame that can be decoded", file=path)
        indexed = len(stream.index_entries)
        if last_is_cut:
            # Its frame would be half of one picture and half of another.
            packets -= 1
            if last_is_shown:
                pts.pop()
        stamps = sorted(stamp for stamp in pts if stamp is not None)
        stated = (container.duration or 0) / av.time_base
        if packets < indexed:
            damage.append(f"is cut off: {packets} of {indexed} packets are there")
        elif last_is_cut or ("mpegts" in container.format.name and size % 188 and size % 192):
            damage.append("is cut off in its last packet")
        elif stamps and reached < stated - _EARLY:
            damage.append(f"ends at {reached:.1f} s, and should last {stated:.1f} s")
        return _Scan(
            # Without all time stamps the order of showing is not known.
            pts=list(stamps) if len(stamps) == len(pts) else [],
            time_base=stream.time_base or Fraction(1, 1000),
            rate=stream.average_rate or stream.guessed_rate,
            last_duration=ends.get(stamps[-1], 0) if stamps else 0,
            packets=packets,
            damage=tuple(damage),
        )


def _decode_all(path: Path, scan: _Scan, guard: Guard) -> _Scan:
    """Return what a decoder shows of the whole stream, whatever the packets announce."""
    pts: list[int | None] = []
    faults: list[str] = []
    in_fields = False
    with opened(path, guard) as (container, stream):
        stream.codec_context.thread_count = 1
        for frame in _decoded(container, stream, scan, guard, faults):
            pts.append(frame.pts)
            in_fields = in_fields or frame.interlaced_frame
    if not pts:
        why = f" ({faults[0]})" if faults else ""
        raise VideoError(f"has no frame that can be decoded{why}", file=path)
    warnings, damage = list(scan.warnings), list(scan.damage)
    announced = len(scan.pts) or scan.packets
    if len(pts) != announced:
        # Two packets may hold the two fields of one interlaced frame; else frames are missing.
        found = warnings if in_fields or len(pts) > announced else damage
        found.append(f"shows {len(pts)} frames where its packets announce {announced}")
    if None in pts or pts != sorted(stamp for stamp in pts if stamp is not None):
        warnings.append("has no usable time stamps; times follow from the frame rate")
        pts = [None] * len(pts)
    return replace(
        scan, pts=pts, warnings=tuple(warnings), damage=tuple(damage), faults=tuple(faults)
    )


def _decoded(
    container: InputContainer,
    stream: VideoStream,
    scan: _Scan,
    guard: Guard,
    faults: list[str],
) -> Iterator[VideoFrame]:
    """Yield the decoded frames; a packet that the decoder refuses is skipped."""
    import av

    packets = 0
    source = container.demux(stream)
    while packets < scan.packets:
        guard.check()
        try:
            packet = next(source, None)
        except (av.FFmpegError, IndexError):
            break
        if packet is None:
            break
        if packet.size == 0:
            continue
        packets += 1
        try:
            frames = packet.decode()
        except av.FFmpegError as fault:
            faults.append(_reason(fault))
            continue
        yield from frames
    for _ in range(_DRAINS):
        guard.check()
        try:
            frames = stream.decode(None)
        except av.EOFError:
            return
        except av.FFmpegError as fault:
            faults.append(_reason(fault))
            continue
        yield from frames
        return


def _rounded(times: list[float]) -> tuple[float, ...]:
    return tuple(round(time, 6) for time in times)
