"""The leaderboard for programs: every number at full precision, as CSV or JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any

from capeval.errors import one_line
from capeval.evaluation.leaderboard import Entry, Leaderboard
from capeval.evaluation.places import (
    CHARACTERISTIC_PLACES,
    ELEMENT_PLACES,
    EVENT_PLACES,
    OVERALL,
    TYPE_PLACES,
    Place,
)
from capeval.reporting.leaderboard_sheets import value_at

__all__ = ["leaderboard_csv", "leaderboard_json"]

_ALL_PLACES = (
    OVERALL,
    *TYPE_PLACES,
    *CHARACTERISTIC_PLACES,
    *EVENT_PLACES,
    *ELEMENT_PLACES,
)
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
    """Return a row for each entry, fractions at full precision; what does not exist is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    measures = ("precision", "recall", "f1")
    numbers = [f"{_column_name(place)}_{measure}" for place in _ALL_PLACES for measure in measures]
    about = ["section", "published", "baseline", "judge", "prompts", "repeats", "data"]
    limits = ["overall_f1_low", "overall_f1_high"]
    writer.writerow([*about, *_PLAIN, *limits, *numbers, "notes"])
    for number, section in enumerate(board.sections, start=1):
        shared = [section.signature[key] for key in about[3:]]
        for entry in section.entries:
            doubts = [
                f"table {doubt.table}: {doubt.text}"
                for doubt in section.doubts
                if doubt.model == entry.name
            ]
            row: list[object] = [number, section.published, section.baseline, *shared]
            row += [read(entry) for read in _PLAIN.values()]
            row += [entry.low, entry.high]
            row += [
                getattr(value_at(entry, p), measure) for p in _ALL_PLACES for measure in measures
            ]
            writer.writerow([_csv_cell(value) for value in [*row, "; ".join(doubts)]])
    return out.getvalue().rstrip("\n")


def _column_name(place: Place) -> str:
    way, name = place
    if way == "overall":
        return way
    return name if way in ("type", "visual_characteristic") else f"{way}_{name}"


def _csv_cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return repr(value)
    text = one_line(value, 2000)
    # A spreadsheet would run it as a formula.
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text


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
                        "model": doubt.model,
                        "table": doubt.table,
                        "cells": [_column_name(place) for place in doubt.places],
                        "text": doubt.text,
                    }
                    for doubt in section.doubts
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
        "overall_f1_interval": None if entry.low is None else [entry.low, entry.high],
        "scores": {
            _column_name(place): {
                "precision": entry.cells[place].precision,
                "recall": entry.cells[place].recall,
                "f1": entry.cells[place].f1,
            }
            for place in _ALL_PLACES
            if place in entry.cells
        },
    }
