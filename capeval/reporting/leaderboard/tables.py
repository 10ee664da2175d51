"""The leaderboard: in a terminal, as Markdown, LaTeX, CSV or JSON."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Literal

from rich import box as boxes
from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.table import Table
from rich.text import Text

from capeval.files.jsonl import dumps
from capeval.reporting.latex import box, breakable, tex
from capeval.reporting.leaderboard.board import Leaderboard
from capeval.reporting.leaderboard.content import By, Cell, Part, Sheet, part_of
from capeval.reporting.leaderboard.data import leaderboard_csv, leaderboard_json
from capeval.reporting.score_tables import BASELINE_NOTE
from capeval.text import one_line

Format = Literal["table", "markdown", "latex", "csv", "json"]

# What fits the text of a 10-point article in footnotesize, as `_tex_width` measures it.
_WIDE = 84
# A longer name is broken over the lines of a LaTeX table.
_LONG_NAME = 22
# A name without any place to break it is cut into pieces of so many columns.
_LONGEST_PIECE = 12
_PIECE = re.compile(r"[^\s/_-]*[/_-]+\s*|[^\s/_-]+\s*")
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def print_leaderboard(board: Leaderboard, console: Console, *, by: By = "overall") -> None:
    """Print the sections as tables of the terminal's width, each with its signature and notes."""
    for number, section in enumerate(board.sections, start=1):
        part = part_of(number, section, by, several=len(board.sections) > 1)
        console.print(Text(one_line(part.title), style="bold"))
        # A signature is to be copied; what stands in its place is to be read.
        console.print(
            Text(part.signature, style="dim"),
            soft_wrap=part.signed,
            width=None if part.signed else max(console.width, 40),
        )
        console.print()
        for sheet in part.sheets:
            _print_sheet(sheet, console)
        for line in (*_footnotes(part), *part.notes):
            style = "yellow" if line == BASELINE_NOTE else ""
            # At words: a note is to be read, and never copied into another program.
            console.print(Text(one_line(line, 2000), style=style), width=max(console.width, 40))
        if part.footnotes or part.notes:
            console.print()


def _footnotes(part: Part) -> list[str]:
    return [f"{_raised((n,))} {line}" for n, line in enumerate(part.footnotes, start=1)]


def _raised(notes: Sequence[int]) -> str:
    return ",".join(map(str, notes)).translate(_RAISED)


def _print_sheet(sheet: Sheet, console: Console) -> None:
    """Print a table; where it does not fit, with less air, and then with names that are broken.

    Numbers are never cut.
    """
    table = _table(sheet)
    if _width(table) > console.width:
        table = _table(sheet, air=0)
    if _width(table) > console.width:
        names = [row[sheet.name].text for row in sheet.rows]
        room = max(map(cell_len, names)) - (_width(table) - console.width)
        table = _table(sheet, max(room, _least(names)), air=0)
    table.width = max(1, _width(table))
    # Not the table's own title, which a narrow table would break.
    console.print(Text(sheet.title, style="bold"), soft_wrap=True)
    console.print(table, crop=False)
    if sheet.note:
        console.print(Text(sheet.note, style="dim"), soft_wrap=True)
    console.print()


def _least(names: Sequence[str]) -> int:
    """Return the width that names need to be broken at hyphens and blanks alone, up to a limit."""
    longest = max(cell_len(piece.rstrip()) for name in names for piece in _PIECE.findall(name))
    return min(longest, _LONGEST_PIECE)


def _broken(name: str, width: int) -> str:
    """Return a name in lines, broken after hyphens, underscores, slashes and blanks.

    >>> _broken("LLaVA-Video-7B", 8)
    'LLaVA-\\nVideo-7B'
    """
    lines = [""]
    for piece in _PIECE.findall(name):
        if cell_len(lines[-1] + piece.rstrip()) <= width:
            lines[-1] += piece
        else:
            lines += chop_cells(piece, width) if cell_len(piece.rstrip()) > width else [piece]
    return "\n".join(line.rstrip() for line in lines if line)


def _width(table: Table) -> int:
    return Console(width=100_000, file=io.StringIO()).measure(table).maximum


def _table(sheet: Sheet, name_width: int | None = None, *, air: int = 1) -> Table:
    table = Table(
        box=boxes.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, air, 0, 0),
    )
    heads = ["\n".join(lines) for lines in zip(*_heads(sheet), strict=True)]
    for at, head in enumerate(heads):
        if at == sheet.name:
            table.add_column(Text(head), no_wrap=True)
        else:
            table.add_column(Text(head), justify="right", no_wrap=True)
    for row in sheet.rows:
        cells = [_rich(cell) for cell in row]
        if name_width is not None:
            cells[sheet.name] = Text(_broken(row[sheet.name].text, name_width))
        table.add_row(*cells)
    return table


def _heads(sheet: Sheet) -> list[tuple[str, ...]]:
    """Return the heading of a table, a line or two."""
    return [sheet.heads, sheet.counts] if sheet.counts else [sheet.heads]


def _rich(cell: Cell) -> Text:
    style = {1: "bold", 2: "underline"}.get(cell.best, "")
    return Text.assemble(cell.lead, (cell.text, style), _raised(cell.notes), cell.tail)


def rendered_leaderboard(board: Leaderboard, form: Format, *, by: By = "overall") -> str:
    """Return the leaderboard as text; CSV and JSON hold every number, whatever `by` is."""
    if form == "table":
        out = io.StringIO()
        print_leaderboard(board, Console(file=out, width=120, color_system=None), by=by)
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).rstrip("\n")
    if form == "csv":
        return leaderboard_csv(board)
    if form == "json":
        return dumps(leaderboard_json(board), indent=1)
    parts = [
        part_of(
            number,
            section,
            by,
            several=len(board.sections) > 1,
            narrow=form == "latex",
        )
        for number, section in enumerate(board.sections, start=1)
    ]
    return "\n\n".join((_latex if form == "latex" else _markdown)(part) for part in parts)


def _markdown(part: Part) -> str:
    blocks = [
        f"### {_md(part.title)}",
        _code(part.signature) if part.signed else _md(part.signature),
    ]
    for sheet in part.sheets:
        marks = ["---" if at == sheet.name else "---:" for at in range(len(sheet.heads))]
        rows = [[_md_cell(cell) for cell in row] for row in sheet.rows]
        # A table of Markdown has one line of headings.
        counts = [f" (n {n})" if at != sheet.name else "" for at, n in enumerate(sheet.counts)]
        heads = [_md(head) + (counts[at] if counts else "") for at, head in enumerate(sheet.heads)]
        lines = [heads, marks, *rows]
        blocks.append(f"**{_md(sheet.title)}**")
        blocks.append("\n".join("| " + " | ".join(line) + " |" for line in lines))
        blocks += [_md(sheet.note)] if sheet.note else []
    told = [*_footnotes(part), *part.notes]
    if told:
        blocks.append("\n".join(f"- {_md(one_line(line, 2000))}" for line in told))
    return "\n\n".join(blocks)


def _md_cell(cell: Cell) -> str:
    text = _md(cell.text)
    marked = (f"**{text}**" if cell.best == 1 else text) + _raised(cell.notes)
    return _md(cell.lead) + marked + _md(cell.tail)


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


def _latex(part: Part) -> str:
    # A comment ends with its line: nothing in it can become code.
    told = (part.title, part.signature, *_footnotes(part), *part.notes)
    comments = "\n".join(f"% {one_line(line, 2000)}" for line in told)
    return "\n\n".join([comments, *(_latex_table(part, sheet) for sheet in part.sheets)])


def _latex_table(part: Part, sheet: Sheet) -> str:
    # Rows are in order: a paper needs no numbers before them.
    heads = [line[sheet.name :] for line in _heads(sheet)]
    rows = [row[sheet.name :] for row in sheet.rows]
    wide = _tex_width(heads, rows) > _WIDE
    used = {n for row in rows for cell in row for n in cell.notes}
    told = [
        f"{_tex_raised((n,))} {tex(one_line(line, 2000))}"
        for n, line in enumerate(part.footnotes, start=1)
        if n in used
    ]
    told += [tex(sheet.note)] if sheet.note else []
    # What a mark in the table means goes where the table goes; the rest is a comment.
    told += [
        tex(one_line(line, 2000))
        for line in part.notes
        if line == BASELINE_NOTE or line.startswith(("†", "Not ranked"))
    ]
    notes = [r"\par\medskip", r"\raggedright", *(rf"{line}\par" for line in told)] if told else []
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{TUNA-CAP. {tex(sheet.title)} ({breakable(part.made_by)})}}",
            r"\scriptsize" if wide else r"\footnotesize",
            r"\setlength{\tabcolsep}{3pt}",
            rf"\begin{{tabular}}{{l{'r' * (len(heads[0]) - 1)}}}",
            r"\toprule",
            *(" & ".join(map(tex, line)) + r" \\" for line in heads),
            r"\midrule",
            *(_tex_row(row, 0.2 if wide else 0.26) for row in rows),
            r"\bottomrule",
            r"\end{tabular}",
            *notes,
            r"\end{table}",
        ]
    )


def _tex_width(heads: Sequence[Sequence[str]], rows: Sequence[Sequence[Cell]]) -> float:
    """Return about how many digits wide a table is."""
    texts = [[cell.lead + cell.text + cell.tail for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*heads, *texts, strict=True)]
    return min(widths[0], _LONG_NAME) + sum(widths[1:]) + 1.5 * len(widths)


def _tex_row(row: Sequence[Cell], share: float) -> str:
    name, *numbers = row
    first = tex(name.text)
    if cell_len(name.text) > _LONG_NAME:
        first = box([breakable(name.text)], share)
    return " & ".join([first, *map(_tex_cell, numbers)]) + r" \\"


def _tex_raised(notes: Sequence[int]) -> str:
    return f"$^{{{','.join(map(str, notes))}}}$" if notes else ""


def _tex_cell(cell: Cell) -> str:
    wrap = {1: r"\textbf{%s}", 2: r"\underline{%s}"}.get(cell.best, "%s")
    return tex(cell.lead) + wrap % tex(cell.text) + _tex_raised(cell.notes) + tex(cell.tail)
