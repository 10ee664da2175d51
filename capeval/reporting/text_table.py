"""Tables as text, and the three ways to show them: in a terminal, as Markdown, or as LaTeX."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Literal

from rich import box as boxes
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from capeval.reporting.latex import box, breakable, tex

Format = Literal["table", "markdown", "latex"]

# Names are folded down to this where that makes their table fit the terminal.
_NAME = 16


@dataclass
class Sheet:
    """One table as text: what every format shows alike.

    Attributes
    ----------
    rows : cells as in `header`; a row of one cell heads the rows below it
    left : how many columns are words, from the left
    note : how to read it; stands below
    """

    title: str
    header: list[str]
    rows: list[list[str]] = field(default_factory=list)
    left: int = 1
    note: str = ""


def print_sheets(sheets: Sequence[Sheet], console: Console) -> None:
    """Print tables in a terminal. What is wider goes on in a further table; no number is cut."""
    for whole in sheets:
        for sheet in _parts(whole, console):
            console.print(Text(sheet.title, style="bold"))
            console.print(_table(sheet, console), crop=False)
            if sheet.note:
                console.print(Text(sheet.note, style="dim"))
            console.print()


def _table(sheet: Sheet, console: Console) -> Table:
    """Return a table as it stands; of a narrow terminal with less air, and long names folded."""
    table, wide = _laid_out(sheet, console)
    if wide > console.width:
        table, wide = _laid_out(sheet, console, air=0)
    if wide > console.width and (fold := _fold(sheet, wide - console.width)):
        table, _ = _laid_out(sheet, console, air=0, fold=fold)
    return table


def _fold(sheet: Sheet, excess: int) -> int | None:
    """Return the width down to which names are folded, or None where that does not help."""
    names = max(len(row[0]) for row in [sheet.header, *sheet.rows])
    return names - excess if names - excess >= _NAME else None


def _parts(sheet: Sheet, console: Console) -> list[Sheet]:
    """Return a table, or, where it does not fit the terminal, several with the same rows."""
    wide = _laid_out(sheet, console, air=0)[1]
    if wide <= console.width or _fold(sheet, wide - console.width):
        return [sheet]
    widths = [max(len(row[at]) for row in _lines(sheet)) + 1 for at in range(len(sheet.header))]
    names = sum([min(widths[0], _NAME + 1), *widths[1 : sheet.left]])
    groups: list[list[int]] = [[]]
    room = console.width + 1 - names
    for at in range(sheet.left, len(sheet.header)):
        if groups[-1] and sum(widths[n] for n in groups[-1]) + widths[at] > room:
            groups.append([])
        groups[-1].append(at)
    parts = []
    for number, group in enumerate(groups):
        columns = [*range(sheet.left), *group]
        parts.append(
            Sheet(
                sheet.title + (" (continued)" if number else ""),
                [sheet.header[at] for at in columns],
                [[row[at] for at in columns] if len(row) > 1 else row for row in sheet.rows],
                sheet.left,
                sheet.note if number == len(groups) - 1 else "",
            )
        )
    return parts


def _lines(sheet: Sheet) -> list[list[str]]:
    return [sheet.header, *(row for row in sheet.rows if len(row) > 1)]


def _laid_out(
    sheet: Sheet, console: Console, *, air: int = 1, fold: int | None = None
) -> tuple[Table, int]:
    """Return a table and its width."""
    table = Table(
        box=boxes.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, air, 0, 0),
    )
    for at, heading in enumerate(sheet.header):
        justify: Literal["left", "right"] = "left" if at < sheet.left else "right"
        table.add_column(Text(heading), justify=justify, no_wrap=True)
    for at, (name, *cells) in enumerate(sheet.rows):
        if not cells and at:
            table.add_section()
        lines = wrap(name, fold) if fold else [name]
        first = Text("\n".join(lines), style="" if cells else "italic")
        table.add_row(first, *map(Text, cells))
    # As wide as it is: what is wider than the terminal is not cut.
    table.width = Console(width=100_000, file=console.file, record=False).measure(table).maximum
    return table, table.width


def rendered(sheets: Sequence[Sheet], notes: Sequence[str], form: Format) -> str:
    """Return tables and notes as Markdown or LaTeX."""
    if form == "latex":
        parts = [_latex(sheet) for sheet in sheets]
        last = "\n".join(f"% {line}" for line in notes)
    else:
        parts = [_markdown(sheet) for sheet in sheets]
        last = "\n".join(f"- {_md(line)}" for line in notes)
    return "\n\n".join([*parts, last] if notes else parts)


def _markdown(sheet: Sheet) -> str:
    width = len(sheet.header)
    marks = ["---"] * sheet.left + ["---:"] * (width - sheet.left)
    lines = [[_md(cell) for cell in sheet.header], marks]
    for row in sheet.rows:
        cells = [_md(cell) for cell in row]
        lines.append([f"*{cells[0]}*"] + [""] * (width - 1) if len(row) == 1 else cells)
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    note = f"\n\n{_md(sheet.note)}" if sheet.note else ""
    return f"**{_md(sheet.title)}**\n\n{table}{note}"


def _md(text: str) -> str:
    for mark in "\\|*_`<[":
        text = text.replace(mark, "\\" + mark)
    return text


def _tex_cell(text: str) -> str:
    return re.sub(r"(?<![\w.)-])-(?=\d)", "$-$", tex(text))


# Digits that fit the text of a 10-point article (345 points) in a size, and how many of them the
# air between two columns takes.
_SIZES = ((r"\normalsize", 69, 2.4), (r"\footnotesize", 81, 1.5))
_SMALLEST = r"\scriptsize", 86, 1.5
_AIR = r"\setlength{\tabcolsep}{3pt}"


@dataclass(frozen=True)
class _Fit:
    """How a table is made to fit: in which size of type, and in which columns words are broken
    after how many digits' width.
    """

    size: str
    limits: dict[int, int]


def _fitted(sheet: Sheet) -> _Fit:
    columns = zip(*_lines(sheet), strict=True)
    widths = [max(cell_len(line) for cell in column for line in cell.split("\n"))
              for column in columns]  # fmt: skip
    for size, room, air in _SIZES:
        if sum(widths) + air * len(widths) <= room:
            return _Fit(size, {})
    size, room, air = _SMALLEST
    limits = {}
    # The longest words first; all that is left of the text's width is theirs.
    for at in sorted(range(sheet.left), key=lambda at: -widths[at]):
        excess = sum(widths) + air * len(widths) - room
        if excess <= 0 or widths[at] <= _NAME:
            break
        widths[at] = max(_NAME, int(widths[at] - excess))
        limits[at] = widths[at]
    return _Fit(size, limits)


def _latex(sheet: Sheet) -> str:
    width = len(sheet.header)
    columns = "l" * sheet.left + "r" * (width - sheet.left)
    fit = _fitted(sheet)

    def shown(at: int, text: str) -> str:
        lines = text.split("\n")
        limit = fit.limits.get(at, math.inf)
        if max(map(cell_len, lines)) > limit:
            return box(list(map(breakable, lines)), round(limit / _SMALLEST[1], 2))
        if len(lines) == 1:
            return _tex_cell(text)
        return r"\begin{tabular}[t]{@{}l@{}}" + r" \\ ".join(map(tex, lines)) + r"\end{tabular}"

    rows = []
    for number, row in enumerate(sheet.rows):
        if len(row) > 1:
            rows.append(" & ".join(shown(at, text) for at, text in enumerate(row)) + r" \\")
            continue
        if number:
            rows.append(r"\addlinespace")
        rows.append(rf"\multicolumn{{{width}}}{{l}}{{\textit{{{tex(row[0])}}}}} \\")
    note = [r"\par\smallskip", rf"{{\footnotesize {tex(sheet.note)}}}"] if sheet.note else []
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{tex(sheet.title)}}}",
            *(() if fit.size == _SIZES[0][0] else (fit.size, _AIR)),
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            " & ".join(map(_tex_cell, sheet.header)) + r" \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            *note,
            r"\end{table}",
        ]
    )
