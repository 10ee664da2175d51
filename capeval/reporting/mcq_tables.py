"""The tables of `capeval mcq grade` and the sentence that sums them up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console

from capeval.mcq.breakdown import benchmark_name, way_name
from capeval.mcq.grades import Accuracy, Grades, Group
from capeval.show.formats import Format, rendered
from capeval.show.numbers import percent, place_name, points, share, thousands
from capeval.show.table import (
    COUNT,
    INTERVAL,
    PERCENT,
    SHARE,
    Column,
    Kind,
    Page,
    Row,
    Table,
    interval_kind,
)
from capeval.show.terminal import print_line, print_pages
from capeval.text import counted, one_line

_FULL_ONLY = ("sub_category",)
"""Ways with so many groups that the first screen leaves them out."""

# Rows beside the headline and notes of a screen of 40 lines; each grouping has two more lines.
_SCREEN_ROWS = 24

_SKILLS = {
    "Camera State": "camera",
    "Background Scene": "scene",
    "Subject Action": "action",
    "Object Attribute": "attribute",
}

_QUESTIONS = Column("Questions", words=True)
_ACCURACY = Column("Accuracy [95% CI]", kind=INTERVAL)
_STRATEGIES = [
    Column("Strategy", words=True),
    _ACCURACY,
    Column("Answered", kind=SHARE),
    Column("Of answered", kind=PERCENT),
    *(Column(name, kind=COUNT) for name in ("Chance", "Unscored", "≠ exact")),
]
_GROUPS = [
    _QUESTIONS,
    Column("Right", kind=SHARE),
    _ACCURACY,
    *(Column(name, kind=PERCENT) for name in ("Of answered", "Chance", "Frequent", "TUNA-CAP F1")),
]
# A relative change without an interval is of too few videos, which the accuracies show.
_CHANGE = Kind(
    lambda of: points(of.value),
    after=lambda of: "" if of.low is None else interval_kind(points).after(of),
    parts=INTERVAL.parts,
)
_CHANGES = [
    _QUESTIONS,
    *(Column(name, kind=PERCENT) for name in ("False", "True")),
    Column("Change in %", kind=_CHANGE),
]


def print_grades(
    found: Grades, console: Console, *, form: Format = "table", full: bool = False
) -> None:
    """Print a headline, the tables and how the replies were decided."""
    if form != "table":
        print_line(rendered([grades_page(found)], form), console)
        return
    page = grades_page(found)
    if not full:
        page = grades_page(found, _first_ways(found)).shortened(_SCREEN_ROWS)
    print_pages([page], console, headline=grades_headline(found))


def _first_ways(found: Grades) -> list[str]:
    """Return as many whole groupings as fill a screen, at least the first one."""
    others = (found.strategies, found.changes)
    room = _SCREEN_ROWS - sum(len(rows) + 4 for rows in others if rows)
    ways: list[str] = []
    for way in found.by:
        if way not in _FULL_ONLY and _divides(found, way):
            room -= len(found.by[way]) + 2
            if ways and room < 0:
                break
            ways.append(way)
    return ways


def _divides(found: Grades, way: str) -> bool:
    """Return whether a grouping has other rows than the one of all questions."""
    groups = [*found.by[way].values()]
    return len(groups) > 1 or groups[0].n < found.overall.n


def grades_headline(found: Grades) -> str:
    """Return the accuracy and what it is over, in a sentence."""
    counts, overall = found.counts, found.overall
    names = sorted({item.benchmark for item in found.items})
    what = ", ".join(map(benchmark_name, names))
    what = what[:1].upper() + what[1:]
    over = "replies that are read" if counts.counted < counts.scored else "replies"
    if not overall.n:
        why = f"{thousands(counts.failed)} unscored, {thousands(counts.scored)} unread"
        name = found.settings["strategy"]
        return f"{what}: no accuracy ({name}): of {thousands(counts.responses)} responses, {why}."
    parts = []
    if counts.no_answer:
        parts.append(f"{thousands(counts.no_answer)} without an answer")
    if counts.by_chance:
        parts.append(f"{thousands(counts.by_chance)} by chance")
    if counts.failed:
        parts.append(f"{counted(counts.failed, 'response')} unscored")
    if counts.missing:
        parts.append(f"{counted(counts.missing, 'question')} without a response")
    rest = f"; {', '.join(parts)}" if parts else ""
    return (
        f"{what}: accuracy {_sentence(overall.accuracy)}, {share(overall.correct, overall.n)} "
        f"{over} ({found.settings['strategy']}){rest}."
    )


def grades_page(found: Grades, ways: Sequence[str] | None = None) -> Page:
    """Return all tables with their notes; `ways` are the groupings to show, by default all."""
    tables = []
    if found.strategies:
        tables.append(_strategies(found))
    tables.append(_groups(found, ways=[*found.by] if ways is None else ways))
    if found.changes:
        tables.append(_changes(found))
    return Page(
        tables,
        notes=_notes(found),
        warnings=_warnings(found),
        signatures=[found.signature],
    )


def _sentence(one: Accuracy) -> str:
    ends = "" if one.low is None else f" [{percent(one.low)}, {percent(one.high)}]"
    return f"{percent(one.value)}%{ends}"


def _strategies(found: Grades) -> Table:
    rows: list[Row] = []
    for published in (False, True):
        sides = [one for one in found.strategies if one.settings["published"] is published]
        if published and sides:
            rows.append(["published readers"])
        rows += [
            [
                one.settings["strategy"],
                one.overall.accuracy,
                (one.overall.answered, one.overall.n),
                one.overall.accuracy_answered,
                one.overall.by_chance,
                one.counts.failed,
                one.counts.unlike_exact,
            ]
            for one in sides
        ]
    note = (
        "Accuracy in percent, over all replies. Chance: answers chosen at random. ≠ exact: replies "
        "that exact reads otherwise."
    )
    return Table("Strategies", _STRATEGIES, rows, note)


def _groups(found: Grades, *, ways: Sequence[str]) -> Table:
    captions = found.captioning["f1"] if found.captioning else {}
    rows = [_row("all", found.overall, captions, "all")]
    for way in ways:
        groups = found.by[way]
        rows.append([way_name(way)])
        rows += [
            _row(name, group, captions, _SKILLS.get(name, "") if way == "skill" else "")
            for name, group in groups.items()
        ]
    without = found.overall.accuracy.reason
    intervals = f"no intervals: {without}" if without else "intervals by bootstrap over videos"
    notes = [f"Accuracy in percent; {intervals}"]
    letter = found.baselines["frequent"]["letter"]
    notes.append(f"Frequent: always {letter}, the most common right answer")
    hidden = [way_name(way) for way in found.by if way not in ways and _divides(found, way)]
    if hidden:
        notes.append(f"With --full: {', '.join(hidden)}")
    columns = _GROUPS if captions else _GROUPS[:-1]
    return Table("Accuracy", columns, rows, ". ".join(notes) + ".")


def _row(
    name: str,
    group: Group,
    captions: Mapping[str, Mapping[str, float | None]],
    caption_type: str,
) -> Row:
    baselines = (group.baselines[one] for one in ("chance", "frequent"))
    right = (group.correct, group.n)
    cells = [place_name(name, 60), right, group.accuracy, group.accuracy_answered, *baselines]
    if captions:
        cells.append(captions[caption_type]["value"] if caption_type else None)
    return cells


def _changes(found: Grades) -> Table:
    rows: list[Row] = []
    for flag, change in found.changes.items():
        sides = (found.by[flag][side].accuracy.value for side in ("false", "true"))
        rows.append([way_name(flag), *sides, change])
    note = "Change: true divided by false, minus 1. False: all other questions of the set."
    return Table("Relative change", _CHANGES, rows, note)


def _notes(found: Grades) -> list[str]:
    counts = found.counts
    rules = ", ".join(f"{name} {thousands(number)}" for name, number in found.decided_by.items())
    scored = counted(counts.scored, "reply", "replies")
    unread = f"No answer: {thousands(counts.no_answer)} of {scored}."
    notes = [
        f"Decided by: {rules}. By chance: {thousands(counts.by_chance)}.",
        f"{unread} Empty replies: {thousands(counts.empty)}.",
    ]
    if found.settings["published"]:
        notes.append(
            f"{found.settings['strategy']} and exact read "
            f"{counted(counts.unlike_exact, 'reply', 'replies')} differently."
        )
    return notes


def _warnings(found: Grades) -> list[str]:
    reasons: dict[str, int] = {}
    for item in found.items:
        if item.reason:
            reasons[item.reason] = reasons.get(item.reason, 0) + 1
    shown = sorted(reasons.items(), key=lambda one: -one[1])[:3]
    return [
        f"Unscored: {counted(number, 'response')}: {one_line(reason, 200)}"
        for reason, number in shown
    ]
