"""Subtitles of videos, from SRT and VTT files in a folder or a zip file."""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from zipfile import BadZipFile, LargeZipFile, ZipFile, ZipInfo

from capeval.errors import InputError
from capeval.files.reading import read_bytes, reading, why_missing
from capeval.files.videos import SUFFIXES
from capeval.text import describe, listed, shown

# An hour of dense subtitles is some 100 KB.
_LARGEST = 8 << 20
_FORMATS = (".srt", ".vtt")

_TIME = r"(?:(\d{1,4}):)?(\d{1,2}):(\d{1,2})(?:[.,](\d{1,9}))?"
_CUE = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}(?:\s.*)?", re.ASCII)
# A number in angle brackets is a time of karaoke; "I <3 you > me" is text.
_MARKUP = re.compile(r"<[/!?a-zA-Z.][^<>]*>|<\d[\d:.,]*>|\{\\[^{}]*\}", re.ASCII)
_BREAK = re.compile(r"<br\s*/?>|\\[Nn]", re.IGNORECASE)
_NUMBER = re.compile(r"\s*\d+\s*", re.ASCII)


@dataclass(frozen=True)
class Cue:
    """A subtitle and when it is shown, in seconds; its end is no part of it."""

    start: float
    end: float
    text: str


def parse_subtitles(text: str) -> tuple[Cue, ...]:
    """Return the subtitles of SRT or VTT text in the order of time, without markup.

    Whatever has no time is left out: numbers, comments, styles. A cue whose end is not behind its
    start is left out, too, and so is one without text.

    >>> parse_subtitles("1\\n00:00:01,000 --> 00:00:02,500\\n<font color='red'>Hello</font> you")
    (Cue(start=1.0, end=2.5, text='Hello you'),)
    """
    # Files that were converted twice have an empty line, as it seems, after every line.
    lines = text.removeprefix("\ufeff").replace("\r\r\n", "\n").splitlines()
    cues = []
    at = 0
    while at < len(lines):
        found = _CUE.fullmatch(lines[at])
        at += 1
        if not found:
            continue
        words = []
        while at < len(lines) and lines[at].strip() and not _begins(lines, at):
            words.append(lines[at])
            at += 1
        start, end = _seconds(*found.groups()[:4]), _seconds(*found.groups()[4:])
        spoken = _plain(" ".join(words))
        if end > start and spoken:
            cues.append(Cue(start, end, spoken))
    return tuple(sorted(cues, key=lambda cue: (cue.start, cue.end)))


def _begins(lines: Sequence[str], at: int) -> bool:
    """Return whether a cue begins at a line: some files have no empty line before it."""
    if _CUE.fullmatch(lines[at]):
        return True
    follows = at + 1 < len(lines) and _CUE.fullmatch(lines[at + 1])
    return bool(_NUMBER.fullmatch(lines[at]) and follows)


def _seconds(hours: str | None, minutes: str, seconds: str, part: str | None) -> float:
    return int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds) + float(f"0.{part or 0}")


def _plain(text: str) -> str:
    text = _MARKUP.sub("", _BREAK.sub(" ", text))
    # Only then: an escaped "&lt;b&gt;" is meant as text.
    return " ".join(html.unescape(text).split())


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

    Nothing of a zip file is unpacked to the disk, and an entry whose path leads out of its folder
    is ignored.
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
                        self._add(file.relative_to(path).as_posix(), _of_file(file))
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
            unsafe = name.is_absolute() or ".." in name.parts or "__MACOSX" in name.parts
            if not unsafe and name.suffix.lower() in _FORMATS and not entry.is_dir():
                self._add(str(name), self._of_entry(archive, entry))

    def _add(self, name: str, read: Callable[[], bytes]) -> None:
        path = PurePosixPath(name)
        if path.name.startswith("."):
            return
        # .srt comes before .vtt of the same name.
        key = str(path.with_suffix(""))
        if key not in self._read:
            self._read[key] = read
            self._paths.setdefault(path.stem, []).append(key)

    def _of_entry(self, archive: ZipFile, entry: ZipInfo) -> Callable[[], bytes]:
        def read() -> bytes:
            try:
                with archive.open(entry) as file:
                    # The stated size can be a lie.
                    data = file.read(_LARGEST + 1)
            except Exception as error:  # zipfile raises anything on damaged entries
                raise InputError(
                    f"cannot be read: {describe(error, 120)}", file=self.path, where=entry.filename
                ) from None
            return _small_enough(data, self.path, entry.filename)

        return read

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


def _of_file(file: Path) -> Callable[[], bytes]:
    return lambda: _small_enough(read_bytes(file), file, "")


def _small_enough(data: bytes, file: Path, where: str) -> bytes:
    if len(data) > _LARGEST:
        message = f"is larger than {_LARGEST >> 20} MB, which no subtitles are"
        raise InputError(message, file=file, where=where)
    return data


def _decoded(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        damaged = data.decode("utf-8-sig", "replace")
        faults = damaged.count("\ufffd")
        # Text that was cut inside a character. By chance, other encodings hardly ever look like it.
        if sum(char > "\x7f" for char in damaged) > 2 * faults:
            return damaged
        # Old files; every byte is a character there, so that nothing is lost but accents.
        return data.decode("cp1252", "replace")
