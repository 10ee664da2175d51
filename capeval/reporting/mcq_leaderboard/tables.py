"""The leaderboard of graded runs in a terminal, as Markdown, LaTeX, CSV or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console

from capeval.files.jsonl import dumps
from capeval.mcq.graded_run import GroupAccuracy
from capeval.reporting.formats import Format, csv_text, rendered
from capeval.reporting.mcq_leaderboard.board import McqEntry, McqLeaderboard, McqSection
from capeval.reporting.mcq_names import benchmark_name, way_name
from capeval.reporting.numbers import NOTHING, hundredths, percent, share, thousands
from capeval.reporting.table import Cell, Column, Page, Row, Table
from capeval.reporting.terminal import one_screen, print_pages
from capeval.text import counted, cut, one_line


def print_mcq_leaderboard(board: McqLeaderboard, console: Console, *, full: bool = False) -> None:
    """Print a headline and the sections.

    Parameters
    ----------
    full : all rows and columns; otherwise as many of each table as fit in a screen
    """
    pages, headline = _pages(board), mcq_leaderboard_headline(board)
    if not full:
        pages = [
            replace(page, tables=[_in_width(table, console.width) for table in page.tables])
            for page in pages
        ]
        pages = one_screen(pages, console.width, headline=headline)
    print_pages(pages, console, headline=headline)


def _in_width(table: Table, width: int) -> Table:
    """Return a table with the columns that fit, and the number of those left out."""
    part, *rest = table.split(width, 1)
    if not rest:
        return table
    more = f"{counted(len(table.columns) - len(part.columns), 'more column')}: --full"
    return replace(part, note=f"{table.note.rstrip('.')}. {more}" if table.note else more)


def rendered_mcq_leaderboard(board: McqLeaderboard, form: Format) -> str:
    """Return the leaderboard as text; CSV and JSON have fractions at full precision."""
    if form == "csv":
        return _csv(board)
    if form == "json":
        return dumps(mcq_leaderboard_json(board), indent=1)
    return rendered(_pages(board), form, headline=mcq_leaderboard_headline(board))


def mcq_leaderboard_headline(board: McqLeaderboard) -> str:
    """Return the best entry of the first section in a sentence."""
    if not board.sections:
        return f"{counted(len(board.left_out), 'graded run')} left out, none to show."
    section = board.sections[0]
    best = section.entries[0]
    name = one_line(best.name, 120)
    accuracy = NOTHING
    if best.overall is not None and best.overall.value is not None:
        accuracy = f"{percent(best.overall.value)}%"
    of = f" ({counted(len(board.sections), 'section')})" if len(board.sections) > 1 else ""
    if section.published:
        count = f"the highest of {len(section.entries)} published models"
        return f"{name}: accuracy {accuracy} on {benchmark_name(section.benchmark)}, {count}{of}."
    accuracy += "" if best.overall is None else _ends(best.overall)
    runs = sum(one.rank is not None for one in section.entries)
    highest = f", the highest of {thousands(runs)} runs" if runs > 1 else ""
    return f"{name}: accuracy {accuracy} on {one_line(section.title)}{highest}{of}."


def _ends(of: GroupAccuracy) -> str:
    if of.value is None:
        return ""
    if of.low is None or of.high is None:
        return f" [{NOTHING}]"
    return f" [{percent(of.low)}, {percent(of.high)}]"


def _pages(board: McqLeaderboard) -> list[Page]:
    several = len(board.sections) > 1
    return [
        _page(section, f"{number}. " if several else "")
        for number, section in enumerate(board.sections, start=1)
    ]


def _page(section: McqSection, number: str) -> Page:
    ranked = [one for one in section.entries if not one.diagnostic]
    rows: list[Row] = [*_rows(section, ranked)]
    if less := [one for one in section.entries if one.diagnostic]:
        rows += [["One frame, shuffled frames or none"], *_rows(section, less)]
    if section.baselines:
        rows += [["Baselines"], *_rows(section, section.baselines)]
    frames = _has_frames(section)
    overall = "Accuracy" if section.published else "Accuracy [95%]"
    lead = [Column("#"), Column("Run", words=True)]
    lead += [Column("Frames", words=True)] if frames else []
    lead += [] if section.published else [Column("Scored")]
    lead += [Column(overall)] if _has_overall(section) else []
    under = [f"{n:,}" for n in section.questions] or [""] * len(section.columns)
    groups = [
        Column(cut(one_line(name), 30), under=n)
        for name, n in zip(section.columns, under, strict=True)
    ]
    marks = [note for note in section.notes if note.startswith(("†", "Not ranked"))]
    by = f" by {_lower(way_name(section.by))}" if section.by and not section.published else ""
    what = "Replies" if section.counts else f"Accuracy{by}, in percent"
    return Page(
        [Table(what, [*lead, *groups], rows)],
        title=f"{number}{one_line(section.title)}",
        about=one_line(section.about),
        footnotes=[f"{note.model}: {note.text}" for note in section.footnotes],
        notes=[one_line(note, 600) for note in section.notes if note not in marks],
        warnings=[one_line(note, 600) for note in marks],
    )


def _lower(name: str) -> str:
    return name[:1].lower() + name[1:]


def _has_overall(section: McqSection) -> bool:
    return any(entry.overall is not None for entry in section.entries)


def _has_frames(section: McqSection) -> bool:
    return any(entry.frames for entry in section.entries)


def _rows(section: McqSection, entries: Sequence[McqEntry]) -> Iterator[Row]:
    alone = len(section.entries) < 2
    for entry in entries:
        row: list[Cell | str] = [
            NOTHING if entry.rank is None else str(entry.rank),
            one_line(entry.name, 120) + ("†" if section.published else ""),
        ]
        row += [one_line(entry.frames, 40) or NOTHING] if _has_frames(section) else []
        row += [] if section.published else [share(entry.scored, entry.asked)]
        if _has_overall(section):
            row.append(_overall_cell(entry, section, alone))
        row += [
            Cell(
                _number(section, entry.cells.get(column)),
                place=0 if alone else _place(section, entry, column),
                notes=_notes(section, entry, column),
            )
            for column in section.columns
        ]
        yield row


def _overall_cell(entry: McqEntry, section: McqSection, alone: bool) -> Cell:
    of = entry.overall
    if of is None:
        return Cell(NOTHING)
    after = "" if section.published or entry.path is None else _ends(of)
    return Cell(
        percent(of.value),
        after=after,
        place=0 if alone else _place(section, entry, None),
        notes=_notes(section, entry, None),
    )


def _number(section: McqSection, of: GroupAccuracy | None) -> str:
    if of is None or of.value is None:
        return NOTHING
    if section.counts:
        return thousands(of.value)
    return percent(of.value) if section.decimals == 1 else hundredths(of.value)


def _place(section: McqSection, entry: McqEntry, column: str | None) -> int:
    """Return 1 for the best and 2 for the second best of the ranked, as printed."""
    if entry.rank is None:
        return 0

    def printed(one: McqEntry) -> float | None:
        of = one.overall if column is None else one.cells.get(column)
        return None if of is None or of.value is None else float(percent(of.value))

    values = {printed(one) for one in section.entries if one.rank is not None} - {None}
    leaders = sorted((value for value in values if value is not None), reverse=True)[:2]
    own = printed(entry)
    return leaders.index(own) + 1 if own in leaders else 0


def _notes(section: McqSection, entry: McqEntry, column: str | None) -> tuple[int, ...]:
    return tuple(
        number
        for number, note in enumerate(section.footnotes, start=1)
        if note.model == entry.name and (column or "overall") in note.columns
    )


_FACTS = ("rank", "name", "model", "frames", "scored", "asked")


def _csv(board: McqLeaderboard) -> str:
    """Return a row for each group and entry, those of all questions first."""
    rows: list[list[object]] = []
    for number, section in enumerate(board.sections, start=1):
        groups: list[str | None] = [None] if _has_overall(section) else []
        for column in (*groups, *section.columns):
            for entry in (*section.baselines, *section.entries):
                of = entry.overall if column is None else entry.cells.get(column)
                if of is None:
                    continue
                facts = [getattr(entry, name) for name in _FACTS]
                about = [number, section.benchmark, section.published, section.about]
                bucket = ["overall", ""] if column is None else [section.by, column]
                notes = [
                    note.text
                    for note in section.footnotes
                    if note.model == entry.name and (column or "overall") in note.columns
                ]
                rows.append(
                    [*about, *facts, *bucket, of.n, of.value, of.low, of.high, "; ".join(notes)]
                )
    header = ["section", "benchmark", "published", "about", *_FACTS, "by", "bucket", "n"]
    return csv_text([*header, "value", "low", "high", "notes"], rows)


def mcq_leaderboard_json(board: McqLeaderboard) -> dict[str, Any]:
    """Return all of the leaderboard as JSON values."""
    return {
        "sections": [
            {
                "benchmark": section.benchmark,
                "title": section.title,
                "about": section.about,
                "published": section.published,
                "counts": section.counts,
                "by": section.by,
                "columns": list(section.columns),
                "entries": [_entry_json(entry) for entry in section.entries],
                "baselines": [_entry_json(entry) for entry in section.baselines],
                "footnotes": [
                    {"model": note.model, "columns": list(note.columns), "text": note.text}
                    for note in section.footnotes
                ],
                "notes": list(section.notes),
            }
            for section in board.sections
        ],
        "left_out": [{"path": str(one.path), "reason": one.reason} for one in board.left_out],
    }


def _entry_json(entry: McqEntry) -> dict[str, Any]:
    return {
        **{name: getattr(entry, name) for name in _FACTS},
        "path": None if entry.path is None else str(entry.path),
        "overall": None if entry.overall is None else _accuracy_json(entry.overall),
        "by": {name: _accuracy_json(of) for name, of in entry.cells.items()},
    }


def _accuracy_json(of: GroupAccuracy) -> dict[str, Any]:
    return {"value": of.value, "low": of.low, "high": of.high, "n": of.n}
