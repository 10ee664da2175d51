"""Pages of tables in a terminal, and as text, Markdown, LaTeX, CSV and JSON.

Whatever a cell holds, it stays text in each format, and no number is cut.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from textwrap import wrap
from typing import Any, Literal

from rich.box import Box
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text

from capeval.files.jsonl import dumps
from capeval.files.tables import escape
from capeval.show.table import Page, Row, Shown, Table
from capeval.text import one_line

Format = Literal["table", "markdown", "latex", "csv", "json"]


def rendered(pages: Sequence[Page], form: Format, *, headline: str = "") -> str:
    """Return pages of tables as text in a format; the headline is for a terminal alone."""
    match form:
        case "table":
            return as_text(pages, headline=headline)
        case "markdown":
            return "\n\n".join(map(_markdown, pages))
        case "latex":
            return "\n\n".join(map(_latex, pages))
        case "csv":
            return csv_text(records_of(pages))
        case "json":
            return dumps(records_of(pages), indent=1)


def records_of(pages: Sequence[Page]) -> list[dict[str, Any]]:
    """Return a flat record for each row; of several tables, each record names its own."""
    tables = [table for page in pages for table in page.tables]
    several = len({table.title for table in tables}) > 1
    return [
        {"table": table.title, **record} if several else record
        for table in tables
        for record in table.records()
    ]


def csv_text(found: Sequence[Mapping[str, Any]]) -> str:
    """Return records as CSV, with a column for every key that any of them has.

    Numbers have full precision, None is empty, and no text is a formula.

    >>> csv_text([{"run": "=1+1", "f1": 0.5}, {"run": "b", "f1": None}])
    "run,f1\\n'=1+1,0.5\\nb,"
    """
    keys = dict.fromkeys(key for record in found for key in record)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(_csv_cell, keys))
    writer.writerows([_csv_cell(record.get(key)) for key in keys] for record in found)
    return out.getvalue().rstrip("\n")


def _csv_cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    return escape(one_line(str(value), LONGEST))


# ---- Terminal --------------------------------------------------------------------------------

LONGEST = 2000
"""A longer note or signature is cut: nobody reads more, and it may come from a hostile file."""

_PLACES = {0: "", 1: "bold", 2: "underline"}

# A narrower terminal wraps sentences itself.
_LEAST_SENTENCE = 40

# Words are not broken into lines narrower than this: shorter ones are hard to read.
_LEAST_WORDS = 16

# A rule below the heading, and no other line.
_RULE = Box("\n".join(["    ", "    ", "────", *["    "] * 5]) + "\n")


def print_pages(pages: Sequence[Page], console: Console, *, headline: str = "") -> None:
    """Print a headline, then tables with their notes and signatures."""
    if headline:
        print_line(headline, console)
    for page in pages:
        if headline or page is not pages[0]:
            console.print()
        if page.title:
            print_line(page.title, console, style="bold")
        if page.about:
            print_sentence(page.about, console, style="dim")
        between = bool(page.title or page.about)
        for table in page.tables:
            if between:
                console.print()
            print_table(table, console)
            between = True
        below = [*page.remarks.values(), *page.explained(page.tables), *page.notes]
        if between and (below or page.warnings or page.signatures):
            console.print()
        for line in below:
            print_sentence(line, console)
        for line in page.warnings:
            print_sentence(line, console, style="yellow")
        for line in page.signatures:
            print_line(f"  {one_line(line, 600)}", console, style="dim")


def print_line(text: str, console: Console, *, style: str = "") -> None:
    """Print a line that may be copied: the terminal wraps it, and nothing is cut."""
    console.print(Text(text, style=style), soft_wrap=True)


def print_fields(fields: Mapping[str, object], console: Console) -> None:
    """Print a line for each field that is not None."""
    for name, value in fields.items():
        if value is not None:
            print_line(one_line(f"{name}: {value}", LONGEST), console)


def print_sentence(text: str, console: Console, *, style: str = "") -> None:
    """Print text that is to be read, wrapped at words."""
    room = max(console.width, _LEAST_SENTENCE)
    lines = wrap(one_line(text, LONGEST), room, break_long_words=False, break_on_hyphens=False)
    print_line("\n".join(lines), console, style=style)


def print_table(table: Table, console: Console) -> None:
    """Print a table; the terminal wraps the lines of one that is too wide for it."""
    if table.title:
        print_sentence(table.title, console, style="bold")
    made = _empty(table, console.width, head=any(table.header))
    for number, row in enumerate(table.rows):
        if len(row) > 1 or len(table.columns) == 1:
            made.add_row(*map(_text, table.shown(row)))
            continue
        # rich has no cell over all columns: a heading over rows stands between two tables.
        if made.show_header or made.rows:
            _print(made, console)
        if number:
            console.print()
        print_sentence(str(row[0]), console, style="italic")
        made = _empty(table, console.width, head=False)
    _print(made, console)
    if table.note:
        print_sentence(table.note, console, style="dim")


def _empty(table: Table, room: int, *, head: bool) -> RichTable:
    """Return a table of rich without rows, whose columns are as wide as all rows need."""
    gap = 2 if _total(natural_widths(table), 2) <= room else 1
    widths = _widths(table, room, gap)
    made = RichTable(
        box=_RULE,
        show_edge=False,
        pad_edge=False,
        padding=(0, gap - 1, 0, 0),
        show_header=head,
        # rich would cut numbers to make a table as narrow as the terminal.
        width=_total(widths, gap),
    )
    two = any(column.under for column in table.columns)
    for column, width in zip(table.columns, widths, strict=True):
        heading = Text(f"{column.heading}\n{column.under}" if two else column.heading)
        justify: JustifyMethod = "left" if column.words else "right"
        made.add_column(heading, justify=justify, overflow="fold", width=width)
    return made


def _print(made: RichTable, console: Console) -> None:
    """Print a table of rich without the spaces with which it fills its lines."""
    room = console.options.update_width(made.width or console.width)
    for segments in console.render_lines(made, room):
        line = Text.assemble(*((one.text, one.style or "") for one in segments))
        line.rstrip()
        console.print(line, soft_wrap=True)


def _total(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _text(cell: Shown) -> Text:
    style = f"{cell.style} {_PLACES[cell.place]}".strip()
    return Text.assemble(cell.before, (cell.text, style), cell.after)


def natural_widths(table: Table) -> list[int]:
    """Return how wide each column is where nothing is broken."""
    rows = [table.shown(row) for row in table.rows if len(row) > 1 or len(table.columns) == 1]
    return [
        max(
            cell_len(line)
            for text in (column.heading, column.under, *(str(row[at]) for row in rows))
            for line in text.split("\n")
        )
        for at, column in enumerate(table.columns)
    ]


def _widths(table: Table, room: int, gap: int) -> list[int]:
    """Return how wide columns are: the widest words are broken to fit, numbers are not."""
    widths = natural_widths(table)
    words = [at for at, column in enumerate(table.columns) if column.words]
    for at in sorted(words, key=lambda at: -widths[at]):
        excess = max(_total(widths, gap) - room, 0)
        widths[at] = min(widths[at], max(_LEAST_WORDS, widths[at] - excess))
    return widths


def one_screen(pages: Sequence[Page], *, lines: int = 40) -> list[Page]:
    """Return pages with as many rows in each table as fill a screen of so many lines.

    A table keeps at least five rows, and needs about four lines for its title, head and notes.
    """
    tables = sum(len(page.tables) for page in pages)
    return [page.shortened(max(5, lines // max(tables, 1) - 4)) for page in pages]


def as_text(pages: Sequence[Page], *, headline: str = "", width: int = 120) -> str:
    """Return what a terminal of a width would show, without colours."""
    return text_of(lambda console: print_pages(pages, console, headline=headline), width=width)


def text_of(show: Callable[[Console], None], *, width: int) -> str:
    """Return what a function prints on a console of a width, without colours."""
    out = io.StringIO()
    show(Console(file=out, width=width, color_system=None))
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().split("\n"))


# ---- Markdown --------------------------------------------------------------------------------


def _markdown(page: Page) -> str:
    blocks = [f"### {_md(page.title)}"] if page.title else []
    blocks += [_md(page.about)] if page.title and page.about else []
    for table in page.tables:
        heads = [
            _md(column.heading) + (f" (n {_md(column.under)})" if column.under and at else "")
            for at, column in enumerate(table.columns)
        ]
        marks = ["---" if column.words else "---:" for column in table.columns]
        lines = [heads, marks, *(_md_row(table, row) for row in table.rows)]
        blocks.append(f"**{_md(table.title)}**")
        blocks.append("\n".join("| " + " | ".join(line) + " |" for line in lines))
        blocks += [_md(table.note)] if table.note else []
    legend = page.explained(page.tables)
    sentences = (*page.remarks.values(), *legend, *page.notes, *page.warnings)
    points = [_md(one_line(line, LONGEST)) for line in sentences]
    points += [_md_code(one_line(line, LONGEST)) for line in page.signatures]
    if points:
        blocks.append("\n".join(f"- {line}" for line in points))
    return "\n\n".join(blocks)


def _md_row(table: Table, row: Row) -> list[str]:
    cells = table.shown(row)
    if len(cells) < len(table.columns):
        return [f"*{_md(str(cells[0]))}*", *[""] * (len(table.columns) - 1)]
    return [
        _md(one.before)
        + (f"**{_md(one.text)}**" if one.place == 1 else _md(one.text))
        + _md(one.after)
        for one in cells
    ]


def _md(text: str) -> str:
    # Besides Markdown's own marks: & begins an entity, @ names a person, an address is a link.
    text = text.replace("\n", " ").replace("&", "&amp;")
    for mark in "\\|*_`<>[]~$":
        text = text.replace(mark, "\\" + mark)
    return text.replace("@", "&#64;").replace("://", ":&#47;/").replace("www.", "www&#46;")


def _md_code(text: str) -> str:
    # A run of backticks in the text cannot close a longer one around it.
    longest = max(map(len, re.findall("`+", text)), default=0)
    pad = " " if longest else ""
    return f"{'`' * (longest + 1)}{pad}{text}{pad}{'`' * (longest + 1)}"


# ---- LaTeX -----------------------------------------------------------------------------------

# Characters that fit the text of a ten-point article (345 points), two for the space of a column.
_TEXT_WIDTH = 69
# A column of longer words is a paragraph of half the text.
_LONGEST_WORDS = 60
# Scales a table down to the width of the text, and never up.
_NO_WIDER = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
_TEX_PLACES = {0: "%s", 1: r"\textbf{%s}", 2: r"\underline{%s}"}

_TEX = {
    "\\": r"\textbackslash{}",
    "–": "--",
    "−": "$-$",
    "†": r"\dag{}",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "→": r"$\rightarrow$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{mark: "\\" + mark for mark in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "`": r"\textasciigrave{}",
}


def tex(text: str) -> str:
    r"""Return text with all of LaTeX's marks escaped.

    >>> print(tex("<=2 & [a_b]"), tex("[–]"))
    $\leq$2 \& [a\_b] {[}--]
    """
    # Two hyphens would become one dash, and after \\ a bracket or a star belongs to it.
    flat = text.replace("<=", "≤").replace(">=", "≥").replace("--", "-\0-").replace("--", "-\0-")
    shown = "".join(_TEX.get(mark, mark) for mark in flat).replace("\0", "{}")
    return f"{{{shown[0]}}}{shown[1:]}" if shown[:1] in ("[", "*") else shown


def _latex(page: Page) -> str:
    lines = [page.title, page.about, *page.notes, *page.signatures]
    # A comment ends with its line: nothing in it can become code.
    comments = "\n".join(f"% {one_line(line, LONGEST)}" for line in lines if line)
    return "\n\n".join(filter(None, [comments, *(_latex_table(one, page) for one in page.tables)]))


def _latex_table(table: Table, page: Page) -> str:
    """Return a table; one that may be wider than the text is scaled down (by graphicx)."""
    shown = [table.shown(row) for row in table.rows]
    texts = [
        [column.heading, column.under, *(str(row[at]) for row in shown if len(row) > 1)]
        for at, column in enumerate(table.columns)
    ]
    widths = [max(map(cell_len, "\n".join(of).split("\n"))) for of in texts]
    marks = [
        "r" if not column.words else "l" if width <= _LONGEST_WORDS else r"p{0.5\linewidth}"
        for column, width in zip(table.columns, widths, strict=True)
    ]
    heads = [table.header, [column.under for column in table.columns]]
    lines = []
    for number, row in enumerate(shown):
        if len(row) == 1 < len(marks):
            over = rf"\multicolumn{{{len(marks)}}}{{l}}{{\textit{{{tex(str(row[0]))}}}}}"
            lines.append((r"\addlinespace" + "\n" if number else "") + over + r" \\")
        else:
            lines.append(" & ".join(map(_tex_cell, row, marks)) + r" \\")
    wide = sum(widths) + 2 * len(widths) > _TEXT_WIDTH
    about = f" ({_tex_breakable(one_line(page.about, LONGEST))})" if page.about else ""
    below = (table.note, *page.explained([table]), *page.remarks.values(), *page.warnings)
    notes = [tex(one_line(line.removesuffix("."), LONGEST)) + r".\par" for line in below if line]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{tex(table.title)}{about}}}",
            *([_NO_WIDER] if wide else []),
            rf"\begin{{tabular}}{{{''.join(marks)}}}",
            r"\toprule",
            *(" & ".join(map(_tex_number, head)) + r" \\" for head in heads if any(head)),
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}" + ("}" if wide else ""),
            *((r"\par\smallskip", r"\raggedright\footnotesize", *notes) if notes else ()),
            r"\end{table}",
        ]
    )


def _tex_cell(cell: Shown, mark: str) -> str:
    lines = str(cell).split("\n")
    if len(lines) > 1:
        return (
            r" \newline ".join(map(tex, lines))
            if mark.startswith("p")
            else r"\begin{tabular}[t]{@{}l@{}}" + r" \\ ".join(map(tex, lines)) + r"\end{tabular}"
        )
    if not cell.place:
        return _tex_number(str(cell))
    return tex(cell.before) + _TEX_PLACES[cell.place] % tex(cell.text) + tex(cell.after)


def _tex_number(text: str) -> str:
    # A minus sign, where a hyphen stands before a number.
    return re.sub(r"(?<![\w.)-])-(?=\d)", "$-$", tex(text))


def _tex_breakable(text: str) -> str:
    """Return text that TeX may also break after underscores, slashes and @."""
    pieces = re.findall(r"[^_/@]*[_/@]*", text)
    return r"\allowbreak{}".join(tex(piece) for piece in pieces if piece)
