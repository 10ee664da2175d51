"""Which videos of a folder are fit to be annotated: a sentence, and a table of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console

from capeval.construct.video_filter import VideoRow
from capeval.reporting.numbers import tenths, thousands
from capeval.reporting.table import LINE, Kind, Page, Table, columns
from capeval.reporting.terminal import one_screen, print_pages
from capeval.text import counted


def print_filtered(rows: Sequence[VideoRow], console: Console, *, full: bool) -> None:
    """Print how many videos are kept, and those that are not."""
    table = Table(
        "Left out",
        columns(("Video", LINE), ("Why", LINE), "Size", ("Seconds", Kind(tenths)), words=2),
        [
            [row.video, _why(row), f"{row.width}x{row.height}", row.seconds]
            for row in rows
            if not row.keep
        ],
    )
    pages = [Page([table])] if table.rows else []
    print_pages(pages if full else one_screen(pages), console, headline=headline(rows))


def headline(rows: Sequence[VideoRow]) -> str:
    """Return how many videos are kept, and for which reasons others are not."""
    reasons = Counter(_spoken(reason) for row in rows for reason in row.reasons)
    if by_hand := sum(row.by_hand for row in rows):
        reasons["decided by hand"] = by_hand
    kept = f"{thousands(sum(row.keep for row in rows))} of {counted(len(rows), 'video')} kept"
    found = [f"{thousands(count)} {reason}" for reason, count in reasons.most_common()]
    return f"{kept}; {', '.join(found)}." if found else f"{kept}."


def _spoken(reason: str) -> str:
    return reason.replace("-", " ")


def _why(row: VideoRow) -> str:
    if row.duplicate_of:
        return f"near duplicate of {row.duplicate_of}"
    return row.error or ", ".join(map(_spoken, row.reasons)) or "by hand"
