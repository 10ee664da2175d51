"""The tables of `capeval eval` and `capeval runs`: one row for each run and judge."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.console import Console

from capeval.scoring import Estimate
from capeval.scoring.result import Counts, ResultModel
from capeval.show.numbers import file_size
from capeval.show.table import INTERVAL, SHARE, Kind, Page, Table, columns
from capeval.show.terminal import print_pages
from capeval.text import one_line


class StoredRun(ResultModel):
    """One judge's verdicts on a run: the date of the newest, and the size of the judge's folder.

    Of a run that is not judged these are of the captions and of the run. Where the scores cannot be
    computed, `problem` says why.
    """

    run: str
    judge: str | None
    counts: Counts | None
    f1: Estimate | None
    signature: str | None
    problem: str
    date: datetime
    size: int


def print_runs(found: Sequence[StoredRun], console: Console) -> None:
    """Print a row for each judge of each run."""
    date = Kind(lambda value: f"{value:%Y-%m-%d %H:%M}")
    shown = (("Scored", SHARE), ("F1 [95%]", INTERVAL), ("Date", date), ("Size", Kind(file_size)))
    table = Table("Runs, the newest first; F1 in %", columns("Run", "Judge", *shown, words=2))
    for row in found:
        counts, f1 = row.counts, row.f1
        scored = (counts.scored, counts.captioned) if counts else None
        cells = (scored, f1 if counts and counts.scored else None, row.date, row.size)
        table.rows.append([one_line(row.run), row.judge and one_line(row.judge), *cells])
    print_pages([Page([table])], console)
