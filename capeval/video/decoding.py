"""Decoders by name, and readers that decode what a sampling policy chooses.

The default decoder counts the shown frames without decoding, then decodes in order. The first pass
reads packets only and so costs milliseconds; the second decodes with threads, converts only the
chosen frames and stops at the last. Every decoded frame's time is compared with the first pass.
Where they disagree (a damaged file, a stream that cannot start where it begins, two packets for one
frame), all is decoded once to learn which frames exist, and the choice is made again.
"""

from __future__ import annotations

import stat
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from capeval.errors import MissingExtra, UsageError, VideoError, needing
from capeval.text import one_line
from capeval.video.sampling import FrameSet, Policy, Timeline, read_policy

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream


# Of the frames of one video.
MOST_BYTES = 8 * 2**30


def file_size(path: Path) -> int:
    """Return the size of a regular file; raises `VideoError`, also for a broken link."""
    try:
        state = path.stat()
    except FileNotFoundError:
        link = f"is a link to {path.readlink()}, which " if path.is_symlink() else ""
        raise VideoError(f"{link}does not exist", file=path) from None
    except OSError as fault:
        raise VideoError(f"cannot be read ({fault.strerror})", file=path) from None
    if stat.S_ISDIR(state.st_mode):
        raise VideoError("is a folder; name a video file", file=path)
    if not stat.S_ISREG(state.st_mode):
        raise VideoError("is not a regular file", file=path)
    return state.st_size


# ---- One file, opened ----------------------------------------------------------------------------

# Video, and audio so that the message can name it. Playlists and image patterns are left out: a
# file that claims to be a video must not make us open other files or addresses.
_FORMATS = (
    "mov,matroska,webm,avi,mpegts,mpeg,mpegvideo,m4v,flv,asf,ogg,h264,hevc,av1,obu,ivf,gif,nut,mxf,"
    "rm,wtv,dv,yuv4mpegpipe,wav,mp3,flac,aac,amr,ac3,w64,aiff,caf"
)
_OPTIONS = {"format_whitelist": _FORMATS, "protocol_whitelist": "file"}
# Seconds that FFmpeg may wait for a file, as on a slow network disk.
_TIMEOUT = 120.0


@contextmanager
def _opened(path: Path) -> Iterator[tuple[InputContainer, VideoStream]]:
    """Open a file and its main video stream; raises `VideoError` if there is none."""
    import av
    from av.stream import Disposition

    # For a title that is not UTF-8. Version 19, for Python 3.12 and newer, has dropped the option.
    tolerant: dict[str, Any] = (
        {} if int(av.__version__.split(".")[0]) >= 19 else {"metadata_errors": "replace"}
    )
    try:
        container = av.open(
            f"file:{path}", "r", container_options=_OPTIONS, timeout=_TIMEOUT, **tolerant
        )
    except av.ArgumentError:
        raise VideoError("is not a video (text, a picture or a playlist)", file=path) from None
    except av.FFmpegError as fault:
        is_system = isinstance(fault, OSError) and not isinstance(fault, ValueError)
        what = "cannot be read" if is_system else "is not a video, or is cut off"
        raise VideoError(f"{what} ({_reason(fault)})", file=path) from None
    with container:
        covers = Disposition.attached_pic | Disposition.timed_thumbnails
        streams = [stream for stream in container.streams.video if not stream.disposition & covers]
        if not streams:
            why = " (audio only)" if container.streams.audio else ", or is cut off"
            raise VideoError(f"has no video{why}", file=path)
        if any(stream.codec_context is None for stream in streams):
            raise VideoError("there is no decoder for its codec", file=path)
        stream = max(streams, key=lambda stream: stream.codec_context.width)
        stream.thread_type = "AUTO"
        yield container, stream


def _reason(fault: Exception) -> str:
    return one_line(getattr(fault, "strerror", None) or str(fault), 80)


# Seconds that a file may end early: muxers round the durations that they state.
_EARLY = 1.0
# A decoder that holds back frames at its end and fails on some is retried this often.
_DRAINS = 64


class _Video:
    """A file and what its packets announce: the time stamps of the shown frames, in their order."""

    def __init__(self, path: Path, cancel: threading.Event | None) -> None:
        self.path, self._cancel = path, cancel
        self.pts: list[int | None] = []
        self.warnings: list[str] = []
        self.damage: list[str] = []
        self.faults: list[str] = []
        """Of the packets that the decoder refused."""
        self._scan()

    def _check(self) -> None:
        if self._cancel is not None and self._cancel.is_set():
            raise _Stopped

    def _scan(self) -> None:
        import av

        if (size := file_size(self.path)) == 0:
            raise VideoError("is empty (0 bytes)", file=self.path)
        lasting: dict[int | None, int] = {}
        damage = self.damage
        self._packets, reached = 0, 0.0
        last_is_cut = last_is_shown = False
        with _opened(self.path) as (container, stream):
            try:
                # Of all streams: the stated duration is that of the longest.
                for packet in container.demux():
                    if packet.size == 0:
                        continue
                    self._check()
                    if packet.pts is not None:
                        end = packet.pts + (packet.duration or 0)
                        reached = max(reached, float(end * packet.time_base))
                    if packet.stream_index != stream.index:
                        continue
                    self._packets += 1
                    last_is_cut = packet.is_corrupt
                    last_is_shown = not packet.is_discard
                    if last_is_shown:
                        self.pts.append(packet.pts)
                        lasting[packet.pts] = packet.duration or 0
            except IndexError:
                # PyAV fails, at the very end, on streams that appeared in the middle.
                pass
            except av.FFmpegError as fault:
                damage.append(f"cannot be read to its end ({_reason(fault)})")
            if self._packets == 0:
                raise VideoError("has no frame that can be decoded", file=self.path)
            if last_is_cut:
                # Its frame would be half of one picture and half of another.
                self._packets -= 1
                if last_is_shown:
                    self.pts.pop()
            stamps = sorted(stamp for stamp in self.pts if stamp is not None)
            stated = (container.duration or 0) / av.time_base
            if self._packets < (indexed := len(stream.index_entries)):
                damage.append(f"is cut off: {self._packets} of {indexed} packets are there")
            elif last_is_cut or ("mpegts" in container.format.name and size % 188 and size % 192):
                damage.append("is cut off in its last packet")
            elif stamps and reached < stated - _EARLY:
                damage.append(f"ends at {reached:.1f} s, but should last {stated:.1f} s")
            # Without all time stamps the order of showing is not known.
            self._announced = len(stamps) if len(stamps) == len(self.pts) else self._packets
            self.pts = list(stamps) if len(stamps) == len(self.pts) else []
            self._base = float(stream.time_base or Fraction(1, 1000))
            self._rate = float(stream.average_rate or stream.guessed_rate or 0)
            self._last = lasting[stamps[-1]] * self._base if stamps else 0.0

    def decode_all(self) -> None:
        """Take the frames that a decoder shows of the whole stream, whatever packets announce."""
        pts: list[int | None] = []
        in_fields = False
        self.faults = []
        # One thread: with several, what survives of a damaged stream depends on their timing.
        for frame in self.decoded(threads=1):
            pts.append(frame.pts)
            in_fields = in_fields or frame.interlaced_frame
        if not pts:
            why = f" ({self.faults[0]})" if self.faults else ""
            raise VideoError(f"has no frame that can be decoded{why}", file=self.path)
        if len(pts) != self._announced:
            # Two packets may hold the two fields of one interlaced frame; else frames are missing.
            is_harmless = in_fields or len(pts) > self._announced
            found = self.warnings if is_harmless else self.damage
            found.append(f"shows {len(pts)} frames where its packets announce {self._announced}")
        if None in pts or pts != sorted(stamp for stamp in pts if stamp is not None):
            self.warnings.append("has no usable time stamps; times follow from the frame rate")
            pts = [None] * len(pts)
        self.pts = pts

    def decoded(self, *, threads: int) -> Generator[VideoFrame, None, None]:
        """Yield the decoded frames; a packet that the decoder refuses is skipped."""
        import av

        faults: list[str] = []
        with _opened(self.path) as (container, stream):
            stream.codec_context.thread_count = threads
            packets, source = 0, container.demux(stream)
            while packets < self._packets:
                self._check()
                try:
                    packet = next(source, None)
                except (av.FFmpegError, IndexError):
                    break
                if packet is None:
                    break
                if packet.size:
                    packets += 1
                    try:
                        frames = packet.decode()
                    except av.FFmpegError as fault:
                        faults.append(_reason(fault))
                    else:
                        yield from frames
                # The second decoding ends at the last chosen frame and may not reach all of them.
                self.faults = max(self.faults, faults, key=len)
            for _ in range(_DRAINS):
                self._check()
                try:
                    frames = stream.decode(None)
                except av.EOFError:
                    return
                except av.FFmpegError as fault:
                    faults.append(_reason(fault))
                    self.faults = max(self.faults, faults, key=len)
                    continue
                yield from frames
                return

    def timeline(self) -> Timeline:
        stamps = [stamp for stamp in self.pts if stamp is not None]
        if len(stamps) < len(self.pts):
            rate = self._rate or 25.0
            times = [n / rate for n in range(len(self.pts))]
            return Timeline(_rounded(times), rate, round(len(times) / rate, 6))
        times = [(stamp - stamps[0]) * self._base for stamp in stamps]
        fps = self._rate
        if times[-1] > 0:
            # The container's own rate is used only where the times agree with it.
            measured = (len(times) - 1) / times[-1]
            fps = fps if abs(fps - measured) < 0.005 * measured else measured
        fps = fps or 25.0
        last = self._last or 1 / fps
        return Timeline(_rounded(times), round(fps, 6), round(times[-1] + last, 6))


class _Stopped(Exception):
    """The frames are no longer needed."""


def _rounded(times: list[float]) -> tuple[float, ...]:
    return tuple(round(time, 6) for time in times)


# ---- The decoders --------------------------------------------------------------------------------

_ALL_CORES = 0
_NAMED = 10
# FFmpeg's numbers of the transfer functions, as frames and streams carry them.
_HDR = {16: "PQ", 18: "HLG"}
# Without tone mapping the code values of HDR, made for much brighter screens, look flat and grey.
_NOT_MAPPED = "is HDR ({}), shown without tone mapping: its colours look pale"


class PyAVDecoder:
    """Decodes with PyAV (FFmpeg) on all cores; scales frames to `size`, width and height."""

    def __init__(self, size: tuple[int, int] | None = None) -> None:
        self._size = size
        with needing("decoding needs PyAV", "frames"):
            import av
        self._version = f"PyAV {av.__version__}, FFmpeg {av.ffmpeg_version_info}"

    def read(
        self, path: Path, policy: Policy, *, cancel: threading.Event | None = None
    ) -> FrameSet:
        """Return the frames that `policy` chooses, upright; raises `VideoError`."""
        video = _Video(path, cancel)
        if video.pts:
            with suppress(_Disagreement):
                return self._take(video, policy, _ALL_CORES)
        video.decode_all()
        try:
            return self._take(video, policy, 1)
        except _Disagreement:
            raise VideoError("decodes differently each time", file=path) from None

    def _take(self, video: _Video, policy: Policy, threads: int) -> FrameSet:
        path, timeline = video.path, video.timeline()
        try:
            choice = policy.choose(timeline)
        except ValueError as fault:
            raise VideoError(str(fault), file=path) from None
        places: dict[int, list[int]] = {}
        for place, index in enumerate(choice.indices):
            places.setdefault(index, []).append(place)
        frames = np.empty((0, 0, 0, 3), np.uint8)
        size: tuple[int, int] | None = None
        hdr: str | None = None
        damaged: list[int] = []
        with closing(video.decoded(threads=threads)) as decoded:
            for number, frame in enumerate(decoded):
                if number >= len(video.pts) or video.pts[number] not in (None, frame.pts):
                    raise _Disagreement
                # Later frames are made from it, whether it is wanted itself or not.
                if frame.is_corrupt:
                    damaged.append(number)
                if number not in places:
                    continue
                width, height = self._size or (frame.width, frame.height)
                needed = len(choice.indices) * width * height * 3
                if size is None and needed > MOST_BYTES:
                    what = f"{len(choice.indices)} frames of {width}x{height}"
                    raise VideoError(
                        f"{what} need {needed / 2**30:.0f} GiB; ask for fewer", file=path
                    )
                pixels, now = _upright(frame, width, height)
                if size is None:
                    frames = np.empty((len(choice.indices), *pixels.shape), np.uint8)
                    size, hdr = now, _HDR.get(frame.color_trc)
                if now != size:
                    raise VideoError(
                        f"changes its size at frame {number}, from {size[0]}x{size[1]} to "
                        f"{now[0]}x{now[1]}",
                        file=path,
                    )
                frames[places.pop(number)] = pixels
                if not places:
                    break
            else:
                raise _Disagreement
        damage = list(video.damage)
        if video.faults:
            damage.append(f"{len(video.faults)} packets cannot be decoded ({video.faults[0]})")
        if damaged:
            more = "" if len(damaged) <= _NAMED else f" and {len(damaged) - _NAMED} more"
            damage.append(f"damaged frames: {', '.join(map(str, damaged[:_NAMED]))}{more}")
        pale = [] if hdr is None else [_NOT_MAPPED.format(hdr)]
        warnings = (*damage, *video.warnings, *choice.warnings, *pale)
        return FrameSet(
            frames=frames,
            indices=choice.indices,
            times=tuple(timeline.times[index] for index in choice.indices),
            total=timeline.total,
            fps=timeline.fps,
            duration=timeline.duration,
            decoder="pyav",
            version=self._version,
            warnings=tuple(dict.fromkeys(warnings)),
            damage=tuple(damage),
            hdr=hdr,
            shown_size=size or (0, 0),
        )


class _Disagreement(Exception):
    """The decoder shows other frames than the packets announce."""


def _upright(
    frame: VideoFrame, width: int, height: int
) -> tuple[NDArray[np.uint8], tuple[int, int]]:
    """Return the pixels of a frame as a player shows them, and the shown width and height."""
    from av.sidedata.sidedata import SideDataContainer

    pixels = np.asarray(frame.to_ndarray(format="rgb24", width=width, height=height), np.uint8)
    size = frame.width, frame.height
    # Not `frame.side_data`: it makes the frame refer to itself, and with it all its decoder's
    # buffers stay until the garbage collector runs.
    data = cast("Any", SideDataContainer)(frame).get("DISPLAYMATRIX")
    if data is None:
        return pixels, size
    # A pixel is shown at x' = ax + cy, y' = bx + dy.
    a, b, _, c, d = (int(n) for n in np.frombuffer(bytes(data), np.int32)[:5])
    right, down = a, d
    if a == d == 0 and b and c:
        pixels, size, right, down = pixels.transpose(1, 0, 2), size[::-1], c, b
    return pixels[:: -1 if down < 0 else 1, :: -1 if right < 0 else 1], size


# Two decoders round colours differently, by less than one level of 255 on average; another picture
# differs by tens.
_SAME = 8.0


class DecordDecoder(PyAVDecoder):
    """Decodes with decord the frames that PyAV has chosen."""

    def __init__(self) -> None:
        super().__init__()
        if (found := _version("decord2")) is None:
            raise MissingExtra(
                "decoding with decord needs decord2", otherwise=", or use the decoder pyav"
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
        """Return the frames of `policy`; refuses a video whose frames decord gets wrong."""
        import decord

        with _opened(path) as (container, stream):
            codec, form = stream.codec_context, container.format.name
            kinds = {
                "HEVC": codec.name == "hevc",
                "AVI with B-frames": form == "avi" and codec.has_b_frames,
                "MPEG-TS": form == "mpegts",
            }
        for kind in (name for name, is_it in kinds.items() if is_it):
            raise VideoError(
                f"decord gives wrong frames of {kind}; use the decoder pyav", file=path
            )
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
                raise VideoError(f"decord shows a different frame {index}", file=path)
        return replace(ours, frames=frames, decoder="decord", version=self._decord)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


_DECODERS: Mapping[str, Callable[[], PyAVDecoder]] = {"pyav": PyAVDecoder, "decord": DecordDecoder}


def decoder_named(name: str) -> PyAVDecoder:
    """Return a decoder, which is safe to call from several threads; UsageError if it is unknown."""
    if name not in _DECODERS:
        raise UsageError(f"decoder {name!r} is not one of {', '.join(_DECODERS)}")
    return _DECODERS[name]()


# ---- Readers -------------------------------------------------------------------------------------


class FrameReader(Protocol):
    """Reads the frames of videos by one policy with one decoder; called from several threads.

    `policy` is in the syntax of `--frames`.
    """

    @property
    def policy(self) -> str: ...
    @property
    def decoder(self) -> str: ...

    def read(self, path: Path, *, cancel: threading.Event | None = None) -> FrameSet:
        """Return the frames of a video; ends early once `cancel` is set; raises `VideoError`."""


def open_reader(
    policy: str | Policy, decoder: str = "pyav", *, allow_damaged: bool = False
) -> FrameReader:
    """Return the reader for a policy; UsageError if the policy or the decoder is unknown.

    It raises `VideoError` for a video that does not decode cleanly, unless `allow_damaged` is set.
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
