"""What `capeval bridge show` prints: two judges side by side on the runs that both have judged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console

from capeval.reporting.numbers import (
    NOTHING,
    coefficient,
    percent,
    points,
    signed_interval,
    thousands,
    whole_percent,
)
from capeval.reporting.table import Cell, Page, Table, columns
from capeval.reporting.terminal import print_pages
from capeval.reporting.viewer.cards import LABEL_WORDS
from capeval.schema import ELEMENT_TYPES, RELATIONS
from capeval.scoring import GROUPS
from capeval.scoring.comparison_result import Transitions
from capeval.text import counted, cut, one_line

if TYPE_CHECKING:
    from capeval.trust.bridge_agreement import JudgesCompared


def print_judges_compared(
    found: JudgesCompared, console: Console, *, full: bool = False, most: int = 5
) -> None:
    """Print how two judges compare: agreement, transitions, shifts, order, and what differs."""
    tables = [_agreement_table(found), _transition_table(found), _shift_table(found)]
    if full:
        tables += [_type_shifts(found)]
    if found.pairs:
        tables.append(_pairs_table(found, None if full else most))
    if found.videos:
        count = None if full else most
        tables += [_video_table(found, count), _element_table(found, count)]
    page = Page(
        tables,
        notes=[] if full else ["--full shows all; --json too."],
        warnings=["A judge is a baseline: do not report its scores."] if found.baseline else [],
    )
    print_pages([page], console, headline=compared_headline(found))


def compared_headline(found: JudgesCompared) -> str:
    """Return how often two judges agree, and whether they rank the runs alike, in a sentence."""
    of = found.agreement.all
    kept = sum(pair.kept for pair in found.pairs)
    order = ""
    if found.pairs:
        order = (
            f"; they order {thousands(kept)} of {counted(len(found.pairs), 'pair')} of runs alike"
        )
    return (
        f"{one_line(found.old)} and {one_line(found.new)} agree on {percent(of.share)}% of "
        f"{counted(of.elements, 'label')} in {counted(len(found.runs), 'run')}{order}."
    )


def _agreement_table(found: JudgesCompared) -> Table:
    table = Table("Agreement on labels", columns("Elements", "n", "same", "%", "kappa"))
    for group in GROUPS:
        of = getattr(found.agreement, group)
        table.rows.append(
            [
                group,
                thousands(of.elements),
                thousands(of.same),
                percent(of.share),
                coefficient(of.kappa),
            ]
        )
    return table


def _transition_table(found: JudgesCompared) -> Table:
    counts = found.agreement.all.transitions
    return Table(
        "Labels: OLD rows, NEW columns",
        columns("OLD", *(LABEL_WORDS[label] for label in RELATIONS), "share"),
        [
            [
                LABEL_WORDS[label],
                *(thousands(counts[label][to]) for to in RELATIONS),
                whole_percent(_share(counts[label].values(), counts)),
            ]
            for label in RELATIONS
        ],
        note="A description of these runs: it depends on how good captions are, and converts no "
        "labels.",
    )


def _share(row: Iterable[int], counts: Transitions) -> float | None:
    total = sum(sum(one.values()) for one in counts.values())
    return sum(row) / total if total else None


def _shift_table(found: JudgesCompared) -> Table:
    table = Table(
        "Overall F1 of the videos that both scored, %",
        columns("Run", "videos", "OLD", "NEW", "OLD − NEW [95%]"),
        note=f"[{NOTHING}]: no interval, fewer than 5 videos."
        if any(one.shifts.all.f1.shift.low is None for one in found.runs)
        else "",
    )
    for one in found.runs:
        of = one.shifts.all.f1
        table.rows.append(
            [
                one_line(one.run),
                thousands(of.n),
                percent(of.old),
                percent(of.new),
                signed_interval(of.shift),
            ]
        )
    return table


def _type_shifts(found: JudgesCompared) -> Table:
    table = Table(
        "OLD − NEW in F1 by type, points [95%]",
        columns("Run", *(name.title() for name in ELEMENT_TYPES)),
    )
    for one in found.runs:
        table.rows.append(
            [
                one_line(one.run),
                *(signed_interval(getattr(one.shifts, of).f1.shift) for of in ELEMENT_TYPES),
            ]
        )
    return table


def _pairs_table(found: JudgesCompared, most: int | None) -> Table:
    table = Table(
        f"Differences of runs in overall F1, points, over {counted(found.shared, 'shared video')}",
        columns("Runs", "by OLD [95%]", "by NEW [95%]", "change [95%]", "same order"),
    )
    # Those that the judges see most differently come first.
    pairs = sorted(found.pairs, key=lambda one: (one.kept, -abs(one.change.value or 0.0)))
    for pair in pairs[:most]:
        table.rows.append(
            [
                f"{one_line(pair.first)} − {one_line(pair.second)}",
                *(signed_interval(one) for one in (pair.old, pair.new, pair.change)),
                "yes" if pair.kept else Cell("no", style="yellow"),
            ]
        )
    return table


def _video_table(found: JudgesCompared, most: int | None) -> Table:
    count = counted(len(found.videos), "video")
    return Table(
        f"Videos with different labels: {count}, F1 in %",
        columns("Run", "Video", "OLD", "NEW", "OLD − NEW", "elements", words=2),
        [
            [
                one_line(v.run),
                one_line(v.index),
                percent(v.old),
                percent(v.new),
                points(v.old - v.new),
                thousands(v.elements),
            ]
            for v in found.videos[:most]
        ],
    )


def _element_table(found: JudgesCompared, most: int | None) -> Table:
    return Table(
        f"Elements with different labels: {thousands(len(found.elements))}",
        columns("Video, element", "OLD → NEW", "Content", "weight", words=3),
        [
            [
                f"{one_line(e.index)}\n{e.element_id} {e.type}",
                f"{LABEL_WORDS[e.old]}\n→ {LABEL_WORDS[e.new]}",
                f"{cut(one_line(e.run), 40)}: {one_line(e.content, 600)}",
                str(e.weight),
            ]
            for e in found.elements[:most]
        ],
    )
