"""`capeval annotate filter`: which videos of a folder are fit to be annotated: `videos.jsonl`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool
from rich.console import Console

from capeval.construct.video_measures import SIDE, copies, measure
from capeval.errors import InputError, VideoError
from capeval.files.annotations import VIDEO_LIST
from capeval.files.jsonl import numbered_lines, whole_lines, write_jsonl
from capeval.files.reading import validated
from capeval.files.videos import VideoFolder
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
from capeval.schema.annotation import Id, id_text
from capeval.show.numbers import tenths, thousands
from capeval.show.result import Result
from capeval.show.table import LINE, Kind, Page, Row, Table, columns
from capeval.show.terminal import print_line
from capeval.text import counted
from capeval.video.frames import file_size
from capeval.video.pyav_decoder import PyAVDecoder

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
    min_side : The least shorter side, in pixels, as in the TUNA paper.
    max_seconds : The longest duration, as in the TUNA paper.
    progress : Receives the status after every video.
    """

    folder: FilePath = required("The folder of the videos.", positional=True, metavar="FOLDER")
    _: KW_ONLY
    min_side: int = option(480, panel=INPUTS, metavar="N", min=1)
    max_seconds: float = option(40.0, panel=INPUTS, metavar="S", min=0)
    progress: Progress | None = python_only(None, method="update", shown=False)


class VideoRow(BaseModel):
    """A video, whether to keep it, and its measures; a row's other fields are left as they are.

    Attributes
    ----------
    index : the file's stem; if several have it, with the folder, and if need be the suffix
    video : the file, relative to the folder
    keep : follows from the reasons, unless it was edited; false of an unreadable video
    by_hand : whether it was edited
    error : why the video is unreadable
    bytes : the file's size; another one means another video
    seconds, cuts : in seconds from the first frame
    black, frozen : shares of the time; a video that is too long is not measured
    activity : how much the most active block changes, in levels of 255
    hashes : see `video_measures`; kept in a file of their own, because they are long
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
    and no longer is. Reasons are found anew each time, with the limits given.
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
        read = [validated(VideoRow, it, file=self.file, where=f"line {at}") for at, it in lines]
        hashes = {line["video"]: line["hashes"] for line in whole_lines(self.hashes)}
        stored = {it.video: it.but(hashes=it.hashes or hashes.get(it.video, "")) for it in read}
        rows: list[VideoRow] = []
        for video, index in _indexes(self.videos.files, stored).items():
            size, row = None, stored.get(video)
            with suppress(VideoError):  # of a file that cannot be read: decoding it says why
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

    def line(self, plan: RowPlan, outcome: Stored[VideoRow]) -> tuple[Path, Mapping[str, Any]]:
        del plan
        (row,) = self._decided([outcome.value])
        return self.file, row.model_dump(mode="json") | {"hashes": row.hashes}

    def finish(self, plan: RowPlan, done: Mapping[str, Stored[VideoRow]]) -> None:
        """Decide about all videos together, and write their rows in the order of the files."""
        del plan
        self.rows = self._decided(one.value for one in done.values())
        measured = [row for row in self.rows if row.hashes]
        write_jsonl(self.hashes, ({"video": it.video, "hashes": it.hashes} for it in measured))
        write_jsonl(self.file, (row.model_dump(mode="json") for row in self.rows))

    def _decided(self, rows: Iterable[VideoRow]) -> list[VideoRow]:
        """Return rows with reasons; of two copies the longer, then the larger one is kept."""
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
    """Return the index of each video by its path; one that has an index keeps it."""
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
    """The rows of all videos. The table shows the videos that are left out, with the reasons."""

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
        return [Page([Table("Left out", heads, rows)])] if rows else []

    def show(self, console: Console, *, full: bool = False) -> None:
        super().show(console, full=full)
        print_line(str(self.file), console)


def _spoken(reason: str) -> str:
    return reason.replace("-", " ")


def _why(row: VideoRow) -> str:
    if row.duplicate_of:
        return f"near duplicate of {row.duplicate_of}"
    return row.error or ", ".join(map(_spoken, row.reasons)) or "by hand"


@takes(FilterOptions)
async def annotate_filter_async(o: FilterOptions) -> FilteredVideos:
    """Find the videos that are fit to be annotated: videos.jsonl. Nothing is deleted.

    Left out are videos that cannot be read, are too small, too long, black, frozen or near static,
    and near duplicates. Edit "keep" in videos.jsonl to decide otherwise. A rerun leaves what was
    edited, and decodes only what is new or changed.

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
