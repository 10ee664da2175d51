"""`capeval annotate filter`: which videos of a folder are fit for annotation: `videos.jsonl`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, StrictBool

from capeval.errors import InputError, VideoError
from capeval.files.annotations import VIDEO_LIST, VideoFolder
from capeval.files.jsonl import numbered_lines, validated, whole_lines, write_jsonl
from capeval.options import (
    INPUTS,
    FilePath,
    command,
    declares,
    option,
    python_only,
    required,
    takes,
)
from capeval.runs.concurrency import blocking, in_thread, work_through
from capeval.runs.engine import Labels, Plan, Progress, ResumableTask, Stored, execute, left_of
from capeval.runs.folder import RunFolder
from capeval.schema import Id, id_text
from capeval.show.numbers import tenths, thousands
from capeval.show.result import Result
from capeval.show.table import LINE, Kind, Page, Row, Table, columns
from capeval.text import counted
from capeval.video.decoding import PyAVDecoder, file_size
from capeval.video.sampling import Choice, Fps, Timeline

# The share of a video that may be black or frozen: half is a fault, a title or a pause is not.
_MOST_EMPTY = 0.35
# Noise changes the most active block by up to 3 levels, an object 2% wide by more than 4.
_LEAST_ACTIVITY = 3.5
# While one video is measured, others are read and decoded.
_AT_A_TIME = 4


@declares
class FilterOptions:
    """The arguments of `capeval.annotate_filter`.

    Parameters
    ----------
    min_side : Minimum shorter side, in pixels, as in the TUNA paper.
    max_seconds : Maximum duration, as in the TUNA paper.
    progress : Receives the status after every video.
    """

    folder: FilePath = required("The folder of the videos.", positional=True, metavar="FOLDER")
    _: KW_ONLY
    min_side: int = option(480, panel=INPUTS, metavar="N", min=1)
    max_seconds: float = option(40.0, panel=INPUTS, metavar="S", min=0)
    progress: Progress | None = python_only(None, method="update", shown=False)


class VideoRow(BaseModel):
    """A video, whether to keep it, and its measures; other fields of a row are preserved.

    `keep` follows from the reasons, unless it was edited `by_hand`. `error` says why the video is
    unreadable. `cuts` are in seconds; `black` and `frozen` are shares of the time, None for a video
    that is too long; `activity` is how much the most active block changes, in levels of 255.
    `hashes` are kept in a file of their own, because they are long.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    index: Id
    video: str
    keep: StrictBool = True
    reasons: tuple[str, ...] = ()
    duplicate_of: str | None = None
    error: str | None = None
    by_hand: bool = False
    width: int = 0
    height: int = 0
    seconds: float = 0.0
    fps: float = 0.0
    cuts: tuple[float, ...] = ()
    black: float | None = None
    frozen: float | None = None
    activity: float | None = None
    bytes: int | None = None
    hashes: str = Field("", exclude=True)

    def but(self, **fields: Any) -> VideoRow:
        return self.model_copy(update=fields)


RowPlan = Plan[Stored[VideoRow]]


@dataclass
class FilterWork(ResumableTask[RowPlan, Stored[VideoRow]]):
    """Measures the videos of a folder.

    A video is decoded again if its size has changed, if it was unreadable, or if it was too long
    for an earlier limit. Reasons are always computed again, with the current limits.
    """

    folder: Path
    min_side: int
    max_seconds: float
    rows: Sequence[VideoRow] = field(default=(), init=False)
    labels = Labels(doing="checking", item="video", done="checked", failed="unreadable")

    def __post_init__(self) -> None:
        # The lock would create the folder.
        self.videos = VideoFolder(self.folder)
        self.file = self.folder / VIDEO_LIST
        self.hashes = self.file.with_suffix(".hashes.jsonl")

    def locked(self) -> AbstractContextManager[None]:
        return RunFolder(self.folder).locked(part=self.file.stem)

    def plan(self) -> RowPlan:
        if not self.videos.files:
            raise InputError("has no videos, such as .mp4 files", file=self.folder)
        lines = numbered_lines(self.file)
        read = [validated(VideoRow, it, file=self.file, where=where) for where, it in lines]
        hashes = {line["video"]: line["hashes"] for line in whole_lines(self.hashes)}
        stored = {it.video: it.but(hashes=it.hashes or hashes.get(it.video, "")) for it in read}
        rows: list[VideoRow] = []
        for video, index in _indexes(self.videos.files, stored).items():
            size, row = None, stored.get(video)
            with suppress(VideoError):  # decoding the file reports it
                size = file_size(self.folder / video)
            if row is None or row.bytes != size:
                row = VideoRow(index=index, video=video, bytes=size)
            rows.append(row.but(index=index, by_hand=row.by_hand or row.keep == bool(row.reasons)))
        kept = {
            row.index: Stored(row.index, row, row.error)
            for row in rows
            if row.error or row.hashes or row.seconds > self.max_seconds
        }
        return Plan(self.file.name, kept, left_of(rows, kept, lambda row: row.index))

    async def perform(self, plan: RowPlan, record: Callable[[Stored[VideoRow]], None]) -> None:
        decoder = PyAVDecoder((SIDE, SIDE))

        def measured(row: VideoRow) -> Stored[VideoRow]:
            try:
                found = measure(self.folder / row.video, decoder, self.max_seconds)
            except VideoError as error:
                return Stored(row.index, row.but(error=error.message), error.message)
            return Stored(row.index, row.but(error=None, **found))

        await work_through(
            plan.todo,
            lambda row: in_thread(partial(measured, row)),
            concurrency=_AT_A_TIME,
            record=lambda _, stored: record(stored),
        )

    def line(self, outcome: Stored[VideoRow]) -> tuple[Path, Mapping[str, Any]]:
        (row,) = self._decided([outcome.value])
        return self.file, row.model_dump(mode="json") | {"hashes": row.hashes}

    def finish(self, plan: RowPlan, done: Mapping[str, Stored[VideoRow]]) -> None:
        self.rows = self._decided(one.value for one in done.values())
        measured = [row for row in self.rows if row.hashes]
        write_jsonl(self.hashes, ({"video": it.video, "hashes": it.hashes} for it in measured))
        write_jsonl(self.file, (row.model_dump(mode="json") for row in self.rows))

    def _decided(self, rows: Iterable[VideoRow]) -> list[VideoRow]:
        """Return rows with reasons; of two copies, the longer (then larger) is kept."""
        rows = [_with(row, self._faults(row)) for row in sorted(rows, key=lambda one: one.video)]
        kept = [row for row in rows if row.keep]
        # Whole seconds: another encoder makes a copy a frame longer.
        kept.sort(key=lambda row: (-round(row.seconds), -row.width * row.height, -(row.bytes or 0)))
        found = zip(kept, copies([row.hashes for row in kept]), strict=True)
        original = {row.index: kept[at].index for row, at in found if at is not None}
        return [_with(row, row.reasons, original.get(row.index)) for row in rows]

    def _faults(self, row: VideoRow) -> list[str]:
        if row.error is not None:
            return ["unreadable"]
        found = {
            "low-resolution": min(row.width, row.height) < self.min_side,
            "too-long": row.seconds > self.max_seconds,
            "black": (row.black or 0) > _MOST_EMPTY,
            "frozen": (row.frozen or 0) > _MOST_EMPTY,
            "near-static": row.activity is not None and row.activity < _LEAST_ACTIVITY,
        }
        return [reason for reason, applies in found.items() if applies]


def _with(row: VideoRow, reasons: Sequence[str], original: str | None = None) -> VideoRow:
    found = (*reasons, *(["near-duplicate"] if original else []))
    by_hand = row.by_hand and row.error is None
    keep = row.keep if by_hand else not found
    return row.but(reasons=found, duplicate_of=original, keep=keep, by_hand=by_hand)


def _indexes(videos: Sequence[PurePosixPath], stored: Mapping[str, VideoRow]) -> dict[str, str]:
    """Return the index of each video by its path; stored indexes stay."""
    stems = Counter(path.stem for path in videos)
    found: dict[str, str] = {}
    for path in sorted(videos, key=lambda path: str(path) not in stored):
        row = stored.get(str(path))
        names = [row.index] if row else [path.stem] if stems[path.stem] == 1 else []
        names += [str(path.with_suffix("")), str(path)]
        taken = {*found.values()}
        found[str(path)] = next(name for name in map(id_text, names) if name not in taken)
    return found


_LIMITS = {"low-resolution": " (--min-side)", "too-long": " (--max-seconds)"}


class FilteredVideos(list[VideoRow], Result):
    """The rows of all videos; the table shows the videos that are left out."""

    screen: ClassVar = 40

    def __init__(self, rows: Sequence[VideoRow], file: Path) -> None:
        super().__init__(rows)
        self.file = file

    def headline(self) -> str:
        reasons = Counter(reason for row in self if not row.keep for reason in row.reasons)
        if by_hand := sum(row.by_hand for row in self):
            reasons["decided by hand"] = by_hand
        kept = f"{thousands(sum(row.keep for row in self))} of {counted(len(self), 'video')} kept"
        found = [
            f"{thousands(count)} {_spoken(reason)}{_LIMITS.get(reason, '')}"
            for reason, count in reasons.most_common()
        ]
        return f"{kept}; {', '.join(found)}." if found else f"{kept}."

    def pages(self, *, full: bool = False) -> list[Page]:
        heads = columns(("Video", LINE), ("Why", LINE), "Size", ("Seconds", Kind(tenths)), words=2)
        rows: list[Row] = [
            [row.video, _why(row), f"{row.width}x{row.height}", row.seconds]
            for row in self
            if not row.keep
        ]
        return [Page([Table("Left out", heads, rows)] if rows else [], notes=[str(self.file)])]


def _spoken(reason: str) -> str:
    return reason.replace("-", " ")


def _why(row: VideoRow) -> str:
    if row.duplicate_of:
        return f"near duplicate of {row.duplicate_of}"
    return row.error or ", ".join(map(_spoken, row.reasons)) or "by hand"


@takes(FilterOptions)
async def annotate_filter_async(o: FilterOptions) -> FilteredVideos:
    """Find the videos suitable for annotation: videos.jsonl. Nothing is deleted.

    Left out are videos that cannot be read, are too small, too long, black, frozen or near static,
    and near duplicates. Edit "keep" in videos.jsonl to decide otherwise. A rerun keeps your edits,
    and decodes only new and changed videos.

    Raises
    ------
    InputError
        The folder has no videos, or a line of its videos.jsonl is not valid.
    MissingExtra
        PyAV is not installed.
    """
    work = FilterWork(Path(o.folder), o.min_side, o.max_seconds)
    with work.locked():
        await execute(work, work.plan(), o.progress)
    return FilteredVideos(work.rows, work.file)


annotate_filter = blocking(annotate_filter_async)
command("annotate filter")(annotate_filter)


# ---- What the frames of a video say about it -----------------------------------------------------

# Frames of any shape are scaled to `SIDE` by `SIDE` pixels. That averages noise away, and copies of
# other sizes are measured alike.

Pictures = NDArray[Any]
"""Shape (n, SIDE, SIDE) in grey, or (n, SIDE, SIDE, 3); levels from 0 to 255."""

SIDE, _BLOCK = 48, 4
# Cuts are detected in all frames, so that their times are exact; other measures change slowly.
_CUT_RATE, _RATE = 30.0, 10

# Two shots differ by this share of their contrast: cuts by 0.6 or more, abrupt pans by 0.25 ...
_SHOT_CONTRAST = 0.35
# ... and by this many levels, more than encoding changes even in the dark ...
_SHOT_LEVELS = 3.0
# ... in this share of the blocks: more than a subtitle, less than a narrow picture between bars.
_SHOT_BLOCKS = 0.25
# A block is tracked this many of 24 pixels to the next frame: a pan of two widths a second.
_REACH = 2
# A cut exceeds the changes of this many frames before and after it, half a second; in steady
# movement the ratio is below 2.
_AROUND, _RATIO = 12, 2.5
# After this many frames a flash is over, and the picture is back.
_FLASH = 12
# Seconds; two cuts closer than this are one, with a flash between the shots.
_SHORTEST_SHOT = 0.2

# All pixels of a black picture are darker: black is 0, or 16 if the range is wrongly tagged.
_BLACK = 20.0
# Movement is a change within half a second, in which slow movement becomes visible.
_LAG = 5
# Levels by which encoding may change a block of a still picture.
_STILL = 1.5
# A tenth of the time must have movement.
_MOVING_TIME = 0.9

# One hash in 0.2 s, as copies begin at any moment; of the shorter video, every fifth is searched.
_HASH_EVERY, _ASK_EVERY = 2, 5
# About half of the 64 bits of any hash differ from this, as from the hash of another video.
_OUTSIDE = 0x5555555555555555
# The greatest mean distance of the hashes of a copy: usually 5, and over 20 for other videos.
_COPY = 10.0


@dataclass(frozen=True)
class _Sampling:
    longest: float

    def choose(self, timeline: Timeline) -> Choice:
        if timeline.duration > self.longest:
            return Choice((0,))
        return Fps(_CUT_RATE).choose(timeline)


def measure(path: Path, decoder: PyAVDecoder, longest: float) -> dict[str, Any]:
    """Decode a video once, and return its measures; raises `VideoError`.

    A video longer than `longest` seconds has only its size, duration and frame rate.
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
    """Return the times of the first frames of the second shot and all later shots.

    A cut changes the picture much more than the frames around it, and permanently: after a flash,
    the picture is as before. Fades and dissolves change it little at a time.
    """
    if len(frames) < 2:
        return []
    small = frames.reshape(len(frames), SIDE // 2, 2, SIDE // 2, 2, 3).mean(axis=(2, 4))
    change = _differences(small[:-1], small[1:])
    around = sliding_window_view(np.pad(change, _AROUND), 2 * _AROUND + 1).copy()
    beside = around[:, _AROUND - 1 : _AROUND + 2]
    is_peak = (change > 1) & (change == beside.max(axis=1))
    # Without the cut itself, which may be blended into a frame on each side, and one more nearby.
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
    """Return how much pictures differ, ignoring block movement; over 1 for two shots.

    Both have equally many pictures, or one has one.
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

    The mean of all blocks would miss a small object. Changes of the brightness or contrast of the
    whole picture do not count. The pictures are a tenth of a second apart.
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
    """Return 64 bits for each picture, in hexadecimal: low frequencies above their median."""
    from scipy.fft import dctn

    low = dctn(grey, axes=(1, 2))[:, :8, :8].reshape(len(grey), 64)
    return np.packbits(low > np.median(low, axis=1, keepdims=True)).tobytes().hex()


def copies(found: Sequence[str]) -> list[int | None]:
    """Return for each video, longest first, the earlier video it copies, whole or in part."""
    read = [np.frombuffer(bytes.fromhex(text), np.uint64) for text in found]
    longest = max(map(len, read), default=0)
    # A copy may begin before its original or end after it, by less than a third of its time.
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
