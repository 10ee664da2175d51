"""Tables as Markdown, LaTeX, CSV and JSON. Whatever a cell holds, it stays text in each of them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from rich.cells import cell_len

from capeval.errors import UsageError
from capeval.files import csv_formulas
from capeval.files.jsonl import dumps
from capeval.reporting.numbers import plain_number
from capeval.reporting.table import Cell, Page, Row, Table, raised
from capeval.reporting.terminal import as_text
from capeval.text import one_line

Format = Literal["table", "markdown", "latex", "csv", "json"]

FORM_OF_SUFFIX: dict[str, Format] = {
    ".csv": "csv",
    ".json": "json",
    ".md": "markdown",
    ".tex": "latex",
    ".txt": "table",
}

# A note or signature that is longer is cut: nobody reads more, and it may come from a hostile file.
_LONGEST = 2000


def form_for(path: Path, form: Format) -> Format:
    """Return the format in which a file is written: by its suffix, or the one that was chosen.

    Raises
    ------
    UsageError
        Another format than the suffix's was chosen ("table" is the default, and no choice).
    """
    of_suffix = FORM_OF_SUFFIX.get(path.suffix.lower(), form)
    if form not in ("table", of_suffix):
        raise UsageError(
            f"--out: {path} has the suffix of another format than --format {form}; choose another "
            "name, or omit --format"
        )
    return of_suffix


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
            tables = [table for page in pages for table in page.tables]
            return "\n\n".join(csv_text(table.header, table.rows, table.title) for table in tables)
        case "json":
            return dumps([_json(table) for page in pages for table in page.tables], indent=1)


# ---- CSV and JSON ----------------------------------------------------------------------------


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> str:
    """Return rows as CSV: numbers at full precision, None empty, and no text that is a formula.

    >>> csv_text(["run", "f1"], [["=1+1", 0.5], ["b", None]])
    "run,f1\\n'=1+1,0.5\\nb,"
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in ([title] if title else [], header, *rows):
        if row:
            writer.writerow([_csv_cell(value) for value in row])
    return out.getvalue().rstrip("\n")


def _csv_cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    return csv_formulas.escape(one_line(str(value), _LONGEST))


def _json(table: Table) -> dict[str, Any]:
    return {
        "title": table.title,
        "columns": table.header,
        "rows": [[str(cell) for cell in row] for row in table.rows],
        "note": table.note,
    }


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
        lines = [heads, marks, *(_md_row(row, len(heads)) for row in table.rows)]
        blocks.append(f"**{_md(table.title)}**")
        blocks.append("\n".join("| " + " | ".join(line) + " |" for line in lines))
        blocks += [_md(table.note)] if table.note else []
    footnotes = [f"{raised((n,))} {line}" for n, line in enumerate(page.footnotes, start=1)]
    points = [_md(one_line(s, _LONGEST)) for s in (*footnotes, *page.notes, *page.warnings)]
    points += [_md_code(one_line(line, _LONGEST)) for line in page.signatures]
    if points:
        blocks.append("\n".join(f"- {line}" for line in points))
    return "\n\n".join(blocks)


def _md_row(row: Row, width: int) -> list[str]:
    if len(row) == 1:
        return [f"*{_md_cell(row[0])}*", *[""] * (width - 1)]
    return [_md_cell(cell) for cell in row]


def _md_cell(cell: Cell | str) -> str:
    if isinstance(cell, str):
        return _md(cell)
    text = f"**{_md(cell.text)}**" if cell.place == 1 else _md(cell.text)
    return _md(cell.before) + text + raised(cell.notes) + _md(cell.after)


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

# Digits that fit the text of a 10-point article (345 points) in a size of type, and how many of
# them the space between two columns takes.
_SIZES = (
    (r"\normalsize", 69, 2.4),
    (r"\footnotesize", 81, 1.5),
    (r"\scriptsize", 86, 1.5),
)
_NARROW_SPACE = r"\setlength{\tabcolsep}{3pt}"

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
    footnotes = [f"{n}: {line}" for n, line in enumerate(page.footnotes, start=1)]
    lines = [page.title, page.about, *footnotes, *page.notes, *page.signatures]
    # A comment ends with its line: nothing in it can become code.
    comments = "\n".join(f"% {one_line(line, _LONGEST)}" for line in lines if line)
    _, room, gap = _SIZES[-1]
    parts = [part for table in page.tables for part in table.split(room - gap, gap)]
    return "\n\n".join(filter(None, [comments, *(_latex_table(part, page) for part in parts)]))


def _latex_table(table: Table, page: Page) -> str:
    size, widths, share = _latex_size(table)

    def shown(at: int, cell: Cell | str) -> str:
        lines = str(cell).split("\n")
        if max(map(cell_len, lines)) > widths[at]:
            text = r"\newline ".join(map(_tex_breakable, lines))
            return (
                rf"\parbox[t]{{{plain_number(round(widths[at] * share, 2))}\linewidth}}"
                rf"{{\raggedright\strut {text}\strut}}"
            )
        if len(lines) > 1:
            return r"\begin{tabular}[t]{@{}l@{}}" + r" \\ ".join(map(tex, lines)) + r"\end{tabular}"
        return _tex_cell(cell)

    heads = [table.header, [column.under for column in table.columns]]
    rows = [
        [shown(at, cell) for at, cell in enumerate(row)]
        if len(row) > 1
        else [rf"\multicolumn{{{len(widths)}}}{{l}}{{\textit{{{tex(str(row[0]))}}}}}"]
        for row in table.rows
    ]
    spaced = [
        (r"\addlinespace" + "\n" if len(row) == 1 and number else "") + " & ".join(row) + r" \\"
        for number, row in enumerate(rows)
    ]
    about = f" ({_tex_breakable(one_line(page.about, _LONGEST))})" if page.about else ""
    notes = [line + r"\par" for line in _tex_notes(table, page)]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{tex(table.title)}{about}}}",
            *(() if size == _SIZES[0][0] else (size, _NARROW_SPACE)),
            rf"\begin{{tabular}}{{{''.join('l' if c.words else 'r' for c in table.columns)}}}",
            r"\toprule",
            *(" & ".join(map(_tex_cell, head)) + r" \\" for head in heads if any(head)),
            r"\midrule",
            *spaced,
            r"\bottomrule",
            r"\end{tabular}",
            *((r"\par\smallskip", r"\raggedright\footnotesize", *notes) if notes else ()),
            r"\end{table}",
        ]
    )


def _latex_size(table: Table) -> tuple[str, list[int], float]:
    """Return the size of type, the widths of the columns, and the share of the text of a digit."""
    natural = table.widths()
    for size, room, gap in _SIZES:
        if sum(natural) + gap * len(natural) <= room:
            return size, natural, 1 / room
    size, room, gap = _SIZES[-1]
    return size, table.fit(room - gap, gap) or natural, 1 / room


def _tex_notes(table: Table, page: Page) -> list[str]:
    used = {n for row in table.rows for cell in row if isinstance(cell, Cell) for n in cell.notes}
    footnotes = [
        f"{_tex_raised((n,))} {tex(one_line(line, _LONGEST))}"
        for n, line in enumerate(page.footnotes, start=1)
        if n in used
    ]
    sentences = [line.removesuffix(".") for line in (table.note, *page.warnings) if line]
    return [*footnotes, *(f"{tex(one_line(line, _LONGEST))}." for line in sentences)]


def _tex_cell(cell: Cell | str) -> str:
    if isinstance(cell, Cell):
        mark = {1: r"\textbf{%s}", 2: r"\underline{%s}"}.get(cell.place, "%s")
        return tex(cell.before) + mark % tex(cell.text) + _tex_raised(cell.notes) + tex(cell.after)
    # A minus sign, where a hyphen stands before a number.
    return re.sub(r"(?<![\w.)-])-(?=\d)", "$-$", tex(cell))


def _tex_raised(notes: Sequence[int]) -> str:
    return f"$^{{{','.join(map(str, notes))}}}$" if notes else ""


def _tex_breakable(text: str) -> str:
    """Return text that TeX may also break after underscores, slashes and @."""
    pieces = re.findall(r"[^_/@]*[_/@]*", text)
    return r"\allowbreak{}".join(tex(piece) for piece in pieces if piece)
