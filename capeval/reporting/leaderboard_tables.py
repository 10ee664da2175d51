"""The leaderboard: in a terminal, as Markdown, LaTeX, CSV or JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from capeval.errors import one_line
from capeval.evaluation.leaderboard import Entry, Leaderboard, Section
from capeval.evaluation.places import (
    CHARACTERISTIC_PLACES,
    ELEMENT_PLACES,
    EVENT_PLACES,
    OVERALL,
    TYPE_PLACES,
    Measured,
    Place,
)
from capeval.evaluation.published import Disagreement
from capeval.files.jsonl import dumps
from capeval.reporting.numbers import NOTHING, percent
from capeval.reporting.tables import BASELINE_NOTE

__all__ = ["By", "Format", "leaderboard_json", "print_leaderboard", "rendered_leaderboard"]

By = Literal["overall", "types", "characteristics", "complexity", "all"]
Format = Literal["table", "markdown", "latex", "csv", "json"]

_ALL_PLACES = (
    OVERALL,
    *TYPE_PLACES,
    *CHARACTERISTIC_PLACES,
    *EVENT_PLACES,
    *ELEMENT_PLACES,
)
_TITLES = {
    "overall": "Overall: precision, recall and F1, %",
    "types": "By type of element: precision/recall/F1, %",
    "characteristics": "By visual characteristic: precision/recall/F1, %",
    "events": "By number of events: F1, %",
    "elements": "By number of visual elements: F1, %",
}
_VIEWS: dict[By, tuple[str, ...]] = {
    "overall": ("overall",),
    "types": ("overall", "types"),
    "characteristics": ("overall", "characteristics"),
    "complexity": ("overall", "events", "elements"),
    "all": tuple(_TITLES),
}
_PLACES = {
    "types": TYPE_PLACES,
    "characteristics": CHARACTERISTIC_PLACES,
    "events": EVENT_PLACES,
    "elements": ELEMENT_PLACES,
}
# Of the paper's table that a view shows.
_TABLE_OF = {"types": 8, "characteristics": 9, "events": 10, "elements": 10}

_LEAST_NAME = 8
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class _Cell:
    """A cell as text; `best` is 1 or 2 where its number leads its column; `notes` are footnotes.

    `lead` stands before the number that is marked: precision and recall before F1.
    """

    text: str
    lead: str = ""
    tail: str = ""
    best: int = 0
    notes: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Sheet:
    """One table; `name` is the column of the runs' names, after which come numbers."""

    title: str
    heads: tuple[str, ...]
    name: int
    rows: tuple[tuple[_Cell, ...], ...]


@dataclass(frozen=True)
class _Part:
    """A section as every format shows it; `made_by` is its signature for a caption."""

    title: str
    signature: str
    made_by: str
    sheets: tuple[_Sheet, ...]
    footnotes: tuple[str, ...]
    notes: tuple[str, ...]


def _part(number: int, section: Section, by: By, *, several: bool) -> _Part:
    views = _VIEWS[by]
    doubts = [doubt for doubt in section.doubts if any(_shows(view, doubt) for view in views)]
    kind = "Published" if section.published else "Baseline" if section.baseline else "Runs"
    return _Part(
        title=f"{number}. {kind}" if several else kind,
        signature=_signature(section),
        made_by=one_line(
            f"judge {section.signature['judge']}, prompts {section.signature['prompts']}, "
            f"repeats {section.signature['repeats']}, data {section.signature['data']}"
        ),
        sheets=tuple(_sheet(view, section, doubts) for view in views),
        footnotes=tuple(
            f"[{n}] {doubt.model or 'means'}, table {doubt.table}: {doubt.text}"
            for n, doubt in enumerate(doubts, start=1)
        ),
        notes=((BASELINE_NOTE,) if section.baseline else ()) + section.notes,
    )


def _shows(view: str, doubt: Disagreement) -> bool:
    """Say whether a view has a cell that is in doubt."""
    return OVERALL in doubt.places if view == "overall" else _TABLE_OF[view] == doubt.table


def _signature(section: Section) -> str:
    return one_line("|".join(f"{key}:{value}" for key, value in section.signature.items()), 600)


def _sheet(view: str, section: Section, doubts: Sequence[Disagreement]) -> _Sheet:
    if view == "overall":
        return _overall(section, doubts)
    columns = [_column(section, place, view, doubts) for place in _PLACES[view]]
    return _Sheet(
        _TITLES[view],
        ("Run", *(name.title() if way == "type" else name for way, name in _PLACES[view])),
        0,
        tuple(
            (_Cell(_name(entry, section)), *(column[at] for column in columns))
            for at, entry in enumerate(section.entries)
        ),
    )


def _overall(section: Section, doubts: Sequence[Disagreement]) -> _Sheet:
    f1 = _column(section, OVERALL, "overall", doubts)
    rows = tuple(
        (
            _Cell(NOTHING if entry.rank is None else str(entry.rank)),
            _Cell(_name(entry, section)),
            _Cell(one_line(entry.frames) if entry.frames else NOTHING),
            _Cell(NOTHING if entry.parameters is None else f"{entry.parameters:g}B"),
            _Cell(NOTHING if entry.scored is None else f"{entry.scored}/{entry.annotated}"),
            _Cell(percent(_at(entry, OVERALL).precision)),
            _Cell(percent(_at(entry, OVERALL).recall)),
            replace(cell, tail=_interval(entry)),
        )
        for entry, cell in zip(section.entries, f1, strict=True)
    )
    last = "F1" if section.published else "F1 [95%]"
    heads = ("#", "Run", "Frames", "Params", "Scored", "P", "R", last)
    return _Sheet(_TITLES["overall"], heads, 1, rows)


def _name(entry: Entry, section: Section) -> str:
    return one_line(entry.name) + ("†" if section.published else "")


def _at(entry: Entry, place: Place) -> Measured:
    return entry.cells.get(place, Measured(None, None, None))


def _scored(entry: Entry) -> str:
    return NOTHING if entry.scored is None else f"{entry.scored}/{entry.annotated}"


def _interval(entry: Entry) -> str:
    if entry.low is None or entry.high is None:
        return ""
    return f" [{percent(entry.low)}, {percent(entry.high)}]"


def _column(
    section: Section, place: Place, view: str, doubts: Sequence[Disagreement]
) -> list[_Cell]:
    """Return one column; its best and second best are of those ranked, as they are printed."""
    shown = [percent(_at(entry, place).f1) for entry in section.entries]
    ranked = {
        text
        for text, entry in zip(shown, section.entries, strict=True)
        if entry.rank is not None and text != NOTHING
    }
    leaders = sorted(ranked, key=float, reverse=True)[:2] if len(section.entries) > 1 else []
    cells = []
    for text, entry in zip(shown, section.entries, strict=True):
        value = _at(entry, place)
        alone = text == NOTHING or view not in ("types", "characteristics")
        lead = "" if alone else f"{percent(value.precision)}/{percent(value.recall)}/"
        best = leaders.index(text) + 1 if entry.rank is not None and text in leaders else 0
        notes = tuple(
            n
            for n, doubt in enumerate(doubts, start=1)
            if doubt.model == entry.name and place in doubt.places and _shows(view, doubt)
        )
        cells.append(_Cell(text, lead=lead, best=best, notes=notes))
    return cells


def print_leaderboard(board: Leaderboard, console: Console, *, by: By = "overall") -> None:
    """Print the sections as tables of the terminal's width, each with its signature and notes."""
    for number, section in enumerate(board.sections, start=1):
        part = _part(number, section, by, several=len(board.sections) > 1)
        console.print(Text(one_line(part.title), style="bold"))
        console.print(Text(part.signature, style="dim"), soft_wrap=True)
        console.print()
        for sheet in part.sheets:
            _print_sheet(sheet, console)
        for line in (*part.footnotes, *part.notes):
            style = "yellow" if line == BASELINE_NOTE else ""
            console.print(Text(one_line(line, 2000), style=style), soft_wrap=True)
        if part.footnotes or part.notes:
            console.print()


def _print_sheet(sheet: _Sheet, console: Console) -> None:
    """Print a table; names fold where they do not fit, and numbers are never cut."""
    width = _width(_table(sheet, None))
    longest = max(cell_len(row[sheet.name].text) for row in sheet.rows)
    room = longest - max(0, width - console.width)
    table = _table(sheet, None if width <= console.width else max(room, min(longest, _LEAST_NAME)))
    table.width = max(1, _width(table))
    console.print(table, crop=False)
    console.print()


def _width(table: Table) -> int:
    return Console(width=100_000, file=io.StringIO()).measure(table).maximum


def _table(sheet: _Sheet, name_width: int | None) -> Table:
    table = Table(
        title=sheet.title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for at, head in enumerate(sheet.heads):
        if at == sheet.name:
            table.add_column(head, overflow="fold", width=name_width)
        else:
            table.add_column(head, justify="right", no_wrap=True)
    for row in sheet.rows:
        table.add_row(*(_rich(cell) for cell in row))
    return table


def _rich(cell: _Cell) -> Text:
    style = {1: "bold", 2: "underline"}.get(cell.best, "")
    marks = ",".join(map(str, cell.notes)).translate(_RAISED)
    return Text.assemble(cell.lead, (cell.text, style), marks, cell.tail)


def rendered_leaderboard(board: Leaderboard, form: Format, *, by: By = "overall") -> str:
    """Return the leaderboard as text; CSV and JSON hold every number, whatever `by` is."""
    if form == "table":
        out = io.StringIO()
        print_leaderboard(board, Console(file=out, width=120, color_system=None), by=by)
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).rstrip("\n")
    if form == "csv":
        return _csv(board)
    if form == "json":
        return dumps(leaderboard_json(board), indent=1)
    parts = [
        _part(number, section, by, several=len(board.sections) > 1)
        for number, section in enumerate(board.sections, start=1)
    ]
    return "\n\n".join((_latex if form == "latex" else _markdown)(part) for part in parts)


def _markdown(part: _Part) -> str:
    blocks = [f"### {_md(part.title)}", _code(part.signature)]
    for sheet in part.sheets:
        marks = ["---" if at == sheet.name else "---:" for at in range(len(sheet.heads))]
        rows = [[_md_cell(cell) for cell in row] for row in sheet.rows]
        lines = [[_md(head) for head in sheet.heads], marks, *rows]
        blocks.append(f"**{_md(sheet.title)}**")
        blocks.append("\n".join("| " + " | ".join(line) + " |" for line in lines))
    told = [*part.footnotes, *part.notes]
    if told:
        blocks.append("\n".join(f"- {_md(one_line(line, 2000))}" for line in told))
    return "\n\n".join(blocks)


def _md_cell(cell: _Cell) -> str:
    text = _md(cell.text)
    marks = ",".join(map(str, cell.notes)).translate(_RAISED)
    return _md(cell.lead) + (f"**{text}**" if cell.best == 1 else text) + marks + _md(cell.tail)


def _md(text: str) -> str:
    # Besides Markdown's own marks: & begins an entity, @ names a person, an address is a link.
    text = text.replace("&", "&amp;")
    for mark in "\\|*_`<>[]~$":
        text = text.replace(mark, "\\" + mark)
    return text.replace("@", "&#64;").replace("://", ":&#47;/").replace("www.", "www&#46;")


def _code(text: str) -> str:
    # A run of backticks in the text cannot close a longer one around it.
    longest = max((len(run) for run in _runs_of(text, "`")), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _runs_of(text: str, mark: str) -> list[str]:
    return [run for run in "".join(c if c == mark else " " for c in text).split() if run]


_TEX = {
    "\\": r"\textbackslash{}",
    "–": "--",
    "†": r"\dag{}",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{mark: "\\" + mark for mark in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "`": r"\textasciigrave{}",
}


def _tex(text: str) -> str:
    # Two hyphens would become one dash, and after \\ a bracket or a star belongs to it.
    flat = text.replace("<=", "≤").replace(">=", "≥").replace("--", "-\0-").replace("--", "-\0-")
    shown = "".join(_TEX.get(mark, mark) for mark in flat).replace("\0", "{}")
    return f"{{{shown[0]}}}{shown[1:]}" if shown[:1] in ("[", "*") else shown


def _latex(part: _Part) -> str:
    # A comment ends with its line: nothing in it can become code.
    told = (part.title, part.signature, *part.footnotes, *part.notes)
    comments = "\n".join(f"% {one_line(line, 2000)}" for line in told)
    return "\n\n".join([comments, *(_latex_table(part, sheet) for sheet in part.sheets)])


def _latex_table(part: _Part, sheet: _Sheet) -> str:
    # Rows are in order: a paper needs no numbers before them.
    heads, rows = sheet.heads[sheet.name :], [row[sheet.name :] for row in sheet.rows]
    used = {n for row in rows for cell in row for n in cell.notes}
    told = [line for n, line in enumerate(part.footnotes, start=1) if n in used]
    # What a mark in the table means goes where the table goes; the rest is a comment.
    told += [line for line in part.notes if line == BASELINE_NOTE or line.startswith(("†", "–"))]
    notes = [rf"\par\footnotesize {_tex(one_line(line, 2000))}" for line in told]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{TUNA-CAP. {_tex(sheet.title)} ({_tex(part.made_by)})}}",
            rf"\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}",
            r"\toprule",
            " & ".join(_tex(head) for head in heads) + r" \\",
            r"\midrule",
            *(" & ".join(_tex_cell(cell) for cell in row) + r" \\" for row in rows),
            r"\bottomrule",
            r"\end{tabular}",
            *notes,
            r"\end{table}",
        ]
    )


def _tex_cell(cell: _Cell) -> str:
    wrap = {1: r"\textbf{%s}", 2: r"\underline{%s}"}.get(cell.best, "%s")
    marks = f"$^{{{','.join(map(str, cell.notes))}}}$" if cell.notes else ""
    return _tex(cell.lead) + wrap % _tex(cell.text) + marks + _tex(cell.tail)


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


def _csv(board: Leaderboard) -> str:
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
            row += [getattr(_at(entry, p), measure) for p in _ALL_PLACES for measure in measures]
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
