"""Results as a sentence, and as the HTML that a notebook shows."""

from __future__ import annotations

from html import escape

from capeval.correlation.result import Correlations
from capeval.reporting.comparison_tables import comparison_headline, comparison_page
from capeval.reporting.correlations.summary import summary_lines
from capeval.reporting.correlations.tables import correlations_screen
from capeval.reporting.score_tables import score_sentence, scores_page
from capeval.reporting.table import Page, Table
from capeval.scoring import Scores
from capeval.scoring.comparison_result import Compared

Result = Scores | Compared | Correlations


def sentence_of(result: Result) -> str:
    """Return what a result says, in a sentence or two."""
    match result:
        case Scores():
            return score_sentence(result)
        case Correlations():
            return "\n".join(summary_lines(result))
        case _:
            return comparison_headline(result)


def html_of(result: Result) -> str:
    """Return the sentence and the first screen of tables."""
    match result:
        case Scores():
            page = scores_page({"": result})
        case Correlations():
            page = correlations_screen(result)
        case _:
            page = comparison_page(result)
    lines = [f"<p><strong>{escape(line)}</strong></p>" for line in sentence_of(result).split("\n")]
    return "\n".join([*lines, *map(_table, page.tables), *_notes(page)])


def _table(table: Table) -> str:
    heads = "".join(f"<th>{escape(heading)}</th>" for heading in table.header)
    rows = []
    for row in table.rows:
        cells = table.shown(row)
        span = f' colspan="{len(table.columns)}"' if len(row) == 1 else ""
        rows.append("".join(f"<td{span}>{escape(str(cell))}</td>" for cell in cells))
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    note = f"<p><small>{escape(table.note)}</small></p>" if table.note else ""
    title = f"<caption>{escape(table.title)}</caption>"
    head = f"<thead><tr>{heads}</tr></thead>"
    return f"<table>{title}{head}<tbody>{body}</tbody></table>{note}"


def _notes(page: Page) -> list[str]:
    lines = [*page.explained(page.tables), *page.notes, *page.warnings, *page.signatures]
    return [f"<p><small>{escape(line)}</small></p>" for line in lines]
