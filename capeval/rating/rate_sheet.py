"""`capeval rate sheet`: sample captions, and write the page for raters and the key.

Raters must not know which system wrote a caption. The page has opaque ids, and a separate file,
the key, maps them to systems.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from capeval.config import sample_folder
from capeval.errors import InputError, UsageError
from capeval.files.annotations import VideoFolder, annotations_hash, relative_url
from capeval.files.jsonl import check_output, read_text, short_hash, write_atomic
from capeval.files.judgments import caption_hash
from capeval.files.tables import csv_of_rows, escape
from capeval.options import (
    OUTPUT,
    FilePath,
    Notices,
    annotations_option,
    command,
    declares,
    on_notice_option,
    option,
    runs_option,
    takes,
)
from capeval.runs.resolve import Targets, work_on
from capeval.runs.sources import SAMPLE, annotations_file
from capeval.schema import RELATIONS, Annotation
from capeval.show.page import page_html
from capeval.show.result import Result
from capeval.show.table import Page
from capeval.text import counted


@declares
class SheetOptions:
    """The arguments of `capeval.rate_sheet`.

    Parameters
    ----------
    sampled_runs : Runs to sample captions from. By default all under runs/, or the sample if
        there are none.
    count : The number of videos. By default 40, or all if there are fewer.
    per_video : Captions of each video. By default one of every run.
    seed : The seed of the sample.
    videos : The folder of the videos that the page plays.
    out : The folder to write to.
    """

    sampled_runs: Sequence[FilePath] = option((), positional=True, metavar="RUN")
    _: KW_ONLY
    count: int | None = option(None, metavar="N", min=1)
    per_video: int | None = option(None, metavar="N", min=1)
    seed: int = option(0, metavar="N", min=0)
    annotations: FilePath | None = annotations_option()
    videos: FilePath | None = option(None, metavar="DIR")
    out: FilePath = option("rating", metavar="DIR", panel=OUTPUT)
    runs: FilePath = runs_option()
    on_notice: Notices = on_notice_option()


DEFAULT_VIDEOS = 40
"""The number in the TUNA paper's study."""


@dataclass(frozen=True, slots=True)
class SheetItem:
    """One caption to rate, with the id that raters see."""

    item_id: str
    annotation: Annotation
    system: str
    caption: str


@dataclass(frozen=True, slots=True)
class RatingSheet:
    """The captions to rate, in the raters' order; captions of one video follow each other.

    `name` is a hash of everything that raters see: two sheets with the same name are the same.
    """

    name: str
    items: tuple[SheetItem, ...]

    @property
    def labels(self) -> int:
        return sum(item.annotation.element_count for item in self.items)


def sample_sheet(
    annotations: Sequence[Annotation],
    captions: Mapping[str, Mapping[str, str]],
    *,
    videos: int | None = None,
    per_video: int | None = None,
    seed: int = 0,
) -> RatingSheet:
    """Sample `videos` videos, and `per_video` captions of each (by default those of all systems).

    The videos are a simple random sample. With `per_video`, systems are balanced as far as they
    have captions. The position of each system among a video's captions is counterbalanced.
    `captions` are by system and index.
    """
    systems = sorted(captions)
    each = len(systems) if per_video is None else per_video
    if not 1 <= each <= len(systems):
        raise UsageError(f"--per-video {each} is more than there are runs ({len(systems)})")
    possible = [
        annotation
        for annotation in annotations
        if sum(annotation.index in captions[system] for system in systems) >= each
    ]
    by = "all runs" if each == len(systems) else f"at least {each} runs"
    if not possible:
        raise UsageError(f"no video is captioned by {by}; name fewer runs, or use --per-video")
    if videos is None:
        videos = min(DEFAULT_VIDEOS, len(possible))
    if not 1 <= videos <= len(possible):
        raise UsageError(
            f"{videos} videos were requested, but {len(possible)} are captioned by {by}; "
            f"use --count {len(possible)}"
        )
    rng = np.random.default_rng(seed)
    used: Counter[str] = Counter()
    positions: Counter[tuple[str, int]] = Counter()
    rows: list[tuple[Annotation, str, str]] = []
    for place in rng.permutation(len(possible))[:videos]:
        annotation = possible[place]
        order = [systems[n] for n in rng.permutation(len(systems))]
        there = [system for system in order if annotation.index in captions[system]]
        # Sorting is stable: systems that were sampled equally often stay in random order.
        chosen = sorted(there, key=lambda system: used[system])[:each]
        used.update(chosen)
        rows += [
            (annotation, system, captions[system][annotation.index])
            for system in _counterbalanced(chosen, positions, rng)
        ]
    whole = {"events": {"__all__": {"start"}}}
    seen = [[a.index, a.model_dump(exclude=whole)["events"], text] for a, _, text in rows]
    name = short_hash(seen)[:8]
    # The letter keeps spreadsheets from reading an id as a number or a date.
    items = (SheetItem(f"s{name}-{n:03}", *row) for n, row in enumerate(rows, start=1))
    return RatingSheet(name, tuple(items))


def _counterbalanced(
    systems: Sequence[str], used: Counter[tuple[str, int]], rng: np.random.Generator
) -> list[str]:
    """Return the systems in the order that best balances how often each is in each position.

    `used` counts (system, position), and is updated. Ties are broken at random. If every video has
    all systems, each block of as many videos as systems is a Latin square.
    """
    from scipy.optimize import linear_sum_assignment

    size = len(systems)
    # The sum of squared counts grows by the sum of counts: the smallest sum is the most even. The
    # random parts add up to less than 1.
    cost = rng.random((size, size)) / size
    cost += [[used[system, place] for place in range(size)] for system in systems]
    places = linear_sum_assignment(cost)[1].tolist()
    used.update(zip(systems, places, strict=True))
    return [system for _, system in sorted(zip(places, systems, strict=True))]


def key_csv(sheet: RatingSheet) -> str:
    """Return the key: video, system, elements of each event and hash of the text, by id."""
    rows = [
        (
            item.item_id,
            escape(item.annotation.index),
            escape(item.system),
            " ".join(map(str, item.annotation.sizes)),
            caption_hash(item.caption),
        )
        for item in sheet.items
    ]
    header = ("item_id", "video_id", "system", "elements", "caption_hash")
    return csv_of_rows(header, rows)


def sheet_html(sheet: RatingSheet, sources: Mapping[str, str]) -> str:
    """Return the sheet as one self-contained page; only the videos are separate files.

    `sources` has the URL of each video that was found, relative to the page, by index.
    """
    data = {
        "key": f"capeval-rating:{sheet.name}",
        "name": f"Sheet {sheet.name}",
        "noun": "caption",
        "all_done": "All labels are given.",
        "sheet": sheet.name,
        "labels": list(RELATIONS),
        "items": [_item_json(item, sources.get(item.annotation.index)) for item in sheet.items],
    }
    return page_html(
        Path(__file__).with_name("sheet.html"),
        data,
        *("sheet.css", "sheet.js"),
        title="Rating captions",
        format="CSV",
        noun="caption",
        list="Elements",
        next_open="Next without a label",
        work="your name and all labels",
    )


def _item_json(item: SheetItem, source: str | None) -> dict[str, Any]:
    return {
        "id": item.item_id,
        "video": item.annotation.index,
        "src": source,
        "caption": item.caption,
        "events": [
            {
                "event": event.event,
                "elements": [
                    # The letter keeps spreadsheets from turning 1.10 into 1.1.
                    {"id": f"e{e}.{n}", "type": element.type, "content": element.content}
                    for n, element in enumerate(event.visual_elements, start=1)
                ],
            }
            for e, event in enumerate(item.annotation.events, start=1)
        ],
    }


@dataclass(frozen=True)
class SheetFiles(Result):
    """A rating sheet that was written: `page` for raters, `key` only for you.

    `missing_videos` are the reasons why videos cannot be played in the page.
    """

    sheet: RatingSheet
    page: Path
    key: Path
    runs: int
    videos: int
    videos_found: int
    missing_videos: tuple[str, ...]

    def headline(self) -> str:
        return (
            f"{counted(self.videos, 'video')}, {counted(len(self.sheet.items), 'caption')} of "
            f"{counted(self.runs, 'run')}, {counted(self.sheet.labels, 'label')}; "
            f"videos found: {self.videos_found} of {self.videos}"
        )

    def pages(self, *, full: bool = False) -> list[Page]:
        files = (
            f"{self.page}: for raters, who open it in a browser and export a file",
            f"{self.key}: for you alone; it says which system wrote which caption",
            f"Next, with the raters' files: capeval rate merge FILES --key {self.key}",
        )
        return [Page([], notes=files)]

    def notices(self) -> list[str]:
        what = counted(len(self.missing_videos), "video")
        return [f"{what} not found: {first}" for first in self.missing_videos[:1]]


@command("rate sheet")
@takes(SheetOptions)
def rate_sheet(o: SheetOptions) -> SheetFiles:
    """Sample captions to rate; write sheet.html for the raters, and key.csv for you alone.

    Raises
    ------
    InputError, UsageError
        A run cannot be loaded, the runs' annotations differ, there are too few videos or runs, or
        `out` contains another sheet.
    """
    folder = Path(o.out)
    known = None if o.annotations is None else str(o.annotations)
    targets = Targets(Path(o.runs), known, ignore_unknown=False)
    found = targets.named(o.sampled_runs, "sampling", o.on_notice)
    sources = [*work_on(found, lambda target: target.load(), o.on_notice)]
    for source in sources:
        source.check()
    first = sources[0]
    read = [annotations_file(source.annotations_path) for source in sources]
    for name in ("key.csv", "sheet.html"):
        check_output(folder / name, read)
    for source in sources[1:]:
        if annotations_hash(source.annotations) != annotations_hash(first.annotations):
            raise UsageError(
                f"{first.name} and {source.name} have different annotations; name the runs to be "
                "rated together, or one file for all with --annotations"
            )
    drawn = sample_sheet(
        first.annotations,
        {source.name: {c.index: c.caption for c in source.captions} for source in sources},
        videos=o.count,
        per_video=o.per_video,
        seed=o.seed,
    )
    key, text = folder / "key.csv", key_csv(drawn)
    if key.exists() and read_text(key) != text:
        raise InputError(
            "belongs to another sheet (of other captions, runs or options); choose another --out",
            file=key,
        )
    sampled = {item.annotation.index: item.annotation for item in drawn.items}
    videos = o.videos
    if videos is None and first.annotations_path == SAMPLE:
        videos = sample_folder() / "videos"
    files, missing = VideoFolder(Path(videos)).find_all(sampled.values()) if videos else ({}, {})
    urls = {index: relative_url(file, folder) for index, file in files.items()}
    write_atomic(key, text)
    write_atomic(folder / "sheet.html", sheet_html(drawn, urls))
    return SheetFiles(
        sheet=drawn,
        page=folder / "sheet.html",
        key=key,
        runs=len(sources),
        videos=len(sampled),
        videos_found=len(urls),
        missing_videos=tuple(map(str, missing.values())),
    )
