"""What `capeval bridge plan` prints: how many videos a bridge needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from capeval.reporting.numbers import NOTHING, plain_number, tenths, thousands
from capeval.reporting.table import Page, Table, columns
from capeval.reporting.terminal import print_pages
from capeval.text import counted, one_line

if TYPE_CHECKING:
    from capeval.trust.bridge_planning import BridgePlan


def print_plan(plan: BridgePlan, console: Console) -> None:
    """Print how many videos a bridge needs."""
    table = Table(
        f"Videos of a run of {thousands(plan.videos)} that OLD must judge (own anchor)",
        columns("F1 of", "sd", "needed", "likely range", "sd found in", words=1),
        note="sd: of OLD's F1 of a video given NEW's, in points; the run that needs most decides.",
    )
    for group, of in plan.own_anchor.items():
        if of is None:
            table.rows.append([group, NOTHING, NOTHING, NOTHING, "too few videos by both"])
            continue
        span = (
            NOTHING
            if of.least is None or of.most is None
            else f"{thousands(of.least)}–{thousands(of.most)}"
        )
        where = (
            "assumed"
            if of.run is None
            else f"{counted(of.found_in, 'video')} of {one_line(of.run)}"
        )
        table.rows.append([group, tenths(100 * of.sd), thousands(of.needed), span, where])
    notes = []
    if not plan.assumed:
        each = f"{thousands(plan.line)} videos each" if plan.line else "more anchors than these"
        notes.append(
            f"A line for runs that OLD never judges needs at least 5 anchors; with "
            f"{counted(max(plan.systems, 5), 'anchor')} like these: {each}."
        )
    print_pages([Page([table], notes=notes)], console, headline=plan_headline(plan))


def plan_headline(plan: BridgePlan) -> str:
    """Return how many videos overall F1 needs, in a sentence."""
    of = plan.own_anchor["all"]
    needed = thousands(of.needed) if of else NOTHING
    how = "assuming" if plan.assumed else "with"
    sd = f", {how} a standard deviation of {tenths(100 * of.sd)} points" if of else ""
    return (
        f"{one_line(plan.old)} must judge {needed} of {counted(plan.videos, 'video')} of a run for "
        f"F1 ±{plain_number(100 * plan.half_width)} points{sd}."
    )
