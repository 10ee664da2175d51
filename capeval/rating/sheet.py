"""A sheet for people to rate captions with: what is drawn, and the files that raters get.

Raters never learn which system wrote a caption: the sheet knows captions by opaque ids, and the key
that maps these to systems is a file of its own.
"""

from __future__ import annotations

import base64
import csv
import hashlib
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
from capeval.files.jsonl import dumps
from capeval.files.tables import CONTROL
from capeval.schema import CHARACTERISTICS, RELATIONS, Annotation
from capeval.text import shown

DEFAULT_VIDEOS = 40
"""As in the TUNA paper's study."""

SHEET_COLUMNS = (
    "item_id",
    "video",
    "element_id",
    "type",
    "content",
    "label",
    "rater",
    "event",
    "caption",
)
KEY_COLUMNS = ("item_id", "video_id", "system", "elements", "check")

_TEMPLATE = Path(__file__).with_name("sheet.html")


@dataclass(frozen=True, slots=True)
class Item:
    """One caption to be rated, under the id that raters see."""

    item_id: str
    annotation: Annotation
    system: str
    caption: str


@dataclass(frozen=True, slots=True)
class RatingSheet:
    """What is to be rated, in the raters' order; captions of one video stand together.

    `name` is a hash of all that raters see: two sheets of one name are the same sheet.
    """

    name: str
    items: tuple[Item, ...]

    @property
    def labels(self) -> int:
        """Number of labels that a rater gives."""
        return sum(item.annotation.element_count for item in self.items)


def draw_sheet(
    annotations: Sequence[Annotation],
    captions: Mapping[str, Mapping[str, str]],
    *,
    videos: int | None = None,
    per_video: int | None = None,
    seed: int = 0,
) -> RatingSheet:
    """Draw videos and captions.

    Videos are drawn by stratum (the set of visual characteristics that a video has), each stratum
    in proportion to its size, by the method of largest remainders. Of each video either all
    systems' captions are drawn or `per_video` of them, so that within a stratum, and then over all,
    every system is drawn as often as every other (but for what it has not captioned), and is rated
    first, second, ... of a video's captions about as often as every other.

    Parameters
    ----------
    annotations : all videos that can be drawn
    captions : for each system, its captions by index
    videos : how many to draw; `DEFAULT_VIDEOS`, or all where there are fewer, without
    per_video : captions of each; those of all systems without
    seed : of `numpy.random.default_rng`

    Raises
    ------
    UsageError
        There are fewer such videos, or fewer systems, or a name has a control character.
    """
    systems = sorted(captions)
    for what, names in (("run", systems), ("video", [a.index for a in annotations])):
        for told in names:
            if CONTROL.search(told):
                raise UsageError(
                    f"the {what} {shown(told)} has a control character in its name, which the "
                    "files of a study cannot hold; rename it"
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
            f"{videos} videos are asked for, but {possible} are captioned by {by}; "
            f"ask for --videos {possible}"
        )
    rng = np.random.default_rng(seed)
    groups = [strata[key] for key in sorted(strata)]
    used: Counter[str] = Counter()
    stood: Counter[tuple[str, int]] = Counter()
    drawn: list[tuple[Annotation, list[str]]] = []
    for group, share in zip(groups, _shares([len(g) for g in groups], videos, rng), strict=True):
        here: Counter[str] = Counter()
        stood_here: Counter[tuple[str, int]] = Counter()
        for place in rng.permutation(len(group))[:share]:
            annotation = group[place]
            order = [systems[n] for n in rng.permutation(len(systems))]
            there = [system for system in order if annotation.index in captions[system]]
            # Sorting is stable: among systems drawn equally often chance has decided.
            there.sort(key=lambda system: (here[system], used[system]))
            chosen = there[:each]
            here.update(chosen)
            used.update(chosen)
            drawn.append((annotation, _counterbalanced(chosen, stood_here, stood, rng)))
    rows = [
        (drawn[place][0], system, captions[system][drawn[place][0].index])
        for place in rng.permutation(len(drawn))
        for system in drawn[place][1]
    ]
    seen = [[a.index, [event.model_dump() for event in a.events], text] for a, _, text in rows]
    name = hashlib.sha256(dumps(seen).encode("utf-8")).hexdigest()[:8]
    return RatingSheet(
        name,
        tuple(
            # The letter keeps spreadsheets from taking an id for a number or a date.
            Item(f"s{name}-{number:03}", annotation, system, caption)
            for number, (annotation, system, caption) in enumerate(rows, start=1)
        ),
    )


def _counterbalanced(
    systems: Sequence[str],
    here: Counter[tuple[str, int]],
    used: Counter[tuple[str, int]],
    rng: np.random.Generator,
) -> list[str]:
    """Return the systems in the order that evens out how often each has stood in each place.

    `here` counts (system, place) within the stratum and `used` over all; both are brought up to
    date. Of orders that do this equally well chance takes one. Where every video has all systems,
    each block of as many videos as systems is a Latin square.
    """
    from scipy.optimize import linear_sum_assignment

    size = len(systems)
    # The sum of counts is what a sum of squares grows by, so the least is the most even.
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


def _shares(sizes: Sequence[int], total: int, rng: np.random.Generator) -> list[int]:
    """Split `total` in proportion to `sizes`; chance decides between equal remainders."""
    everything = sum(sizes)
    shares = [size * total // everything for size in sizes]
    order = sorted(rng.permutation(len(sizes)), key=lambda n: -(sizes[n] * total % everything))
    for n in order[: total - sum(shares)]:
        shares[n] += 1
    return shares


def element_ids(counts: Iterable[int]) -> list[str]:
    """Return the ids of a video's elements, given how many each event has.

    >>> element_ids([2, 1])
    ['1.1', '1.2', '2.1']
    """
    return [f"{event}.{n}" for event, size in enumerate(counts, 1) for n in range(1, size + 1)]


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    r"""Return CSV with a header.

    >>> csv_text(["a", "b"], [["x\ry", 1]])
    'a,b\n"x\ry","1"\n'
    """
    out = io.StringIO()
    plain = csv.writer(out, lineterminator="\n")
    # Before 3.13 the writer leaves a lone carriage return unquoted, and readers end the row there.
    quoted = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    plain.writerow(columns)
    for row in rows:
        (quoted if any("\r" in str(cell) for cell in row) else plain).writerow(row)
    return out.getvalue()


def sheet_csv(sheet: RatingSheet) -> str:
    """Return the sheet for a spreadsheet: a row for each element, `label` and `rater` to fill in.

    The caption and the event stand in the first row that they concern. Element ids begin with an
    "e", else a spreadsheet would make 1.1 of 1.10.
    """
    rows = []
    for item in sheet.items:
        caption = item.caption
        for e, event in enumerate(item.annotation.events, start=1):
            sentence = event.event
            for n, element in enumerate(event.visual_elements, start=1):
                video, told, text, of = map(
                    escape, (item.annotation.index, element.content, caption, sentence)
                )
                rows.append(
                    (item.item_id, video, f"e{e}.{n}", element.type, told, "", "", of, text)
                )
                caption = sentence = ""
    # Without the mark Excel takes UTF-8 for the system's old encoding.
    return "\ufeff" + csv_text(SHEET_COLUMNS, rows)


def key_check(*cells: str) -> str:
    """Return what stands, after a "c", in the column `check` of a key's row, given its other cells.

    It shows that a row is as it was written: a spreadsheet makes 7 of 007, and a hand may slip.
    """
    return hashlib.sha256(dumps(cells).encode("utf-8")).hexdigest()[:8]


def key_csv(sheet: RatingSheet) -> str:
    """Return the key: of each id the video, the system, and how many elements each event has."""
    rows = []
    for item in sheet.items:
        sizes = " ".join(str(len(event.visual_elements)) for event in item.annotation.events)
        names = (item.item_id, item.annotation.index, item.system, sizes)
        rows.append((*map(escape, names), "c" + key_check(*names)))
    return csv_text(KEY_COLUMNS, rows)


def sheet_html(sheet: RatingSheet, sources: Mapping[str, str] | None = None) -> str:
    """Return the sheet as one page that needs nothing else but the videos.

    Parameters
    ----------
    sources : for each index whose video is there, its URL as seen from the page
    """
    page = _TEMPLATE.read_text(encoding="utf-8")
    style, script = (_only(page, tag) for tag in ("style", "script"))
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
        "media-src 'self' file:; base-uri 'none'; form-action 'none'"
    )
    data = {
        "sheet": sheet.name,
        "labels": list(RELATIONS),
        "items": [_shown(item, (sources or {}).get(item.annotation.index)) for item in sheet.items],
    }
    # The data last: what stands in them is not looked through again.
    return page.replace("{{policy}}", policy).replace("{{data}}", _embedded(data))


def _shown(item: Item, source: str | None) -> dict[str, Any]:
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


def _embedded(data: object) -> str:
    """Return JSON that cannot end the script element that it stands in, nor begin a comment."""
    return dumps(data).translate({ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


def _only(page: str, tag: str) -> str:
    (found,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    return str(found)


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
