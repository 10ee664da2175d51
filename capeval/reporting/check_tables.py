"""A set of annotations that was checked: its problems, warnings and statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console

from capeval.files.checking import Finding, SetCheck, Totals
from capeval.schema import CHARACTERISTICS, ELEMENT_TYPES
from capeval.show.numbers import tenths
from capeval.show.table import COUNT, PERCENT, Kind, Page, Table, columns
from capeval.show.terminal import print_line, print_pages
from capeval.text import counted

# Of warnings; problems are always printed, all of them.
_MOST = 15
_MEAN = Kind(tenths)
_MEASURES = {
    "seconds": "Seconds",
    "events": "Events",
    "elements": "Elements",
    "elements_per_event": "Elements per event",
    "tokens": "Tokens",
}


def print_check(found: SetCheck, console: Console, *, full: bool = False) -> None:
    """Print a headline, a line for each problem and warning, and the statistics."""
    print_line(headline(found), console)
    for problem in found.problems:
        print_line(str(problem), console, style="red")
    shown = found.warnings if full else found.warnings[:_MOST]
    for warning in shown:
        print_line(f"warning: {warning}", console)
    if left := len(found.warnings) - len(shown):
        print_line(f"{counted(left, 'more warning')}: --full", console)
    if found.total.videos:
        print_pages([statistics(found)], console)


def headline(found: SetCheck) -> str:
    """Return how many problems and warnings there are."""
    count = counted(found.total.videos, "valid video")
    problems = counted(len(found.problems), "problem") if found.problems else "no problems"
    return f"{found.file}: {problems}, {counted(len(found.warnings), 'warning')}; {count}."


def statistics(found: SetCheck) -> Page:
    """Return the tables of videos, by characteristic and domain, and of elements by type."""
    sizes = Table(
        "",
        columns("Group", ("Videos", COUNT), *((name, _MEAN) for name in _MEASURES.values())),
        note="Means per video; tokens are words and punctuation marks of the events."
        + ("" if found.total.timed else " Seconds: with --videos."),
    )
    for name, group in _groups(found).items():
        sizes.rows.append([name, group.videos, *group.means().values()])
    types = Table(
        "Elements",
        columns(
            "Type",
            ("Elements", COUNT),
            ("Share %", PERCENT),
            ("Per video", _MEAN),
            *((f"Weight {weight}", COUNT) for weight in (3, 2, 1)),
        ),
    )
    for kind in ELEMENT_TYPES:
        counts = [found.weights[kind, weight] for weight in (3, 2, 1)]
        share = sum(counts) / found.total.elements
        types.rows.append([kind, sum(counts), share, sum(counts) / found.total.videos, *counts])
    return Page([sizes, types])


def _groups(found: SetCheck) -> Mapping[str, Totals]:
    known = (name for name in CHARACTERISTICS if name in found.characteristics)
    characteristics = {name: found.characteristics[name] for name in known}
    return {"all": found.total} | characteristics | dict(sorted(found.domains.items()))


def check_json(found: SetCheck) -> dict[str, Any]:
    """Return everything as JSON values."""

    def lines(findings: list[Finding]) -> list[dict[str, Any]]:
        return [asdict(one) for one in findings]

    def group(totals: Totals) -> dict[str, Any]:
        return {"videos": totals.videos, **totals.means()}

    return {
        "file": str(found.file),
        "problems": lines(found.problems),
        "warnings": lines(found.warnings),
        "total": group(found.total),
        "visual_characteristic": {name: group(of) for name, of in found.characteristics.items()},
        "domain": {name: group(of) for name, of in found.domains.items()},
        "types": {
            kind: {str(weight): found.weights[kind, weight] for weight in (1, 2, 3)}
            for kind in ELEMENT_TYPES
        },
    }
