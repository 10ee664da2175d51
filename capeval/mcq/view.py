"""The view of a video that a model gets: its frames, their order, and the subtitles."""

from __future__ import annotations

import hashlib
import html
import re
import threading
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Literal
from unicodedata import normalize

import numpy as np

from capeval.captioners.pipeline import READERS
from capeval.errors import InputError, UsageError, VideoError, needing
from capeval.files.annotations import SUFFIXES
from capeval.files.jsonl import read_bytes, reading, why_missing
from capeval.runs.concurrency import Recent
from capeval.schema import Question
from capeval.text import listed, nearest, shown
from capeval.video import FrameReader, FrameSet, Given, Policy
from capeval.video.sampling import Choice, Timeline

# The benchmarks' own numbers of frames; others take those of the model's entry in the catalogue.
# TUNA-MCQ uses the frames of TUNA-CAP, which are 32 or the model's own.
_DEFAULTS: Mapping[str, str] = {"tomato": "16"}
_SINGLE = r"first|random|column:.+"


@dataclass(frozen=True)
class VideoView:
    """The choice and the order of the frames of a video.

    `frames` is a policy as in `--frames`, else the benchmark's own or the model's `default`.
    `single` is first, random, or column:NAME.
    """

    frames: str | None = None
    default: str = "32"
    order: Literal["ordered", "shuffled"] = "ordered"
    single: str | None = None
    blind: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        others = self.frames or self.order == "shuffled"
        if self.blind and (self.single or others):
            raise UsageError("--blind shows no frames; omit --frames, --single and --shuffle")
        if self.single and others:
            raise UsageError("--single shows one frame; omit --frames and --shuffle")
        if self.single and not re.fullmatch(_SINGLE, self.single, re.ASCII):
            raise UsageError(f"--single {shown(self.single)}: must be first, random or column:NAME")

    def policy_name(self, question: Question) -> str:
        if self.blind:
            return "none"
        if self.single:
            return f"single {self.single}"
        return self.frames or _DEFAULTS.get(question.benchmark, self.default)

    @property
    def label(self) -> str:
        """The part of the run folder's name that describes the frames, apart from the policy."""
        if self.blind:
            return "blind"
        seeded = f"-seed{self.seed}" if self.seed else ""
        if self.single:
            return self.single.replace(":", "-") + (seeded if self.single == "random" else "")
        return f"shuffled{seeded}" if self.order == "shuffled" else ""

    def single_frame(self, question: Question) -> Policy:
        """Return the policy that takes the single frame of a question; raises `UsageError`."""
        which, _, name = (self.single or "").partition(":")
        if which == "random":
            return RandomFrame(_seeded(self.seed, question))
        if which == "column":
            return Given((_index_in(question, name),))
        return Given((0,))

    def showed_another(self, question: Question, frames: Mapping[str, Any]) -> bool:
        """Return whether a response shows another frame than the question's column now names."""
        name = (self.single or "").partition("column:")[2]
        return bool(name) and frames.get("indices") != [_index_in(question, name)]

    def reorder(self, frames: FrameSet, question: Question) -> FrameSet:
        count = len(frames)
        if self.order == "ordered":
            return frames
        if count < 2:
            return replace(frames, warnings=(*frames.warnings, "a single frame has no order"))
        rng = np.random.default_rng(_seeded(self.seed, question))
        order = np.arange(count)
        while (order[:-1] < order[1:]).all():
            rng.shuffle(order)
        return replace(
            frames,
            frames=frames.frames[order],
            indices=tuple(frames.indices[n] for n in order),
            times=tuple(frames.times[n] for n in order),
        )

    def settings(self) -> dict[str, Any]:
        drawn = self.order == "shuffled" or self.single == "random"
        return {
            "order": self.order,
            "single": self.single,
            "blind": self.blind,
            **({"seed": self.seed} if drawn else {}),
        }


@dataclass(frozen=True)
class RandomFrame:
    """One frame, each as likely as any other."""

    seed: int

    def choose(self, timeline: Timeline) -> Choice:
        return Choice((int(np.random.default_rng(self.seed).integers(timeline.total)),))

    def __str__(self) -> str:
        return "random"


def _seeded(seed: int, question: Question) -> int:
    text = f"{seed}\0{question.benchmark}\0{question.id}\0{question.video}"
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8])


def _index_in(question: Question, name: str) -> int:
    if name not in question.tags:
        tags = sorted(question.tags)
        raise UsageError(
            f"--single column:{name}: question {shown(question.id)} has no such field; it has "
            f"{listed(tags, 12) or 'none'}{nearest(name, tags)}"
        )
    value = question.tags[name]
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a column of a table with an empty field has numbers such as 7.0
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value, re.ASCII):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(
            f"--single column:{name}: question {shown(question.id)}: must be the index of a "
            f"frame from 0, not {shown(value)}"
        )
    return value


def no_frames() -> FrameSet:
    return FrameSet(np.zeros((0, 1, 1, 3), np.uint8), (), (), 0, 1.0, 0.0, decoder="none")


def recent_reads() -> Recent[FrameSet]:
    """Return a cache of the last videos; their frames take up to about a gigabyte."""
    return Recent(READERS, size=lambda read: read.frames.nbytes, most=1 << 30)


class SharedReader:
    """Reads the frames of a video once for consecutive questions about it."""

    def __init__(self, reader: FrameReader, recent: Recent[FrameSet]) -> None:
        self._reader, self._recent = reader, recent
        self.policy, self.decoder = reader.policy, reader.decoder

    def read(self, path: Path, *, cancel: threading.Event | None = None) -> FrameSet:
        try:
            return self._recent.get((self, path), partial(self._reader.read, path, cancel=cancel))
        except VideoError as error:
            # Each question gets an error of its own: a traceback grows with every raise.
            raise error.with_traceback(None) from None


ReaderFor = Callable[[Question], FrameReader]


# ---- Subtitles -----------------------------------------------------------------------------------

_FORMATS = (".srt", ".vtt")

# Karaoke times and line breaks; pysubs2 keeps the former and joins words at the latter.
_INSIDE = re.compile(r"<\d[\d:.,]*>|(<br\s*/?>)", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True)
class Cue:
    """A subtitle and when it is shown: from `start` until just before `end`, in seconds."""

    start: float
    end: float
    text: str


def parse_subtitles(text: str) -> tuple[Cue, ...]:
    """Return the subtitles of SRT or VTT text in the order of time, without markup.

    A cue without text, or with an end before its start, is left out.

    >>> parse_subtitles("1\\n00:00:01,000 --> 00:00:02,500\\n<font color='red'>Hello</font> you")
    (Cue(start=1.0, end=2.5, text='Hello you'),)
    """
    with needing("reading subtitles needs pysubs2", "frames"):
        from pysubs2 import SSAFile
    # Files that were converted twice have an empty line, as it seems, after every line.
    text = text.removeprefix("\ufeff").replace("\r\r\n", "\n")
    text = _INSIDE.sub(lambda found: " " if found[1] else "", text)
    form = "vtt" if text.lstrip().startswith("WEBVTT") else "srt"
    cues = []
    for event in SSAFile.from_string(text, format_=form).events:
        # Behind an empty line are comments, and the name of the next cue.
        spoken = event.plaintext.partition("\n\n")[0]
        # Without markup already: an escaped "&lt;b&gt;" is meant as text.
        spoken = " ".join(html.unescape(spoken).split())
        if event.end > event.start and spoken:
            cues.append(Cue(event.start / 1000, event.end / 1000, spoken))
    return tuple(sorted(cues, key=lambda cue: (cue.start, cue.end)))


def subtitles_at(cues: Sequence[Cue], times: Sequence[float]) -> tuple[str, ...]:
    """Return the subtitles shown at some of the times (in seconds), each once, in order.

    >>> cues = [Cue(0, 2, "One."), Cue(2, 4, "Two."), Cue(8, 9, "Three.")]
    >>> subtitles_at(cues, [3.0, 1.0, 3.5, 6.0])
    ('One.', 'Two.')
    """
    moments = sorted(times)
    active = []
    for cue in cues:
        first = bisect_left(moments, cue.start)
        if first < len(moments) and moments[first] < cue.end:
            active.append(cue.text)
    return tuple(text for n, text in enumerate(active) if n == 0 or text != active[n - 1])


class SubtitleFiles:
    """Subtitles by the names of their videos.

    InputError for a folder without subtitles, and for a name that files in several folders have.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: dict[str, Path] = {}
        self._keys: dict[str, list[str]] = {}
        self._cues: dict[str, tuple[Cue, ...]] = {}
        if not path.is_dir():
            is_zip = path.suffix.lower() == ".zip" and path.is_file()
            raise InputError(
                "must be a folder; unzip it first" if is_zip else why_missing(path), file=path
            )
        with reading():
            found = [file for file in sorted(path.rglob("*")) if file.suffix.lower() in _FORMATS]
            # Archives made on a Mac have files such as ._clip.srt, which are not subtitles.
            found = [file for file in found if not file.name.startswith(".") and file.is_file()]
        for file in found:
            key = normalize("NFC", file.relative_to(path).with_suffix("").as_posix())
            # .srt comes before .vtt of the same name.
            if key not in self._files:
                self._files[key] = file
                self._keys.setdefault(PurePosixPath(key).name, []).append(key)
        if not self._files:
            raise InputError("has no .srt and no .vtt files", file=path)

    def of(self, video: str) -> tuple[Cue, ...] | None:
        """Return the subtitles of a video (its name, with or without suffix); None if none.

        Files match its whole path, or else its bare name in any folder.
        """
        path = PurePosixPath(normalize("NFC", video))
        stem = path.with_suffix("") if path.suffix.lower() in SUFFIXES else path
        found = [str(stem)] if str(stem) in self._files else self._keys.get(stem.name, [])
        if len(found) > 1:
            raise InputError(
                f"{len(found)} files of subtitles could be those of {shown(video)} "
                f"({listed(found, 3)})",
                file=self.path,
            )
        if not found:
            return None
        key = found[0]
        if key not in self._cues:
            self._cues[key] = parse_subtitles(_decoded(read_bytes(self._files[key])))
        return self._cues[key]


def _decoded(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Old files; every byte is a character there, so that nothing is lost but accents.
        return data.decode("cp1252", "replace")
