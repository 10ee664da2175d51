"""Subtitles of videos, from SRT and VTT files in a folder."""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from unicodedata import normalize

from capeval.errors import InputError, MissingExtra
from capeval.files.reading import read_bytes, reading, why_missing
from capeval.files.videos import SUFFIXES
from capeval.text import listed, shown

_FORMATS = (".srt", ".vtt")

# A time of karaoke, and a line break; pysubs2 keeps the one and joins words at the other.
_INSIDE = re.compile(r"<\d[\d:.,]*>|(<br\s*/?>)", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True)
class Cue:
    """A subtitle and when it is shown: from `start` until just before `end`, in seconds."""

    start: float
    end: float
    text: str


def parse_subtitles(text: str) -> tuple[Cue, ...]:
    """Return the subtitles of SRT or VTT text in the order of time, without markup.

    A cue whose end is not behind its start is left out, and so is one without text.

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

    InputError for a folder without subtitles, and for a video whose name several files have in
    different folders.
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
            for file in sorted(path.rglob("*")):
                # Archives made on a Mac have files such as ._clip.srt, which are no subtitles.
                is_hidden = file.name.startswith(".")
                if file.suffix.lower() in _FORMATS and not is_hidden and file.is_file():
                    self._add(file, file.relative_to(path).with_suffix("").as_posix())
        if not self._files:
            raise InputError("has no .srt and no .vtt files", file=path)

    def _add(self, file: Path, key: str) -> None:
        # .srt comes before .vtt of the same name.
        key = normalize("NFC", key)
        if key not in self._files:
            self._files[key] = file
            self._keys.setdefault(PurePosixPath(key).name, []).append(key)

    def of(self, video: str) -> tuple[Cue, ...] | None:
        """Return the subtitles of a video (its name, with or without suffix); None if none.

        They have its whole path, or else its bare name, in whatever folder.
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
        for key in found:
            if key not in self._cues:
                self._cues[key] = parse_subtitles(_decoded(read_bytes(self._files[key])))
            return self._cues[key]
        return None

    def __repr__(self) -> str:
        """Return what messages call it."""
        return f"{shown(str(self.path))} ({listed(sorted(self._files), 3)})"


def _decoded(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Old files; every byte is a character there, so that nothing is lost but accents.
        return data.decode("cp1252", "replace")
