"""The terminal tables of scores, in the manner of the TUNA paper's table 2."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from capeval.reporting.numbers import NOTHING, cell, interval, percent, share, thousands
from capeval.schema import CHARACTERISTICS, ELEMENT_TYPES
from capeval.scoring import FEWEST, Scores
from capeval.text import one_line

BASELINE_NOTE = (
    "These are scores of the lexical baseline, which compares words. "
    "It is a smoke test, not a measurement: do not report them."
)

NO_INTERVAL_NOTE = f"[{NOTHING}]: no interval, fewer than {FEWEST} videos"
"""What stands under a table of which some value has no interval."""

# The room that runs' names need before the paper's nine columns are set side by side.
_GOOD_NAME = 24


def headline(scores: Scores) -> str:
    """Return what is behind the numbers: coverage and what the method could not check."""
    counts, unmatched = scores.counts, scores.unmatched_events
    parts = [
        f"captioned {share(counts.captioned, counts.annotated)}",
        f"scored {share(counts.scored, counts.captioned)}",
    ]
    if unmatched.share is not None:
        parts.append(f"unmatched events {percent(unmatched.share)}%")
    if scores.repeat_spread:
        spread = scores.repeat_spread
        parts.append(
            f"{spread.repeats} repeats: F1 sd {100 * spread.f1_sd:.2f}, "
            f"{percent(spread.unanimous)}% of elements unanimous"
        )
    return ", ".join(parts)


def unscored_lines(name: str, unscored: Mapping[str, str], most: int = 5) -> list[str]:
    """Return why captions are unscored, a line each and no more than `most` of them."""
    lines = [
        one_line(f"{name}: {index} is unscored: {reason}", 600)
        for index, reason in list(unscored.items())[:most]
    ]
    left = len(unscored) - most
    return [*lines, f"{one_line(name)}: {thousands(left)} more are unscored"] if left > 0 else lines


def print_scores(
    results: Mapping[str, Scores],
    console: Console,
    *,
    full: bool = False,  # noqa: ARG001
) -> None:
    """Print the tables of one or more runs, their coverage and signatures."""
    if not results:
        return
    named = {one_line(name): scores for name, scores in results.items()}
    tables = _tables(named, console)
    if any(_width(table) > console.width for table in tables):
        # Where names do not fit, rows bear numbers, and the lines below say whose they are.
        named = {f"[{n}]": scores for n, scores in enumerate(results.values(), start=1)}
        tables = _tables(named, console)
    for table in tables:
        # A number is never cut: the terminal wraps the line instead.
        table.width = max(_width(table), 1)
        console.print(table, crop=False)
        if table is tables[-1] and any(map(_lacks_interval, results.values())):
            console.print(Text(NO_INTERVAL_NOTE, style="dim"), soft_wrap=True)
        console.print()
    for label, (name, scores) in zip(named, results.items(), strict=True):
        # Text, not markup: names and signatures are data. One line each, so that it can be copied.
        told = one_line(name) if label == one_line(name) else f"{label} {one_line(name)}"
        console.print(Text(f"{told}: {headline(scores)}"), soft_wrap=True)
        console.print(Text(f"  {scores.signature}", style="dim"), soft_wrap=True)
    if any(scores.settings.get("baseline") for scores in results.values()):
        console.print(Text(BASELINE_NOTE, style="yellow"))


def _lacks_interval(scores: Scores) -> bool:
    """Say whether the one value that is shown with its interval has none."""
    f1 = scores.overall.all.f1
    return f1.value is not None and (f1.low is None or f1.high is None)


_RUN = "Run"
_Column = tuple[str, Callable[[Scores], str]]


def _width(table: Table) -> int:
    """Return the width of a table in which nothing is folded."""
    return Console(width=100_000, file=io.StringIO()).measure(table).maximum


def _tables(results: Mapping[str, Scores], console: Console) -> list[Table]:
    types: list[_Column] = [(name.title(), _of_type(name)) for name in ELEMENT_TYPES]
    kinds: list[_Column] = [(name, _of_characteristic(name)) for name in CHARACTERISTICS]
    overall: list[_Column] = [
        ("Overall", lambda scores: cell(scores.overall.all)),
        ("F1 [95% interval]", lambda scores: interval(scores.overall.all.f1)),
        ("Scored", lambda scores: share(scores.counts.scored, scores.counts.captioned)),
    ]
    if any(of.counts.captioned != of.counts.annotated for of in results.values()):
        overall.insert(-1, ("Captioned", _captioned))
    wide = _table("TUNA-CAP: precision/recall/F1, %", results, [*types, *kinds, *overall])
    longest = max(cell_len(heading) for heading in (_RUN, *results))
    if _width(wide) - longest + min(longest, _GOOD_NAME) <= console.width:
        return [wide]
    return [
        _table("TUNA-CAP by type of element: precision/recall/F1, %", results, types),
        _table("By visual characteristic", results, kinds),
        _table("Overall", results, overall),
    ]


def _captioned(scores: Scores) -> str:
    return share(scores.counts.captioned, scores.counts.annotated)


def _of_type(name: str) -> Callable[[Scores], str]:
    return lambda scores: cell(getattr(scores.overall, name))


def _of_characteristic(name: str) -> Callable[[Scores], str]:
    def shown(scores: Scores) -> str:
        bucket = scores.by.visual_characteristic.get(name)
        return cell(bucket.all) if bucket else NOTHING

    return shown


def _table(title: str, results: Mapping[str, Scores], columns: Sequence[_Column]) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column(_RUN, no_wrap=True)
    for heading, _ in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for name, scores in results.items():
        table.add_row(Text(name), *(Text(shown(scores)) for _, shown in columns))
    return table
