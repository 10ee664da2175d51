"""What `capeval mcq construct filter` decided, as a table."""

from __future__ import annotations

from rich.console import Console

from capeval.construct.indispensability import FRAMES, Filtered, conditions
from capeval.reporting.formats import Format, rendered
from capeval.reporting.numbers import percent
from capeval.reporting.table import COUNT, Page, Table, columns
from capeval.reporting.terminal import print_line, print_pages
from capeval.text import counted


def print_filtered(found: Filtered, console: Console, *, form: Format = "table") -> None:
    """Print how many questions are kept, and how many each condition drops."""
    page = Page([_by_condition(found)], notes=_control(found))
    if form != "table":
        print_line(rendered([page], form), console)
        return
    kept, total = found.counts["kept"], len(found.items)
    share = percent(kept / total)
    headline = (
        f"{kept:,} of {counted(total, 'question')} kept ({share}%): {found.model} answers them "
        f"with {FRAMES} frames, but not with a single frame or without the video."
    )
    print_pages([page], console, headline=headline)


def _by_condition(found: Filtered) -> Table:
    names = ("Questions", "Dropped", "Undecided", "Replies")
    table = Table(
        "By what the model saw",
        columns("Condition", *((name, COUNT) for name in names)),
        note="Undecided: a call failed; the same command tries again.",
    )
    for condition in conditions():
        of = [one for one in found.items if condition.name in one.given]
        ended = [one for one in of if one.by == condition.name]
        table.rows.append(
            [
                f"{FRAMES} frames" if condition.is_whole else condition.name,
                len(of),
                sum(one.status == "dropped" for one in ended),
                sum(one.status == "undecided" for one in ended),
                sum(len(one.given[condition.name]) for one in of),
            ]
        )
    return table


def _control(found: Filtered) -> list[str]:
    passed, total = found.control
    if not total:
        return []
    share = percent(passed / total)
    line = (
        f"Control: {passed:,} of {counted(total, 'wrong option')} ({share}%) would be kept as the "
        f"right one, in the questions asked with {FRAMES} frames."
    )
    return [line]
