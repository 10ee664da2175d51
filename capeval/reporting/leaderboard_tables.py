"""The leaderboard: in a terminal, as Markdown, LaTeX, CSV or JSON."""

from __future__ import annotations

import io
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from capeval.errors import one_line
from capeval.evaluation.leaderboard import Leaderboard
from capeval.files.jsonl import dumps
from capeval.reporting.leaderboard_data import leaderboard_csv, leaderboard_json
from capeval.reporting.leaderboard_sheets import By, Cell, Part, Sheet, part_of
from capeval.reporting.tables import BASELINE_NOTE

__all__ = ["By", "Format", "print_leaderboard", "rendered_leaderboard"]

Format = Literal["table", "markdown", "latex", "csv", "json"]

_LEAST_NAME = 8
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def print_leaderboard(board: Leaderboard, console: Console, *, by: By = "overall") -> None:
    """Print the sections as tables of the terminal's width, each with its signature and notes."""
    for number, section in enumerate(board.sections, start=1):
        part = part_of(number, section, by, several=len(board.sections) > 1)
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


def _print_sheet(sheet: Sheet, console: Console) -> None:
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


def _table(sheet: Sheet, name_width: int | None) -> Table:
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


def _rich(cell: Cell) -> Text:
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
        return leaderboard_csv(board)
    if form == "json":
        return dumps(leaderboard_json(board), indent=1)
    parts = [
        part_of(number, section, by, several=len(board.sections) > 1)
        for number, section in enumerate(board.sections, start=1)
    ]
    return "\n\n".join((_latex if form == "latex" else _markdown)(part) for part in parts)


def _markdown(part: Part) -> str:
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


def _md_cell(cell: Cell) -> str:
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


def _latex(part: Part) -> str:
    # A comment ends with its line: nothing in it can become code.
    told = (part.title, part.signature, *part.footnotes, *part.notes)
    comments = "\n".join(f"% {one_line(line, 2000)}" for line in told)
    return "\n\n".join([comments, *(_latex_table(part, sheet) for sheet in part.sheets)])


def _latex_table(part: Part, sheet: Sheet) -> str:
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


def _tex_cell(cell: Cell) -> str:
    wrap = {1: r"\textbf{%s}", 2: r"\underline{%s}"}.get(cell.best, "%s")
    marks = f"$^{{{','.join(map(str, cell.notes))}}}$" if cell.notes else ""
    return _tex(cell.lead) + wrap % _tex(cell.text) + marks + _tex(cell.tail)
