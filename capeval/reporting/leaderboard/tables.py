"""The leaderboard in a terminal, as Markdown, LaTeX, CSV or JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from rich.console import Console

from capeval.files.jsonl import dumps
from capeval.reporting.calibrated_tables import labels_by, with_calibrated
from capeval.reporting.formats import Format, csv_text, rendered
from capeval.reporting.leaderboard.board import Leaderboard, Section
from capeval.reporting.leaderboard.published import Footnote
from capeval.reporting.leaderboard.stored import Entry
from capeval.reporting.numbers import NOTHING, percent, thousands
from capeval.reporting.score_tables import (
    BASELINE_NOTE,
    CHARACTERISTIC_PLACES,
    ELEMENT_PLACES,
    EVENT_PLACES,
    OVERALL,
    VIEWS,
    Place,
    ScoreRow,
    View,
    over_videos,
    score_tables,
)
from capeval.reporting.table import Page
from capeval.reporting.terminal import one_screen, print_pages
from capeval.scoring import GROUPS, MEASURES
from capeval.scoring.result import Breakdown
from capeval.text import counted, one_line

By = Literal["overall", "types", "characteristics", "domain", "complexity", "all"]

_VIEWS: dict[By, tuple[View, ...]] = {
    "overall": ("overall",),
    "types": ("overall", "types"),
    "characteristics": ("overall", "characteristics"),
    "domain": ("overall", "domain"),
    "complexity": ("overall", "events", "elements"),
    "all": VIEWS,
}
# Which of the paper's tables a view shows.
_TABLE_OF: dict[View, int] = {"types": 8, "characteristics": 9, "events": 10, "elements": 10}
# In words: what looks like one of capeval's signatures would be copied as one.
_OF_PAPER = "the paper's own judge (GPT-4o), prompts and data (TUNA-1K, 1,000 videos), one repeat"
# What the marks of a table mean; in LaTeX these go where the table goes.
_MARKS = ("†", "‡", "Not ranked")


def print_leaderboard(
    board: Leaderboard, console: Console, *, by: By = "overall", full: bool = False
) -> None:
    """Print a headline and the sections, each with its tables, notes and signature.

    Parameters
    ----------
    full : all rows; otherwise as many of each table as fill a screen
    """
    pages, headline = _pages(board, by), leaderboard_headline(board)
    if not full:
        pages = one_screen(pages, console.width, headline=headline)
    print_pages(pages, console, headline=headline)


def rendered_leaderboard(board: Leaderboard, form: Format, *, by: By = "overall") -> str:
    """Return the leaderboard as text; CSV and JSON have every number, whatever `by` is."""
    if form == "csv":
        return leaderboard_csv(board)
    if form == "json":
        return dumps(leaderboard_json(board), indent=1)
    return rendered(_pages(board, by), form, headline=leaderboard_headline(board))


def leaderboard_headline(board: Leaderboard) -> str:
    """Return which run is the best of the first section that has an F1, and this F1."""
    if not board.sections:
        return ""
    section = next((one for one in board.sections if not one.has_no_f1), None)
    if section is None:
        total = sum(len(one.entries) for one in board.sections)
        return f"No run has an F1: {counted(total, 'judged run')}."
    number = len(board.sections)
    of = f" (section {board.sections.index(section) + 1} of {number})" if number > 1 else ""
    best = section.entries[0]
    f1 = best.at(OVERALL).f1
    ends = NOTHING if best.low is None else f"{percent(best.low)}, {percent(best.high)}"
    name = one_line(best.name)
    if section.published:
        return (
            f"{name}: F1 {percent(f1)}, the highest of {len(section.entries)} published models; "
            f"published, not computed here{of}."
        )
    how = "judged by the baseline" if section.baseline else "judged by"
    count = len(section.entries)
    highest = f", the highest of {thousands(count)} runs" if count > 1 else ""
    over = over_videos(best.scored or 0, best.annotated or 0, best.captioned or 0)
    return (
        f"{name}: F1 {percent(f1)} [{ends}] {over}"
        f"{highest}, {how} {one_line(section.signature['judge'])}{of}."
    )


def _pages(board: Leaderboard, by: By) -> list[Page]:
    several = len(board.sections) > 1
    return [
        _page(section, _VIEWS[by], f"{number}. " if several else "")
        for number, section in enumerate(board.sections, start=1)
    ]


def _page(section: Section, views: Sequence[View], number: str) -> Page:
    footnotes = [note for note in section.footnotes if any(_shows(view, note) for view in views)]
    rows = [_row(entry, section, views, footnotes) for entry in section.entries]
    signature = "|".join(f"{key}:{value}" for key, value in section.signature.items())
    kind = "Published" if section.published else "Baseline" if section.baseline else "Runs"
    if number and not section.published:
        baseline = "the baseline " if section.baseline else ""
        effort = section.signature.get("reasoning")
        how = f", reasoning {one_line(effort)}" if effort else ""
        kind = f"Runs judged by {baseline}{one_line(section.signature['judge'])}{how}"
    warnings = [note for note in section.notes if note.startswith(_MARKS)]
    notes = [note for note in section.notes if note not in warnings]
    about = (
        f"{_OF_PAPER}; no signature"
        if section.published
        else ", ".join(
            f"{key} {one_line(section.signature[key])}"
            for key in ("judge", "prompts", "reasoning", "repeats", "data")
            if key in section.signature
        )
    )
    page = Page(
        [
            table
            for view in views
            for table in score_tables(view, rows, published=section.published)
        ],
        title=f"{number}{kind}",
        about=about,
        footnotes=[f"{note.model}, table {note.table}: {note.text}" for note in footnotes],
        notes=notes,
        warnings=[*([BASELINE_NOTE] if section.baseline else []), *warnings],
        signatures=[] if section.published else [one_line(signature, 600)],
    )
    found = {entry.name: entry.calibrated for entry in section.entries if entry.calibrated}
    return with_calibrated(page, found)


def _row(
    entry: Entry, section: Section, views: Sequence[View], footnotes: Sequence[Footnote]
) -> ScoreRow:
    numbers: dict[tuple[View, Place], tuple[int, ...]] = {}
    for number, note in enumerate(footnotes, start=1):
        for view in views:
            if note.model == entry.name and _shows(view, note):
                for place in note.places:
                    numbers[view, place] = (*numbers.get((view, place), ()), number)
    name = one_line(entry.name) + ("†" if section.published else "")
    return replace(entry, name=name, footnotes=numbers)


def _shows(view: View, note: Footnote) -> bool:
    """Return whether a view has a cell of a footnote."""
    return OVERALL in note.places if view == "overall" else _TABLE_OF.get(view) == note.table


_WAYS = tuple(Breakdown.model_fields)
_Group = tuple[str, str, str]
"""The way of grouping videos, the bucket, and the type of element."""
# The columns that are facts about a run, each with its attribute.
_FACTS = (
    *("model", "frames", "parameters", "annotated", "captioned", "scored"),
    *("version", "base_url"),
)
_PLAIN = {"rank": "rank", "run": "name"} | {name: name for name in _FACTS}


def leaderboard_csv(board: Leaderboard) -> str:
    """Return a row for each bucket, type and entry, those of all videos and elements first.

    Fractions have full precision; what does not exist is empty.
    """
    about = ["section", "published", "baseline", "judge", "prompts", "repeats", "data"]
    if any("reasoning" in section.signature for section in board.sections):
        about.insert(5, "reasoning")
    numbers = [f"{measure}{end}" for measure in MEASURES for end in ("", "_low", "_high")]
    entries = [entry for section in board.sections for entry in section.entries]
    # Files of runs without labels keep their columns.
    calibrated = any(entry.calibrated for entry in entries)
    if calibrated:
        numbers += [f"{m}_calibrated{end}" for m in MEASURES for end in ("", "_low", "_high")]
        numbers += ["labelled", "labels"]
    rows: list[list[object]] = []
    tables = {id(entry): _table(entry) for section in board.sections for entry in section.entries}
    for group in _groups(tables.values()):
        for number, section in enumerate(board.sections, start=1):
            shared = [section.signature.get(key) for key in about[3:]]
            for entry in section.entries:
                of = tables[id(entry)].get(group)
                if of is None:
                    continue
                row: list[object] = [number, section.published, section.baseline, *shared]
                row += [getattr(entry, name) for name in _PLAIN.values()]
                row += [*group, of["n"]]
                row += [of[m][end] for m in MEASURES for end in ("value", "low", "high")]
                row += _calibrated(entry, group) if calibrated else []
                notes = [
                    f"table {note.table}: {note.text}"
                    for note in section.footnotes
                    if note.model == entry.name and group in map(_group, note.places)
                ]
                rows.append([*row, "; ".join(notes)])
    return csv_text([*about, *_PLAIN, "by", "bucket", "type", "n", *numbers, "notes"], rows)


def _calibrated(entry: Entry, group: _Group) -> list[object]:
    """Return the calibrated numbers of a bucket and type, as many Nones where there are none."""
    way, bucket, of = group
    found = entry.calibrated
    if found is None:
        return [None] * (3 * len(MEASURES) + 2)
    at = found.overall if way == "overall" else getattr(found.by, way).get(bucket)
    scores = None if at is None else getattr(at, of)
    if scores is None:
        return [None] * (3 * len(MEASURES) + 2)
    ends = [
        getattr(getattr(scores, measure), end)
        for measure in MEASURES
        for end in ("value", "low", "high")
    ]
    return [*ends, scores.labelled, labels_by(found.labels.origin)]


def _table(entry: Entry) -> dict[_Group, dict[str, Any]]:
    """Return the numbers of every bucket and type, each as `scores.json` has them."""
    if entry.scores is None:
        return {
            _group(place): {
                measure: {"value": getattr(of, measure), "low": None, "high": None}
                for measure in MEASURES
            }
            | {"n": None}
            for place, of in entry.cells.items()
        }
    stored = entry.scores.model_dump(mode="json", include={"overall", "by"})
    buckets = {("overall", ""): stored["overall"]}
    buckets |= {(way, name): of for way in _WAYS for name, of in stored["by"][way].items()}
    return {(*bucket, group): of[group] for bucket, of in buckets.items() for group in GROUPS}


def _group(place: Place) -> _Group:
    way, name = place
    if way in ("overall", "type"):
        return "overall", "", name
    return way, name, "all"


def _groups(tables: Iterable[Mapping[_Group, object]]) -> list[_Group]:
    """Return the groups that any entry has: overall first, then the buckets in their order."""
    fixed = {
        place: at
        for at, place in enumerate((*CHARACTERISTIC_PLACES, *EVENT_PLACES, *ELEMENT_PLACES))
    }
    ways = ("overall", *_WAYS)

    def order(group: _Group) -> tuple[int, int, str, int]:
        way, bucket, of = group
        return ways.index(way), fixed.get((way, bucket), -1), bucket, GROUPS.index(of)

    return sorted({group for table in tables for group in table}, key=order)


def leaderboard_json(board: Leaderboard) -> dict[str, Any]:
    """Return all of the leaderboard as JSON values, fractions at full precision."""
    return {
        "sections": [
            {
                "signature": dict(section.signature),
                "data": section.data,
                "published": section.published,
                "baseline": section.baseline,
                "entries": [
                    {key: getattr(entry, name) for key, name in _PLAIN.items()}
                    | {"path": entry.folder and str(entry.folder), "coverage": entry.coverage}
                    | _nested(entry)
                    for entry in section.entries
                ],
                "notes": list(section.notes),
                "footnotes": [
                    {
                        "model": note.model,
                        "table": note.table,
                        "cells": [_path(place) for place in note.places],
                        "text": note.text,
                    }
                    for note in section.footnotes
                ],
            }
            for section in board.sections
        ],
        "left_out": [{"path": str(one.path), "reason": one.reason} for one in board.left_out],
    }


def _nested(entry: Entry) -> dict[str, Any]:
    """Return `overall` and `by`, as `scores.json` has them."""
    overall: dict[str, Any] = {}
    by: dict[str, dict[str, dict[str, Any]]] = {way: {} for way in _WAYS}
    table = _table(entry)
    for group in _groups([table]):
        way, bucket, of = group
        at = overall if way == "overall" else by[way].setdefault(bucket, {})
        at[of] = table[group]
    derived = {"calibrated": entry.calibrated.model_dump(mode="json")} if entry.calibrated else {}
    return {"overall": overall, "by": by, **derived}


def _path(place: Place) -> str:
    """Return the path in an entry to the numbers of a place.

    >>> _path(("type", "camera")), _path(("events", "3-4"))
    ('overall.camera', 'by.events.3-4.all')
    """
    way, bucket, of = _group(place)
    return f"overall.{of}" if way == "overall" else f"by.{way}.{bucket}.{of}"
