"""The tables of `capeval eval` and `capeval runs`: one row for each run and judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from capeval.reporting.numbers import file_size
from capeval.reporting.score_tables import BASELINE_NOTE, scores_headline
from capeval.reporting.table import INTERVAL, SHARE, Kind, Page, Table, columns
from capeval.reporting.terminal import print_pages
from capeval.scoring import Scores
from capeval.text import one_line


def print_evaluated(found: Mapping[str, tuple[Scores | None, Path | None]], out: Console) -> None:
    """Print the best run, and the scores and the report of each; a run may have neither."""
    table = Table(
        "F1 of all elements, %",
        columns("Run", ("Captioned", SHARE), ("Scored", SHARE), ("F1 [95%]", INTERVAL), "Report"),
    )
    known: dict[str, Scores] = {}
    for name, (scores, report) in found.items():
        if scores is None:
            table.rows.append([one_line(name), None, None, None, None])
            continue
        known[name] = scores
        counts, f1 = scores.counts, scores.overall.all.f1
        shares = (counts.captioned, counts.annotated), (counts.scored, counts.captioned)
        file = None if report is None else one_line(str(report), 600)
        table.rows.append([one_line(name), *shares, f1 if counts.scored else None, file])
    headline = scores_headline(known) if known else "No video has a caption yet."
    page = Page(
        [table],
        warnings=[BASELINE_NOTE]
        if any(of.settings.get("baseline") for of in known.values())
        else [],
        signatures=list(dict.fromkeys(scores.signature for scores in known.values())),
    )
    print_pages([page], out, headline=headline)


_DATE = Kind(lambda date: f"{date:%Y-%m-%d %H:%M}")


def print_runs(
    found: Sequence[tuple[str, str | None, Scores | None, datetime, int]], out: Console
) -> None:
    """Print rows of a run, its judge, the scores, the date and the size in bytes."""
    headings: tuple[Any, ...] = ("Run", "Judge", ("Scored", SHARE), ("F1 [95%]", INTERVAL))
    headings += (("Newest verdict", _DATE), ("Size", Kind(file_size)))
    table = Table("Runs, the newest first; F1 in %", columns(*headings, words=2))
    for run, judge, scores, date, size in found:
        cells: list[Any] = [None, None]
        if scores:
            cells = [(scores.counts.scored, scores.counts.captioned)]
            cells.append(scores.overall.all.f1 if scores.counts.scored else None)
        table.rows.append([one_line(run), judge and one_line(judge), *cells, date, size])
    print_pages([Page([table])], out)
