"""The leaderboard in a terminal, as Markdown, LaTeX, CSV or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rich.console import Console

from capeval.files.jsonl import dumps
from capeval.reporting.formats import Format, rendered
from capeval.reporting.leaderboard.board import Leaderboard, Section
from capeval.reporting.leaderboard.data import leaderboard_csv, leaderboard_json
from capeval.reporting.leaderboard.published import Footnote
from capeval.reporting.leaderboard.stored import Entry
from capeval.reporting.leaderboard.table_cells import OVERALL, Place
from capeval.reporting.numbers import NOTHING, percent, thousands
from capeval.reporting.score_tables import (
    BASELINE_NOTE,
    VIEWS,
    ScoreRow,
    View,
    over_videos,
    score_tables,
)
from capeval.reporting.table import Page
from capeval.reporting.terminal import print_pages
from capeval.text import one_line

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
_MARKS = ("†", "Not ranked")
# With headings and notes, so many rows of all tables together fill a screen; each table has a few.
_MOST_ROWS, _FEWEST_ROWS = 25, 5


def print_leaderboard(
    board: Leaderboard, console: Console, *, by: By = "overall", full: bool = False
) -> None:
    """Print a headline and the sections, each with its tables, notes and signature.

    Parameters
    ----------
    full : all rows; otherwise so many of each table that the whole fits about one screen
    """
    pages = _pages(board, by)
    if not full:
        most = max(_FEWEST_ROWS, _MOST_ROWS // max(1, sum(len(page.tables) for page in pages)))
        pages = [page.shortened(most) for page in pages]
    print_pages(pages, console, headline=_headline(board))


def rendered_leaderboard(board: Leaderboard, form: Format, *, by: By = "overall") -> str:
    """Return the leaderboard as text; CSV and JSON have every number, whatever `by` is."""
    if form == "csv":
        return leaderboard_csv(board)
    if form == "json":
        return dumps(leaderboard_json(board), indent=1)
    return rendered(_pages(board, by), form, headline=_headline(board))


def _headline(board: Leaderboard) -> str:
    """Return which run is the best of the first section, and its F1."""
    if not board.sections:
        return ""
    section = board.sections[0]
    best = section.entries[0]
    f1 = best.cells[OVERALL].f1 if OVERALL in best.cells else None
    if f1 is None:
        return f"No run has an F1: {thousands(len(section.entries))} judged runs."
    ends = NOTHING if best.low is None else f"{percent(best.low)}, {percent(best.high)}"
    name = one_line(best.name)
    if section.published:
        return (
            f"{name}: F1 {percent(f1)}, the highest of {len(section.entries)} published models; "
            "published, not computed here."
        )
    whose = "the lexical baseline " if section.baseline else ""
    return (
        f"{name}: F1 {percent(f1)} [{ends}] {over_videos(best.scored or 0, best.annotated or 0)}, "
        f"the highest of {thousands(len(section.entries))} runs judged by "
        f"{whose}{one_line(section.signature['judge'])}."
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
    warnings = [note for note in section.notes if note.startswith(_MARKS)]
    notes = [note for note in section.notes if note not in warnings]
    about = (
        _OF_PAPER
        if section.published
        else ", ".join(
            f"{key} {one_line(section.signature[key])}"
            for key in ("judge", "prompts", "repeats", "data")
        )
    )
    return Page(
        [
            table
            for view in views
            for table in score_tables(view, rows, published=section.published)
        ],
        title=f"{number}{kind}",
        about=about,
        footnotes=[f"{note.model}, table {note.table}: {note.text}" for note in footnotes],
        notes=[f"No signature: {_OF_PAPER}", *notes] if section.published else notes,
        warnings=[*([BASELINE_NOTE] if section.baseline else []), *warnings],
        signatures=[] if section.published else [one_line(signature, 600)],
    )


def _row(
    entry: Entry, section: Section, views: Sequence[View], footnotes: Sequence[Footnote]
) -> ScoreRow:
    numbers: dict[tuple[View, Place], tuple[int, ...]] = {}
    for number, note in enumerate(footnotes, start=1):
        for view in views:
            if note.model == entry.name and _shows(view, note):
                for place in note.places:
                    numbers[view, place] = (*numbers.get((view, place), ()), number)
    return ScoreRow(
        name=one_line(entry.name) + ("†" if section.published else ""),
        cells=entry.cells,
        annotated=entry.annotated,
        captioned=entry.captioned,
        scored=entry.scored,
        low=entry.low,
        high=entry.high,
        rank=entry.rank,
        frames=entry.frames,
        parameters=entry.parameters,
        footnotes=numbers,
    )


def _shows(view: View, note: Footnote) -> bool:
    """Return whether a view has a cell of a footnote."""
    return OVERALL in note.places if view == "overall" else _TABLE_OF.get(view) == note.table
