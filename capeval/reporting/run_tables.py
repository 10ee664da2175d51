"""The tables of `capeval eval` and `capeval runs`: one row for each run and judge."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from capeval.reporting.score_tables import BASELINE_NOTE, scores_headline
from capeval.reporting.table import INTERVAL, SHARE, Page, Table, columns
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
