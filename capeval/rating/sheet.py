"""The rating page: sample captions, and write the page for raters and the key.

Raters must not know which system wrote a caption. The page has opaque ids, and a separate file,
the key, maps them to systems.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from capeval.errors import UsageError
from capeval.files.judgments import short_hash
from capeval.files.tables import CONTROL, escape
from capeval.rating.page import page_html
from capeval.schema import RELATIONS, Annotation
from capeval.text import shown

DEFAULT_VIDEOS = 40
"""The number in the TUNA paper's study."""

KEY_COLUMNS = ("item_id", "video_id", "system", "elements")


@dataclass(frozen=True, slots=True)
class Item:
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
    items: tuple[Item, ...]

    @property
    def labels(self) -> int:
        """Number of labels that each rater gives."""
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
    for what, names in (("run", systems), ("video", [a.index for a in annotations])):
        for name in names:
            if CONTROL.search(name):
                raise UsageError(
                    f"the {what} {shown(name)} has a control character in its name, which the "
                    "key cannot contain; rename it"
                )
    each = len(systems) if per_video is None else per_video
    if not 1 <= each <= len(systems):
        raise UsageError(f"{each} captions of each video, but there are {len(systems)} runs")
    possible = [
        annotation
        for annotation in annotations
        if sum(annotation.index in captions[system] for system in systems) >= each
    ]
    by = "all runs" if each == len(systems) else f"at least {each} runs"
    if not possible:
        raise UsageError(f"no video is captioned by {by}")
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
    items = (Item(f"s{name}-{n:03}", *row) for n, row in enumerate(rows, start=1))
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


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return CSV with a header."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue()


def key_csv(sheet: RatingSheet) -> str:
    """Return the key: video, system and number of elements of each event, for each id."""
    rows = [
        (
            item.item_id,
            escape(item.annotation.index),
            escape(item.system),
            " ".join(map(str, item.annotation.sizes)),
        )
        for item in sheet.items
    ]
    return csv_text(KEY_COLUMNS, rows)


def sheet_html(sheet: RatingSheet, sources: Mapping[str, str] | None = None) -> str:
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
        "items": [
            _item_json(item, (sources or {}).get(item.annotation.index)) for item in sheet.items
        ],
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


def _item_json(item: Item, source: str | None) -> dict[str, Any]:
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
