"""Which videos of a folder are fit to be annotated: a sentence, and a table of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console

from capeval.construct.video_filter import VideoRow
from capeval.reporting.numbers import tenths, thousands
from capeval.reporting.table import LINE, Page, Table, columns
from capeval.reporting.terminal import one_screen, print_pages
from capeval.text import counted


def print_filtered(rows: Sequence[VideoRow], console: Console, *, full: bool) -> None:
    """Print how many videos are kept, and those that are not, each with its reasons."""
    reasons = Counter(reason for row in rows for reason in row.reasons)
    if by_hand := sum(row.by_hand for row in rows):
        reasons["decided by hand"] = by_hand
    kept = f"{thousands(sum(row.keep for row in rows))} of {counted(len(rows), 'video')} kept"
    found = [f"{thousands(count)} {_spoken(reason)}" for reason, count in reasons.most_common()]
    table = Table("Left out", columns(("Video", LINE), ("Why", LINE), "Size", "Seconds", words=2))
    for row in rows:
        if not row.keep:
            size = f"{row.width}x{row.height}"
            table.rows.append([row.video, _why(row), size, tenths(row.seconds)])
    pages = [Page([table])] if table.rows else []
    headline = f"{kept}; {', '.join(found)}." if found else f"{kept}."
    print_pages(pages if full else one_screen(pages), console, headline=headline)


def _spoken(reason: str) -> str:
    return reason.replace("-", " ")


def _why(row: VideoRow) -> str:
    if row.duplicate_of:
        return f"near duplicate of {row.duplicate_of}"
    return row.error or ", ".join(map(_spoken, row.reasons)) or "by hand"
