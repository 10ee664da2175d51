"""The data of the page's script: every video with the results of each run, in few bytes.

The layout, read by `report.js` alone::

    {"types": [...], "characteristics": [...], "domains": [...], "raters": [...],
     "labels": {letter: [sign, word]}, "runs": [{"letter", "name"}],
     "labelled": whether human labels are shown,
     "videos": [{"index", "file", "kinds": [place in characteristics], "domain": place or null,
                 "url": of the video, relative to the page or with its data,
                 "events": [[sentence, [[content, place in types, weight], ...],
                             start in seconds, where known], ...],
                 "frames": [[seconds, WebP in base64], ...] or why there are none,
                 "gaps": {letters of two runs: [later − earlier in points of F1, or null, for all
                                                elements and for each type]},
                 "runs": [{"status", "reason", "caption", "candidate_events": [...],
                           "matches": [...],
                           "scores": [[entailed, contradicted, total, precision, recall, f1]
                                      or null, for all elements and for each type],
                           "verdicts": "ecl...", "votes": ["ecl...", ...], "notes": [...],
                           "human": [[element, place in raters, label, 1 if the verdict differs],
                                     ...]}]}]}

Elements are counted over all events from 0. A verdict is a letter: e(ntailed), l(acking),
c(ontradicted); a human label may also be y (covered) or n (not covered). Counts are numbers;
seconds, measures and gaps are rounded texts, since the script rounds nothing. What is empty is left
out.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from capeval.errors import MissingExtra, VideoError
from capeval.reporting.inspect import LABELS, VideoCard
from capeval.schema import CHARACTERISTICS, ELEMENT_TYPES, HumanLabel
from capeval.scoring import GROUPS, MEASURES
from capeval.scoring.counts import COUNTS
from capeval.scoring.judged_run import JudgedRun
from capeval.scoring.scores import VideoScore
from capeval.show.numbers import percent, points, tenths
from capeval.video import FrameReader, open_reader

VideoScores = Mapping[str, Mapping[str, VideoScore]]

LETTERS: Mapping[HumanLabel, str] = {
    "entailment": "e",
    "lack": "l",
    "contradiction": "c",
    "covered": "y",
    "not covered": "n",
}


# Eight such frames are 20 to 60 kB, and large enough to be looked at one by one.
_LONGEST_SIDE = 480
_QUALITY = 60
# Each decodes with all cores; the second reads its file while the first decodes.
_READERS = 2


@dataclass(frozen=True)
class Frame:
    """A frame: `time` in seconds from the first, and a WebP in base64."""

    time: float
    webp: str


@dataclass(frozen=True)
class Strip:
    """Frames of one video in order; or none, and why."""

    frames: tuple[Frame, ...] = ()
    note: str = ""


Strips = Mapping[str, Strip]
"""By index."""


@dataclass(frozen=True)
class ReportedRun:
    """A run with its letter and name in the report."""

    letter: str
    name: str
    run: JudgedRun
    cards: tuple[VideoCard, ...]


def payload(
    shown: Sequence[ReportedRun],
    strips: Strips | None = None,
    urls: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the data of runs that are judged with the same annotations."""
    domains = sorted({card.domain for card in shown[0].cards if card.domain})
    raters = sorted(
        {
            rater
            for one in shown
            for card in one.cards
            for element in card.elements
            for rater in element.human
        }
    )
    scores = {one.letter: one.run.scores.videos for one in shown}
    place_of = {rater: place for place, rater in enumerate(raters)}
    return {
        "types": list(ELEMENT_TYPES),
        "characteristics": list(CHARACTERISTICS),
        "domains": domains,
        "raters": raters,
        "labels": {letter: list(LABELS[label]) for label, letter in LETTERS.items()},
        "labelled": bool(raters),
        "runs": [{"letter": one.letter, "name": one.name} for one in shown],
        "videos": [
            _video(cards, scores, domains, place_of, strips or {}, urls or {})
            for cards in zip(*(one.cards for one in shown), strict=True)
        ],
    }


def _video(
    cards: Sequence[VideoCard],
    scores: Mapping[str, VideoScores],
    domains: Sequence[str],
    raters: dict[str, int],
    strips: Strips,
    urls: Mapping[str, str],
) -> dict[str, Any]:
    card = cards[0]
    strip = strips.get(card.index)
    of_runs = {letter: of_run.get(card.index) or {} for letter, of_run in scores.items()}
    frames: Any = strip and (
        strip.note or [[tenths(frame.time), frame.webp] for frame in strip.frames]
    )
    return _full(
        index=card.index,
        file=card.video if card.video != card.index else None,
        url=urls.get(card.index),
        kinds=[CHARACTERISTICS.index(name) for name in card.characteristics],
        domain=domains.index(card.domain) if card.domain else None,
        events=[
            [
                event.text,
                [[e.content, ELEMENT_TYPES.index(e.type), e.weight] for e in event.elements],
                *([] if event.start is None else [event.start]),
            ]
            for event in card.events
        ],
        frames=frames,
        gaps={
            one + other: [_gap(of_runs[one], of_runs[other], group) for group in GROUPS]
            for one, other in combinations(of_runs, 2)
        },
        runs=[
            _judged(one, of_run, raters)
            for one, of_run in zip(cards, of_runs.values(), strict=True)
        ],
    )


def _judged(
    card: VideoCard, scores: Mapping[str, VideoScore], raters: dict[str, int]
) -> dict[str, Any]:
    elements = card.elements
    scored = card.status == "scored"
    repeats = len(elements[0].votes) if scored else 0
    return _full(
        status=card.status,
        reason=card.reason,
        caption=card.caption,
        candidate_events=list(card.candidate_events),
        matches=list(card.matches),
        scores=[_numbers(scores.get(group)) for group in GROUPS] if scores else None,
        verdicts="".join(LETTERS[e.relation] for e in elements if e.relation) if scored else None,
        votes=[
            "".join(LETTERS[element.votes[turn]] for element in elements) for turn in range(repeats)
        ]
        if repeats > 1
        else None,
        notes=list(card.notes),
        why=[[place, e.explanation] for place, e in enumerate(elements) if e.explanation],
        human=[
            [place, raters[rater], LETTERS[label], int(rater in element.disputed_by)]
            for place, element in enumerate(elements)
            for rater, label in sorted(element.human.items())
        ],
    )


def _numbers(one: VideoScore | None) -> list[int | str] | None:
    if one is None:
        return None
    return [
        *(getattr(one, name) for name in COUNTS),
        *(percent(getattr(one, name)) for name in MEASURES),
    ]


def _gap(one: Mapping[str, VideoScore], other: Mapping[str, VideoScore], group: str) -> str | None:
    if group not in one or group not in other:
        return None
    return points(other[group].f1 - one[group].f1)


def _full(**fields: Any) -> dict[str, Any]:
    # An empty caption is something; no caption is not.
    return {name: value for name, value in fields.items() if value not in (None, [], {})}


# ---- Frames ------------------------------------------------------------------------------------


def strips(files: Mapping[str, Path], count: int) -> Iterator[tuple[str, Strip]]:
    """Yield the index of every video and `count` frames spread evenly over it.

    A video that cannot be decoded has a note instead.

    Raises
    ------
    MissingExtra
        Decoding or encoding needs a package that is not installed.
    """
    try:
        import av  # noqa: F401
        import PIL  # noqa: F401
    except ImportError:
        # Both in one line, so that a user does not find them missing one after the other.
        raise MissingExtra("frames need PyAV and Pillow", "frames") from None
    reader = open_reader(str(count), allow_damaged=True)
    with ThreadPoolExecutor(_READERS) as pool:
        yield from zip(files, pool.map(partial(_strip, reader), files.values()), strict=True)


def _strip(reader: FrameReader, video: Path) -> Strip:
    from PIL import Image

    try:
        frames = reader.read(video)
    except VideoError as error:
        return Strip(note=error.message)
    scale = min(1.0, _LONGEST_SIDE / max(frames.width, frames.height))
    size = max(1, round(frames.width * scale)), max(1, round(frames.height * scale))
    made = []
    for time, pixels in zip(frames.times, frames.frames, strict=True):
        file = io.BytesIO()
        small = Image.fromarray(pixels).resize(size, Image.Resampling.LANCZOS)
        small.save(file, "WEBP", quality=_QUALITY)
        made.append(Frame(time, base64.b64encode(file.getvalue()).decode("ascii")))
    return Strip(tuple(made))
