"""The leaderboard as CSV and JSON, with every number at full precision."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from capeval.reporting.formats import csv_text
from capeval.reporting.leaderboard.board import Leaderboard, Section
from capeval.reporting.leaderboard.stored import Entry
from capeval.reporting.leaderboard.table_cells import (
    CHARACTERISTIC_PLACES,
    ELEMENT_PLACES,
    EVENT_PLACES,
    Place,
)
from capeval.scoring import GROUPS, MEASURES
from capeval.scoring.result import Breakdown

_WAYS = tuple(Breakdown.model_fields)
_Group = tuple[str, str, str]
"""The way of grouping videos, the bucket, and the type of element."""
# The columns that are facts about a run.
_PLAIN: dict[str, Callable[[Entry], object]] = {
    "rank": lambda entry: entry.rank,
    "run": lambda entry: entry.name,
    "model": lambda entry: entry.model,
    "frames": lambda entry: entry.frames,
    "parameters": lambda entry: entry.parameters,
    "annotated": lambda entry: entry.annotated,
    "captioned": lambda entry: entry.captioned,
    "scored": lambda entry: entry.scored,
    "version": lambda entry: entry.version,
    "base_url": lambda entry: entry.base_url,
}


def leaderboard_csv(board: Leaderboard) -> str:
    """Return a row for each bucket, type and entry, those of all videos and elements first.

    Fractions have full precision; what does not exist is empty.
    """
    about = ["section", "published", "baseline", "judge", "prompts", "repeats", "data"]
    numbers = [f"{measure}{end}" for measure in MEASURES for end in ("", "_low", "_high")]
    rows: list[list[object]] = []
    tables = {id(entry): _table(entry) for section in board.sections for entry in section.entries}
    for group in _groups(tables.values()):
        for number, section in enumerate(board.sections, start=1):
            shared = [section.signature[key] for key in about[3:]]
            for entry in section.entries:
                of = tables[id(entry)].get(group)
                if of is None:
                    continue
                row: list[object] = [number, section.published, section.baseline, *shared]
                row += [read(entry) for read in _PLAIN.values()]
                row += [*group, of["n"]]
                row += [of[m][end] for m in MEASURES for end in ("value", "low", "high")]
                rows.append([*row, "; ".join(_footnotes(section, entry, group))])
    return csv_text([*about, *_PLAIN, "by", "bucket", "type", "n", *numbers, "notes"], rows)


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


def _footnotes(section: Section, entry: Entry, group: _Group) -> list[str]:
    return [
        f"table {note.table}: {note.text}"
        for note in section.footnotes
        if note.model == entry.name and group in map(_group, note.places)
    ]


def leaderboard_json(board: Leaderboard) -> dict[str, Any]:
    """Return all of the leaderboard as JSON values, fractions at full precision."""
    return {
        "sections": [
            {
                "signature": dict(section.signature),
                "data": section.data,
                "published": section.published,
                "baseline": section.baseline,
                "entries": [_entry_json(entry) for entry in section.entries],
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
        "left_out": [
            {"path": str(one.path), "reason": one.reason, "unfinished": one.unfinished}
            for one in board.left_out
        ],
    }


def _entry_json(entry: Entry) -> dict[str, Any]:
    return {
        **{name: read(entry) for name, read in _PLAIN.items()},
        "path": None if entry.folder is None else str(entry.folder),
        "coverage": entry.coverage,
        **_nested(entry),
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
    return {"overall": overall, "by": by}


def _path(place: Place) -> str:
    """Return the path in an entry to the numbers of a place.

    >>> _path(("type", "camera")), _path(("events", "3-4"))
    ('overall.camera', 'by.events.3-4.all')
    """
    way, bucket, of = _group(place)
    return f"overall.{of}" if way == "overall" else f"by.{way}.{bucket}.{of}"
