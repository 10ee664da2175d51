"""What the tables of a leaderboard show, apart from the format that shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rich.cells import cell_len

from capeval.reporting.leaderboard.board import Section
from capeval.reporting.leaderboard.published import Disagreement
from capeval.reporting.leaderboard.stored import Entry
from capeval.reporting.leaderboard.table_cells import (
    CHARACTERISTIC_PLACES,
    ELEMENT_PLACES,
    EVENT_PLACES,
    OVERALL,
    TYPE_PLACES,
    Measured,
    Place,
)
from capeval.reporting.numbers import NOTHING, percent, share, thousands
from capeval.reporting.score_tables import BASELINE_NOTE, NO_INTERVAL_NOTE
from capeval.text import cut, one_line

By = Literal["overall", "types", "characteristics", "domain", "complexity", "all"]

_TITLES = {
    "overall": "Overall: precision, recall and F1, %",
    "types": "By type of element: precision/recall/F1, %",
    "characteristics": "By visual characteristic: precision/recall/F1, %",
    "domain": "By domain: F1, %",
    "events": "By number of events: F1, %",
    "elements": "By number of visual elements: F1, %",
}
_VIEWS: dict[By, tuple[str, ...]] = {
    "overall": ("overall",),
    "types": ("overall", "types"),
    "characteristics": ("overall", "characteristics"),
    "domain": ("overall", "domain"),
    "complexity": ("overall", "events", "elements"),
    "all": tuple(_TITLES),
}
_PLACES: dict[str, tuple[Place, ...]] = {
    "types": TYPE_PLACES,
    "characteristics": CHARACTERISTIC_PLACES,
    "events": EVENT_PLACES,
    "elements": ELEMENT_PLACES,
}
_NO_INTERVAL = f" [{NOTHING}]"
# Columns of a terminal of 80 that the domains side by side may take.
_DOMAINS = 56
# In words: what looks like a signature of capeval's would be copied as one.
_OF_PAPER = "the paper's own judge (GPT-4o), prompts and data (TUNA-1K, 1,000 videos), one pass"
# Of the paper's table that a view shows.
_TABLE_OF = {"types": 8, "characteristics": 9, "events": 10, "elements": 10}


@dataclass(frozen=True)
class Cell:
    """A cell as text; `best` is 1 or 2 where its number leads its column; `notes` are footnotes.

    `lead` stands before the number that is marked: precision and recall before F1.
    """

    text: str
    lead: str = ""
    tail: str = ""
    best: int = 0
    notes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Sheet:
    """One table; `name` is the column of the runs' names, after which come numbers.

    `counts` are of how many videos each column is, "" where that is not of a column; none where
    no column has any. `note` stands below.
    """

    title: str
    heads: tuple[str, ...]
    name: int
    rows: tuple[tuple[Cell, ...], ...]
    counts: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Part:
    """A section as every format shows it; `made_by` is its signature for a caption.

    `signed` is False of the paper's, which has no signature: there `signature` is a sentence.

    The first of `footnotes` is what cells with the note 1 mean, and so on.
    """

    title: str
    signature: str
    made_by: str
    sheets: tuple[Sheet, ...]
    footnotes: tuple[str, ...]
    notes: tuple[str, ...]
    signed: bool = True


def part_of(number: int, section: Section, by: By, *, several: bool, narrow: bool = True) -> Part:
    """Return what is shown of a section; `number` heads it where there are several.

    Domains are many: unless nothing is `narrow`, they are parted into tables.
    """
    views = _VIEWS[by]
    doubts = [doubt for doubt in section.doubts if any(_shows(view, doubt) for view in views)]
    kind = "Published" if section.published else "Baseline" if section.baseline else "Runs"
    return Part(
        title=f"{number}. {kind}" if several else kind,
        signature=_signature(section),
        made_by=_OF_PAPER
        if section.published
        else one_line(
            f"judge {section.signature['judge']}, prompts {section.signature['prompts']}, "
            f"repeats {section.signature['repeats']}, data {section.signature['data']}"
        ),
        sheets=tuple(
            sheet for view in views for sheet in _sheets(view, section, doubts, narrow=narrow)
        ),
        footnotes=tuple(
            f"{doubt.model or 'means'}, table {doubt.table}: {doubt.text}" for doubt in doubts
        ),
        notes=((BASELINE_NOTE,) if section.baseline else ()) + section.notes,
        signed=not section.published,
    )


def _shows(view: str, doubt: Disagreement) -> bool:
    """Say whether a view has a cell that is in doubt."""
    return OVERALL in doubt.places if view == "overall" else _TABLE_OF.get(view) == doubt.table


def _signature(section: Section) -> str:
    if section.published:
        return f"No signature: {_OF_PAPER}"
    return one_line("|".join(f"{key}:{value}" for key, value in section.signature.items()), 600)


def _sheets(
    view: str, section: Section, doubts: Sequence[Disagreement], *, narrow: bool
) -> list[Sheet]:
    if view == "overall":
        return [_overall(section, doubts)]
    if view != "domain":
        return [_sheet(view, _PLACES[view], section, doubts)]
    domains = sorted({place for e in section.entries for place in e.cells if place[0] == "domain"})
    if not narrow:
        return [_sheet(view, domains, section, doubts)] if domains else []
    return [
        _sheet(view, places, section, doubts, continued=number > 0)
        for number, places in enumerate(_side_by_side(domains))
    ]


def _side_by_side(places: Sequence[Place]) -> list[tuple[Place, ...]]:
    """Return places in groups whose names leave room for those of the runs."""
    parts: list[tuple[Place, ...]] = []
    width = _DOMAINS
    for place in places:
        needed = 2 + max(5, cell_len(_head(place)))
        if width + needed > _DOMAINS:
            parts.append(())
            width = 0
        parts[-1] += (place,)
        width += needed
    return parts


def _head(place: Place) -> str:
    way, name = place
    return name.title() if way == "type" else cut(one_line(name), 30)


def _sheet(
    view: str,
    places: Sequence[Place],
    section: Section,
    doubts: Sequence[Disagreement],
    *,
    continued: bool = False,
) -> Sheet:
    columns = [_column(section, place, view, doubts) for place in places]
    counts = [_count(section, place) for place in places]
    empty = any(cell.text == NOTHING for column in columns for cell in column)
    return Sheet(
        _TITLES[view]
        + ("; n: scored videos" if any(counts) else "")
        + (" (continued)" if continued else ""),
        ("Run", *map(_head, places)),
        0,
        tuple(
            (Cell(_name(entry, section)), *(column[at] for column in columns))
            for at, entry in enumerate(section.entries)
        ),
        ("n", *counts) if any(counts) else (),
        f"{NOTHING}: no scored video" if empty and not section.published else "",
    )


def _count(section: Section, place: Place) -> str:
    """Return of how many videos a column is, from the fewest of a run to the most."""
    if section.published:
        return ""
    counts = {value_at(entry, place).n or 0 for entry in section.entries}
    ends = dict.fromkeys((min(counts), max(counts)))
    return NOTHING.join(map(thousands, ends))


def _overall(section: Section, doubts: Sequence[Disagreement]) -> Sheet:
    columns: dict[str, list[Cell]] = {"#": [], "Run": [], "Frames": [], "Params": []}
    columns |= {"Captioned": []} if _differ_in_captions(section) else {}
    columns |= {"Scored": [], "P": [], "R": []}
    for entry in section.entries:
        told = {
            "#": NOTHING if entry.rank is None else str(entry.rank),
            "Run": _name(entry, section),
            "Frames": one_line(entry.frames) if entry.frames else NOTHING,
            "Params": NOTHING if entry.parameters is None else f"{entry.parameters:g}B",
            "Captioned": share(entry.captioned, entry.annotated),
            "Scored": share(entry.scored, entry.captioned),
            "P": percent(value_at(entry, OVERALL).precision),
            "R": percent(value_at(entry, OVERALL).recall),
        }
        for name, cells in columns.items():
            cells.append(Cell(told[name]))
    f1 = _column(section, OVERALL, "overall", doubts)
    columns["F1" if section.published else "F1 [95%]"] = [
        replace(cell, tail="" if section.published else _interval(entry))
        for entry, cell in zip(section.entries, f1, strict=True)
    ]
    rows = tuple(zip(*columns.values(), strict=True))
    lacking = any(cell.tail == _NO_INTERVAL for row in rows for cell in row)
    note = NO_INTERVAL_NOTE if lacking else ""
    return Sheet(_TITLES["overall"], tuple(columns), 1, rows, note=note)


def _differ_in_captions(section: Section) -> bool:
    return any(entry.captioned not in (None, entry.annotated) for entry in section.entries)


def _name(entry: Entry, section: Section) -> str:
    return one_line(entry.name) + ("†" if section.published else "")


def value_at(entry: Entry, place: Place) -> Measured:
    """Return an entry's numbers at a place, all None where it has none."""
    return entry.cells.get(place, Measured(None, None, None))


def _interval(entry: Entry) -> str:
    if value_at(entry, OVERALL).f1 is None:
        return ""
    if entry.low is None or entry.high is None:
        return _NO_INTERVAL
    return f" [{percent(entry.low)}, {percent(entry.high)}]"


def _column(
    section: Section, place: Place, view: str, doubts: Sequence[Disagreement]
) -> list[Cell]:
    """Return one column; its best and second best are of those ranked, as they are printed."""
    shown = [percent(value_at(entry, place).f1) for entry in section.entries]
    ranked = {
        text
        for text, entry in zip(shown, section.entries, strict=True)
        if entry.rank is not None and text != NOTHING
    }
    leaders = sorted(ranked, key=float, reverse=True)[:2] if len(section.entries) > 1 else []
    cells = []
    for text, entry in zip(shown, section.entries, strict=True):
        value = value_at(entry, place)
        alone = text == NOTHING or view not in ("types", "characteristics")
        lead = "" if alone else f"{percent(value.precision)}/{percent(value.recall)}/"
        best = leaders.index(text) + 1 if entry.rank is not None and text in leaders else 0
        notes = tuple(
            n
            for n, doubt in enumerate(doubts, start=1)
            if doubt.model == entry.name and place in doubt.places and _shows(view, doubt)
        )
        cells.append(Cell(text, lead=lead, best=best, notes=notes))
    return cells
