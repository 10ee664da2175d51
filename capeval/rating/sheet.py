"""The rating sheet: sample captions, and write the files for raters.

Raters must not know which system wrote a caption. The sheet has opaque ids, and a separate file,
the key, maps them to systems.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from capeval.errors import UsageError
from capeval.files.csv_formulas import escape
from capeval.files.html_page import policy_hash, script_json
from capeval.files.judgments import short_hash
from capeval.files.ratings import STRATUM_COLUMNS
from capeval.files.tables import CONTROL
from capeval.schema import CHARACTERISTICS, RELATIONS, Annotation
from capeval.text import shown

DEFAULT_VIDEOS = 40
"""The number in the TUNA paper's study."""

SHEET_COLUMNS = (
    *("item_id", "video", "element_id", "type", "content"),
    *("label", "rater", "event", "caption"),
)
KEY_COLUMNS = ("item_id", "video_id", "system", "elements")
CHECK_COLUMN = "check"

_TEMPLATE = Path(__file__).with_name("sheet.html")


@dataclass(frozen=True, slots=True)
class Item:
    """One caption to rate, with the id that raters see.

    `stratum` is the group of videos that its video was sampled from.
    """

    item_id: str
    annotation: Annotation
    system: str
    caption: str
    stratum: str


@dataclass(frozen=True, slots=True)
class RatingSheet:
    """The captions to rate, in the raters' order; captions of one video follow each other.

    `name` is a hash of everything that raters see: two sheets with the same name are the same.
    `sizes` are the numbers of videos by system and stratum that could have been sampled.
    """

    name: str
    items: tuple[Item, ...]
    sizes: Mapping[tuple[str, str], int]

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

    Sampling is stratified by the set of a video's visual characteristics, in proportion to the size
    of each stratum (method of largest remainders). Strata too small for one video each are pooled,
    smallest first, so that every video can be sampled. With `per_video`, systems are balanced in
    each stratum and then overall, as far as they have captions. The position of each system among
    a video's captions is counterbalanced. `captions` are by system and index.
    """
    systems = sorted(captions)
    for what, names in (("run", systems), ("video", [a.index for a in annotations])):
        for name in names:
            if CONTROL.search(name):
                raise UsageError(
                    f"the {what} {shown(name)} has a control character in its name, which the "
                    "files of the sheet cannot contain; rename it"
                )
    each = len(systems) if per_video is None else per_video
    if not 1 <= each <= len(systems):
        raise UsageError(f"{each} captions of each video, but there are {len(systems)} runs")
    strata: dict[tuple[int, ...], list[Annotation]] = {}
    for annotation in annotations:
        if sum(annotation.index in captions[system] for system in systems) >= each:
            strata.setdefault(_stratum(annotation), []).append(annotation)
    possible = sum(map(len, strata.values()))
    by = "all runs" if each == len(systems) else f"at least {each} runs"
    if not possible:
        raise UsageError(f"no video is captioned by {by}")
    if videos is None:
        videos = min(DEFAULT_VIDEOS, possible)
    if not 1 <= videos <= possible:
        raise UsageError(
            f"{videos} videos were requested, but {possible} are captioned by {by}; "
            f"use --videos {possible}"
        )
    rng = np.random.default_rng(seed)
    groups = _pooled(strata, videos)
    used: Counter[str] = Counter()
    positions: Counter[tuple[str, int]] = Counter()
    drawn: list[tuple[Annotation, str, list[str]]] = []
    shares = _shares([len(group) for group in groups.values()], videos, rng)
    for (stratum, group), share in zip(groups.items(), shares, strict=True):
        here: Counter[str] = Counter()
        positions_here: Counter[tuple[str, int]] = Counter()
        for place in rng.permutation(len(group))[:share]:
            annotation = group[place]
            order = [systems[n] for n in rng.permutation(len(systems))]
            there = [system for system in order if annotation.index in captions[system]]
            # Sorting is stable: systems that were sampled equally often stay in random order.
            there.sort(key=lambda system: (here[system], used[system]))
            chosen = there[:each]
            here.update(chosen)
            used.update(chosen)
            order = _counterbalanced(chosen, positions_here, positions, rng)
            drawn.append((annotation, stratum, order))
    rows = [
        (annotation, system, captions[system][annotation.index], stratum)
        for annotation, stratum, order in (drawn[at] for at in rng.permutation(len(drawn)))
        for system in order
    ]
    seen = [[a.index, [event.model_dump() for event in a.events], text] for a, _, text, _ in rows]
    name = short_hash(seen)[:8]
    return RatingSheet(
        name,
        tuple(
            # The letter keeps spreadsheets from reading an id as a number or a date.
            Item(f"s{name}-{number:03}", *row)
            for number, row in enumerate(rows, start=1)
        ),
        {
            (system, stratum): sum(annotation.index in captions[system] for annotation in group)
            for system in systems
            for stratum, group in groups.items()
        },
    )


def _counterbalanced(
    systems: Sequence[str],
    here: Counter[tuple[str, int]],
    used: Counter[tuple[str, int]],
    rng: np.random.Generator,
) -> list[str]:
    """Return the systems in the order that best balances how often each is in each position.

    `here` counts (system, position) within the stratum and `used` overall; both are updated. Ties
    are broken at random. If every video has all systems, each block of as many videos as systems
    is a Latin square.
    """
    from scipy.optimize import linear_sum_assignment

    size = len(systems)
    # The sum of squared counts grows by the sum of counts: the smallest sum is the most even.
    cost = rng.random((size, size)) / (2 * size)
    more = 1 + size * (1 + max(used.values(), default=0))
    for row, system in enumerate(systems):
        for place in range(size):
            cost[row, place] += more * here[system, place] + used[system, place]
    places = linear_sum_assignment(cost)[1]
    order = [system for _, system in sorted(zip(places.tolist(), systems, strict=True))]
    for counts in (here, used):
        counts.update((system, place) for place, system in enumerate(order))
    return order


def _stratum(annotation: Annotation) -> tuple[int, ...]:
    return tuple(sorted({CHARACTERISTICS.index(c) for c in annotation.visual_characteristic}))


def _pooled(
    strata: Mapping[tuple[int, ...], list[Annotation]], total: int
) -> dict[str, list[Annotation]]:
    """Return strata by name, those with a share below one video pooled with the next smallest.

    Largest remainders give a stratum at least its share rounded down: a share below 1 could become
    none, and its videos could never be sampled.
    """
    everything = sum(map(len, strata.values()))
    pool: list[tuple[int, ...]] = []
    pooled = 0
    for key in sorted(strata, key=lambda key: (len(strata[key]), key)):
        if len(strata[key]) * total >= everything and not 0 < pooled * total < everything:
            break
        pool.append(key)
        pooled += len(strata[key])
    groups = {_stratum_name(key): strata[key] for key in sorted(strata) if key not in pool}
    if pool:
        name = " / ".join(map(_stratum_name, sorted(pool)))
        groups[name] = [annotation for key in sorted(pool) for annotation in strata[key]]
    return groups


def _stratum_name(key: tuple[int, ...]) -> str:
    return ", ".join(CHARACTERISTICS[place] for place in key) or "no characteristic"


def _shares(sizes: Sequence[int], total: int, rng: np.random.Generator) -> list[int]:
    """Split `total` in proportion to `sizes`; equal remainders are ordered at random."""
    everything = sum(sizes)
    shares = [size * total // everything for size in sizes]
    order = sorted(rng.permutation(len(sizes)), key=lambda n: -(sizes[n] * total % everything))
    for n in order[: total - sum(shares)]:
        shares[n] += 1
    return shares


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    r"""Return CSV with a header.

    >>> csv_text(["a", "b"], [["x\ry", 1]])
    'a,b\n"x\ry","1"\n'
    """
    out = io.StringIO()
    plain = csv.writer(out, lineterminator="\n")
    # Before Python 3.13 the writer does not quote a lone carriage return, which would end the row.
    quoted = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    plain.writerow(columns)
    for row in rows:
        (quoted if any("\r" in str(cell) for cell in row) else plain).writerow(row)
    return out.getvalue()


def sheet_csv(sheet: RatingSheet) -> str:
    """Return the sheet for a spreadsheet: a row for each element, `label` and `rater` to fill in.

    The caption and the event are only in the first row that they apply to. Element ids begin with
    an "e": a spreadsheet would turn 1.10 into 1.1.
    """
    rows = []
    for item in sheet.items:
        caption = item.caption
        for e, event in enumerate(item.annotation.events, start=1):
            sentence = event.event
            for n, element in enumerate(event.visual_elements, start=1):
                video, content, text, of = map(
                    escape, (item.annotation.index, element.content, caption, sentence)
                )
                rows.append(
                    (item.item_id, video, f"e{e}.{n}", element.type, content, "", "", of, text)
                )
                caption = sentence = ""
    # Without a byte order mark, Excel does not read the file as UTF-8.
    return "\ufeff" + csv_text(SHEET_COLUMNS, rows)


def key_check(*cells: str) -> str:
    """Return the checksum of a key's row; it detects that a spreadsheet turned 007 into 7."""
    # The letter keeps spreadsheets from reading it as a number.
    return "c" + short_hash(cells)[:8]


def key_csv(sheet: RatingSheet) -> str:
    """Return the key: video, system, number of elements of each event and stratum, for each id."""
    sampled = Counter((item.system, item.stratum) for item in sheet.items)
    rows = []
    for item in sheet.items:
        sizes = " ".join(map(str, item.annotation.sizes))
        cell = item.system, item.stratum
        counts = str(sheet.sizes[cell]), str(sampled[cell])
        names = (item.item_id, item.annotation.index, item.system, sizes, item.stratum, *counts)
        rows.append((*map(escape, names), key_check(*names)))
    return csv_text((*KEY_COLUMNS, *STRATUM_COLUMNS, CHECK_COLUMN), rows)


def sheet_html(sheet: RatingSheet, sources: Mapping[str, str] | None = None) -> str:
    """Return the sheet as one self-contained page; only the videos are separate files.

    `sources` has the URL of each video that was found, relative to the page, by index.
    """
    page = _TEMPLATE.read_text(encoding="utf-8")
    style, script = (_only(page, tag) for tag in ("style", "script"))
    policy = (
        f"default-src 'none'; script-src {policy_hash(script)}; style-src {policy_hash(style)}; "
        "media-src 'self' file:; base-uri 'none'; form-action 'none'"
    )
    data = {
        "sheet": sheet.name,
        "labels": list(RELATIONS),
        "items": [
            _item_json(item, (sources or {}).get(item.annotation.index)) for item in sheet.items
        ],
    }
    # The data last: placeholders in them must not be replaced.
    return page.replace("{{policy}}", policy).replace("{{data}}", script_json(data))


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
                    {"id": f"e{e}.{n}", "type": element.type, "content": element.content}
                    for n, element in enumerate(event.visual_elements, start=1)
                ],
            }
            for e, event in enumerate(item.annotation.events, start=1)
        ],
    }


def _only(page: str, tag: str) -> str:
    (found,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    return str(found)
