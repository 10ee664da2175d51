"""What `capeval bridge` prints: bridged scores, refusals with their figures, and two judges side by
side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rich.console import Console

from capeval.reporting.numbers import (
    NOTHING,
    coefficient,
    interval,
    p_equation,
    percent,
    plain_number,
    points,
    signed_interval,
    tenths,
    thousands,
    whole_percent,
)
from capeval.reporting.table import Cell, Page, Table, columns
from capeval.reporting.terminal import one_screen, print_pages
from capeval.reporting.viewer.cards import LABEL_WORDS
from capeval.schema import ELEMENT_TYPES, RELATIONS
from capeval.scoring import GROUPS, MEASURES, Scores
from capeval.scoring.comparison_result import Transitions
from capeval.scoring.result import Bridged, BridgedEstimate, BridgeRefusal
from capeval.scoring.signature import Signature
from capeval.text import counted, cut, listed, one_line

if TYPE_CHECKING:
    from capeval.trust.bridge_agreement import JudgesCompared
    from capeval.trust.bridge_file import Bridge
    from capeval.trust.bridge_planning import BridgePlan
    from capeval.trust.bridge_result import BridgeResult

MARK = "‡"
"""Marks bridged scores wherever they are shown."""

_FEW = 3
"""Runs of which the first screen also shows the types of elements."""

_LEFT_OUT = (
    "--full also shows shifts by type, all pairs of runs and videos, and the elements with "
    "different labels."
)

_METHODS = {"own_anchor": "own anchor", "system_line": "system line"}
_NAMES = {"precision": "P", "recall": "R", "f1": "F1"}


def refusal_line(refusal: BridgeRefusal) -> str:
    """Return which rule refuses a score, with the figures, in words.

    >>> refusal_line(BridgeRefusal(rule="systems", figures={"systems": 3, "least": 5}))
    'too few anchors: 3 runs are judged by both, at least 5 are needed'
    """
    of = refusal.figures
    match refusal.rule:
        case "systems":
            count = _count(of, "systems")
            return (
                f"too few anchors: {counted(count, 'run')} {'is' if count == 1 else 'are'} judged "
                f"by both, at least {thousands(_number(of, 'least'))} are needed"
            )
        case "videos":
            return (
                f"too few videos: {thousands(_number(of, 'videos'))} are judged by both in every "
                f"anchor, at least {thousands(_number(of, 'least'))} are needed"
            )
        case "equal":
            if "system" in of:
                return f"without {_text(of, 'system')}, all anchors have one score by the new judge"
            return f"all anchors have one score by the new judge: {_percent(of, 'score')}"
        case "misfit":
            return (
                f"{_text(of, 'system')} is {_points(of, 'shift')} points off the line of the other "
                f"anchors (standard error {_tenths(of, 'error')}, {p_equation(_number(of, 'p'))} "
                "after Holm)"
            )
        case "width":
            return (
                f"too inexact: ±{_tenths(of, 'error')} points, and --max-error is "
                f"{plain_number(100 * _number(of, 'most'))}"
            )
        case "range":
            return (
                f"too far from the anchors: {_percent(of, 'score')} by the new judge, theirs are "
                f"{_percent(of, 'low')} to {_percent(of, 'high')}"
            )
        case "beyond":
            return f"the line predicts {_percent(of, 'value')}, which is no score"
        case "target":
            return "the new judge has no score"


def _number(figures: Mapping[str, float | str], name: str) -> float:
    value = figures.get(name)
    return float("nan") if value is None or isinstance(value, str) else value


def _count(figures: Mapping[str, float | str], name: str) -> int:
    value = _number(figures, name)
    return int(value) if math.isfinite(value) else 0


def _text(figures: Mapping[str, float | str], name: str) -> str:
    return one_line(str(figures.get(name)))


def _percent(figures: Mapping[str, float | str], name: str) -> str:
    return percent(_number(figures, name))


def _points(figures: Mapping[str, float | str], name: str) -> str:
    return points(_number(figures, name))


def _tenths(figures: Mapping[str, float | str], name: str) -> str:
    return tenths(100 * _number(figures, name))


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
            f"judged in full by {one_line(bridge.old.folder)}; {_line_state(bridge)}."
        )
    return (
        f"{judges}: F1 of {thousands(len(done))} of {counted(len(result.runs), 'run')} bridged; "
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
        note="a, sd: in points. sd: of the systems about the line.",
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


def print_judges_compared(
    found: JudgesCompared, console: Console, *, full: bool = False, most: int = 5
) -> None:
    """Print how two judges compare: agreement, transitions, shifts, order, and what differs."""
    tables = [_agreement_table(found), _transition_table(found), _shift_table(found)]
    if full:
        tables += [_type_shifts(found)]
    # The headline counts the pairs in the same order; the others are what changes a ranking.
    if found.pairs and (full or not all(pair.kept for pair in found.pairs)):
        tables.append(_pairs_table(found, full=full, most=most))
    if found.videos:
        tables.append(_video_table(found, None if full else most))
        if full:
            tables.append(_element_table(found))
    page = Page(
        tables,
        notes=[] if full else [_LEFT_OUT],
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


def _pairs_table(found: JudgesCompared, *, full: bool, most: int) -> Table:
    which = "" if full else " that change order"
    videos = counted(found.shared, "shared video")
    table = Table(
        f"Differences of runs{which} in overall F1, points, over {videos}",
        columns("Runs", "by OLD [95%]", "by NEW [95%]", "change [95%]", "same order"),
    )
    # Those that the judges see most differently come first.
    pairs = sorted(found.pairs, key=lambda one: (one.kept, -abs(one.change.value or 0.0)))
    for pair in pairs if full else [one for one in pairs if not one.kept][:most]:
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


def _element_table(found: JudgesCompared) -> Table:
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
            for e in found.elements
        ],
    )


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
        like = f"with {counted(max(plan.systems, 5), 'anchor')} like these"
        goal = f"F1 ±{plain_number(100 * plan.half_width)} points"
        enough = (
            f"{like}, {counted(plan.line, 'video')} each for {goal}."
            if plan.line
            else f"{like}, no number of videos is enough for {goal}."
        )
        notes.append(f"A line for runs that OLD never judges needs at least 5 anchors; {enough}")
    print_pages([Page([table], notes=notes)], console, headline=plan_headline(plan))


def plan_headline(plan: BridgePlan) -> str:
    """Return how many videos overall F1 needs, in a sentence."""
    of = plan.own_anchor["all"]
    needed = thousands(of.needed) if of else NOTHING
    videos = counted(plan.videos, "video")
    count = f"all {videos}" if of and of.needed >= plan.videos else f"{needed} of {videos}"
    how = "assuming" if plan.assumed else "with"
    sd = f", {how} a standard deviation of {tenths(100 * of.sd)} points" if of else ""
    return (
        f"{one_line(plan.old)} must judge {count} of a run for F1 "
        f"±{plain_number(100 * plan.half_width)} points{sd}."
    )
