"""Subtitles of videos, from SRT and VTT files in a folder or a zip file."""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from zipfile import BadZipFile, LargeZipFile, ZipFile, ZipInfo

from capeval.errors import InputError, MissingExtra
from capeval.files.reading import read_bytes, reading, why_missing
from capeval.files.videos import SUFFIXES
from capeval.text import describe, listed, shown

_FORMATS = (".srt", ".vtt")

# A time of karaoke, and a line break; pysubs2 keeps the one and joins words at the other.
_INSIDE = re.compile(r"<\d[\d:.,]*>|(<br\s*/?>)", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True)
class Cue:
    """A subtitle and when it is shown, in seconds; its end is no part of it."""

    start: float
    end: float
    text: str


def parse_subtitles(text: str) -> tuple[Cue, ...]:
    """Return the subtitles of SRT or VTT text in the order of time, without markup.

    A cue whose end is not behind its start is left out, and so is one without text.

    Raises
    ------
    MissingExtra
        pysubs2 is not installed.

    >>> parse_subtitles("1\\n00:00:01,000 --> 00:00:02,500\\n<font color='red'>Hello</font> you")
    (Cue(start=1.0, end=2.5, text='Hello you'),)
    """
    try:
        from pysubs2 import SSAFile
    except ImportError:
        raise MissingExtra("reading subtitles needs pysubs2", "frames") from None
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

    A damaged file raises `InputError` when it is read; so does a video whose name several files
    have in different folders.

    Nothing of a zip file is unpacked to the disk.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: dict[str, Callable[[], bytes]] = {}
        self._paths: dict[str, list[str]] = {}
        self._claimed: dict[str, PurePosixPath] = {}
        self._cues: dict[str, tuple[Cue, ...]] = {}
        with reading():
            if path.is_dir():
                for file in sorted(path.rglob("*")):
                    if file.suffix.lower() in _FORMATS and file.is_file():
                        self._add(file.relative_to(path).as_posix(), partial(read_bytes, file))
            elif path.is_file():
                self._open_zip()
            else:
                raise InputError(why_missing(path), file=path)
        if not self._read:
            raise InputError("has no .srt and no .vtt files", file=path)

    def _open_zip(self) -> None:
        try:
            # It remains open, so that its table of contents is not read for every entry.
            archive = ZipFile(self.path)
            entries = archive.infolist()
        except (BadZipFile, LargeZipFile, ValueError, NotImplementedError) as error:
            raise InputError(
                f"is neither a folder nor a readable zip file ({describe(error, 80)})",
                file=self.path,
            ) from None
        for entry in sorted(entries, key=lambda entry: entry.filename):
            name = PurePosixPath(entry.filename.replace("\\", "/"))
            if "__MACOSX" not in name.parts and name.suffix.lower() in _FORMATS:
                self._add(str(name), partial(self._entry, archive, entry))

    def _add(self, name: str, read: Callable[[], bytes]) -> None:
        path = PurePosixPath(name)
        if path.name.startswith("."):
            return
        # .srt comes before .vtt of the same name.
        key = str(path.with_suffix(""))
        if key not in self._read:
            self._read[key] = read
            self._paths.setdefault(path.stem, []).append(key)

    def _entry(self, archive: ZipFile, entry: ZipInfo) -> bytes:
        try:
            return archive.read(entry)
        except Exception as error:  # zipfile raises anything on damaged entries
            raise InputError(
                f"cannot be read: {describe(error, 120)}", file=self.path, where=entry.filename
            ) from None

    def of(self, video: str) -> tuple[Cue, ...] | None:
        """Return the subtitles of a video (its name, with or without suffix); None if none.

        They have its whole path, or else its bare name, in whatever folder.
        """
        path = PurePosixPath(video)
        stem = path.with_suffix("") if path.suffix.lower() in SUFFIXES else path
        found = [str(stem)] if str(stem) in self._read else self._paths.get(stem.name, [])
        if len(found) > 1:
            raise InputError(
                f"{len(found)} files of subtitles could be those of {shown(video)} "
                f"({listed(found, 3)})",
                file=self.path,
            )
        for key in found:
            other = self._claimed.setdefault(key, stem)
            if stem.parent != other.parent and len(stem.parts) > 1 and len(other.parts) > 1:
                raise InputError(
                    f"both {shown(str(other))} and {shown(video)} would have these subtitles; give "
                    "them the folders of their videos",
                    file=self.path,
                    where=key,
                )
            if key not in self._cues:
                self._cues[key] = parse_subtitles(_decoded(self._read[key]()))
            return self._cues[key]
        return None

    def __repr__(self) -> str:
        """Return what messages call it."""
        return f"{shown(str(self.path))} ({listed(sorted(self._read), 3)})"


def _decoded(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Old files; every byte is a character there, so that nothing is lost but accents.
        return data.decode("cp1252", "replace")
