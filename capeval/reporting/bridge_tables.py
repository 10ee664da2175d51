"""What `capeval bridge` prints: bridged scores and the line, or why these are refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rich.console import Console

from capeval.reporting.bridge_refusals import refusal_line
from capeval.reporting.numbers import (
    NOTHING,
    coefficient,
    interval,
    p_equation,
    percent,
    points,
    tenths,
    thousands,
)
from capeval.reporting.table import Page, Table, columns
from capeval.reporting.terminal import one_screen, print_pages
from capeval.schema import ELEMENT_TYPES
from capeval.scoring import GROUPS, MEASURES, Scores
from capeval.scoring.result import Bridged, BridgedEstimate
from capeval.scoring.signature import Signature
from capeval.text import counted, listed, one_line

if TYPE_CHECKING:
    from capeval.trust.bridge_file import Bridge
    from capeval.trust.bridge_result import BridgeResult

MARK = "‡"
"""Marks bridged scores wherever they are shown."""

_FEW = 3
"""Runs of which the first screen also shows the types of elements."""

_METHODS = {"own_anchor": "own anchor", "system_line": "system line"}
_NAMES = {"precision": "P", "recall": "R", "f1": "F1"}


def bridged_text(estimate: BridgedEstimate) -> str:
    """Return a bridged score with its interval, or that it is refused.

    >>> bridged_text(BridgedEstimate(value=0.5, low=0.4, high=0.6))
    '50.0 [40.0, 60.0]'
    """
    return "refused" if estimate.refusals else interval(estimate)


def bridged_headline(name: str, bridged: Bridged) -> str:
    """Return a run's bridged F1 in a sentence that says that it is bridged."""
    judges = one_line(Signature.parse(bridged.signature).get("judge") or "unknown")
    of = bridged.overall.all
    if of.f1.refusals:
        why = refusal_line(of.f1.refusals[0])
        return f"{one_line(name)}: no bridged F1 ({judges}): {why}."
    how = (
        f"{thousands(of.anchored)} of {counted(of.n, 'video')} judged by both"
        if bridged.method == "own_anchor"
        else f"a line through {counted(bridged.systems, 'run')}, {thousands(bridged.anchored)} "
        "videos each"
    )
    return f"{one_line(name)}: F1 {interval(of.f1)}{MARK}, {judges}, by {how}."


def bridged_note(bridged: Bridged) -> str:
    """Return what the mark means."""
    return (
        f"{MARK} bridged from {one_line(bridged.new)} to the scale of {one_line(bridged.old)}: "
        "an estimate, not judged by it."
    )


def bridged_table(runs: Mapping[str, Bridged]) -> Table:
    """Return overall precision, recall and F1 of bridged runs, and how they were made."""
    table = Table(
        "Bridged scores, % [95%]",
        columns("Run", "By", "P", "R", f"F1{MARK}", words=2),
    )
    for name, bridged in runs.items():
        of = bridged.overall.all
        table.rows.append(
            [
                one_line(name),
                _METHODS[bridged.method],
                *(bridged_text(getattr(of, measure)) for measure in MEASURES),
            ]
        )
    return table


def bridged_types(runs: Mapping[str, Bridged]) -> Table:
    """Return F1 of bridged runs by type."""
    table = Table(
        "Bridged F1 by type of element, % [95%]",
        columns("Run", *(name.title() for name in ELEMENT_TYPES)),
    )
    for name, bridged in runs.items():
        table.rows.append(
            [
                one_line(name),
                *(bridged_text(getattr(bridged.overall, of).f1) for of in ELEMENT_TYPES),
            ]
        )
    return table


def print_bridged(results: Mapping[str, Scores], console: Console) -> None:
    """Print the bridged scores that some scores hold, with their own mark and signature."""
    found = {name: scores.bridged for name, scores in results.items() if scores.bridged}
    if not found:
        return
    console.print()
    page = Page(
        [bridged_table(found), *([bridged_types(found)] if _types_known(found) else [])],
        notes=[f"{one_line(name)}: {note}" for name, of in found.items() for note in of.warnings],
        warnings=list(dict.fromkeys(map(bridged_note, found.values()))),
        signatures=list(dict.fromkeys(of.signature for of in found.values())),
    )
    print_pages([page], console)


def _types_known(runs: Mapping[str, Bridged]) -> bool:
    return any(
        getattr(of.overall, name).f1.value is not None
        for of in runs.values()
        for name in ELEMENT_TYPES
    )


def print_bridge(result: BridgeResult, console: Console, *, full: bool = False) -> None:
    """Print the bridged scores, why others are refused, and the line; all lines with `full`."""
    pages = [Page(_bridge_tables(result, full=full), notes=_bridge_notes(result, full=full))]
    if result.runs:
        first = next(iter(result.runs.values()))
        pages[0].warnings = [
            bridged_note(first),
            *(["A judge is a baseline: do not report these scores."] if _baseline(result) else []),
        ]
        pages[0].signatures = list(dict.fromkeys(one.signature for one in result.runs.values()))
    headline = bridge_headline(result)
    if not full:
        pages = one_screen(pages, console.width, headline=headline)
    print_pages(pages, console, headline=headline)


def bridge_headline(result: BridgeResult) -> str:
    """Return how many runs are bridged, or the one that is, in a sentence."""
    bridge = result.bridge
    judges = f"{one_line(bridge.old.folder)}<-{one_line(bridge.new.folder)}"
    done = {name: of for name, of in result.runs.items() if of.overall.all.f1.value is not None}
    if len(result.runs) == 1:
        return bridged_headline(*next(iter(result.runs.items())))
    if not result.runs:
        whole = len(result.whole)
        return (
            f"{judges}: no run to bridge; {counted(whole, 'run')} {'is' if whole == 1 else 'are'} "
            f"judged in full by {one_line(bridge.old.folder)}, {_line_state(bridge)}."
        )
    return (
        f"{judges}: F1 of {thousands(len(done))} of {counted(len(result.runs), 'run')} bridged, "
        f"{_line_state(bridge)}."
    )


def _line_state(bridge: Bridge) -> str:
    refused = bool(bridge.lines.all.f1.refusals)
    anchors = counted(len(bridge.anchors), "anchor")
    return f"the line through {anchors} is {'refused' if refused else 'usable'}"


def _baseline(result: BridgeResult) -> bool:
    return result.bridge.old.baseline or result.bridge.new.baseline


def _bridge_tables(result: BridgeResult, *, full: bool) -> list[Table]:
    tables = []
    if result.runs:
        tables.append(bridged_table(result.runs))
        # Of many runs, the types would leave no room for the runs themselves.
        if full or (len(result.runs) <= _FEW and _types_known(result.runs)):
            tables.append(bridged_types(result.runs))
    tables.append(_lines_table(result.bridge, full=full))
    if full and result.bridge.anchors:
        tables.append(_anchors_table(result.bridge))
    if why := _refusals_table(result):
        tables.append(why)
    return tables


def _lines_table(bridge: Bridge, *, full: bool) -> Table:
    table = Table(
        "System line: OLD = a + b NEW",
        columns("Score", "a", "b", "anchors", "videos", "sd", "range of NEW", "use"),
        note="a and sd of the systems about the line in points.",
    )
    for group in GROUPS:
        for measure in MEASURES if full else ("f1",):
            of = getattr(getattr(bridge.lines, group), measure)
            line = of.line
            rules = listed(dict.fromkeys(one.rule for one in of.refusals))
            table.rows.append(
                [
                    f"{group} {_NAMES[measure]}",
                    points(line.intercept) if line else NOTHING,
                    coefficient(line.slope) if line else NOTHING,
                    thousands(of.k),
                    thousands(of.n),
                    tenths(100 * line.s_res) if line else NOTHING,
                    f"{percent(line.low)}–{percent(line.high)}" if line else NOTHING,
                    f"refused: {rules}" if rules else "yes",
                ]
            )
    return table


def _anchors_table(bridge: Bridge) -> Table:
    table = Table(
        "Anchors: overall F1 of the shared videos, %",
        columns("Run", "OLD", "NEW", "off the line of the others", "videos", "drawn"),
    )
    of = bridge.lines.all.f1
    for at, anchor in enumerate(bridge.anchors):
        means = of.means[at] if at < len(of.means) else (None, None)
        off = of.left_out[at] if at < len(of.left_out) else None
        table.rows.append(
            [
                one_line(anchor.run),
                percent(means[0]),
                percent(means[1]),
                NOTHING if off is None else f"{points(off.shift)} ({p_equation(off.adjusted)})",
                f"{thousands(anchor.both)} of {thousands(anchor.N)}",
                "all" if anchor.seed is None else f"seed {anchor.seed}",
            ]
        )
    return table


def _refusals_table(result: BridgeResult) -> Table | None:
    """Return why scores are refused: of the lines themselves, then of each run's overall F1."""
    found: dict[str, dict[str, None]] = {}
    for group in GROUPS:
        of = getattr(result.bridge.lines, group).f1
        for one in of.refusals:
            found.setdefault(refusal_line(one), {})[f"{group} F1"] = None
    own = {*found}
    for name, bridged in result.runs.items():
        for group in GROUPS:
            for one in getattr(bridged.overall, group).f1.refusals:
                if (line := refusal_line(one)) not in own:
                    found.setdefault(line, {})[f"{one_line(name)}: {group} F1"] = None
    if not found:
        return None
    table = Table("Refused", columns("Score", "Why", words=2))
    for line, scores in found.items():
        label = "every F1" if _is_all(scores) else listed(scores)
        table.rows.append([label, line])
    return table


def _is_all(scores: Iterable[str]) -> bool:
    return {*scores} == {f"{group} F1" for group in GROUPS}


def _bridge_notes(result: BridgeResult, *, full: bool) -> list[str]:
    bridge = result.bridge
    named: dict[str, list[str]] = {}
    for name, bridged in result.runs.items():
        for warning in bridged.warnings:
            named.setdefault(warning, []).append(one_line(name))
    notes = [f"{listed(names)}: {warning}" for warning, names in named.items()]
    chosen = [one.run for one in bridge.anchors if one.seed is None and one.both < one.N]
    if chosen:
        notes.append(
            f"the videos of {listed(map(one_line, chosen))} were not drawn at random by "
            "`capeval bridge collect`: the intervals assume that they were"
        )
    if bridge.not_shared:
        notes.append(
            f"{thousands(bridge.not_shared)} videos are judged by both in some anchors only, and "
            f"not used for the line; {thousands(bridge.shared)} are in all"
        )
    if bridge.left_out:
        reasons = (f"{one_line(name)} ({why})" for name, why in bridge.left_out.items())
        notes.append(f"no anchors: {listed(reasons)}")
    if result.whole:
        notes.append(
            f"judged in full by {one_line(bridge.old.folder)}, no bridge needed: "
            f"{listed(map(one_line, result.whole))}"
        )
    if not full:
        notes.append("--full also shows types of elements, all lines and the anchors.")
    return notes
