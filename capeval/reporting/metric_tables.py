"""The table of `capeval metrics` and the sentence that sums it up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from rich.console import Console

from capeval.metrics.protocol import Output, Summary
from capeval.metrics.run import MetricResult
from capeval.show.formats import Format, rendered
from capeval.show.numbers import NOTHING, share, tenths
from capeval.show.table import PERCENT, SHARE, Column, Kind, Page, Row, Table
from capeval.show.terminal import print_line, print_pages
from capeval.text import counted, one_line

# Metrics whose values are in the headline; the table has them all.
_NAMED = 3


class Named(Protocol):
    """A target's results."""

    @property
    def name(self) -> str:
        """The run, or the candidates."""
        ...

    @property
    def results(self) -> Sequence[MetricResult]:
        """One for each metric."""
        ...


def print_metrics(found: Sequence[Named], console: Console, *, form: Format = "table") -> None:
    """Print a headline and a table with a row for each target and a column for each output."""
    page = metrics_page(found)
    if form != "table":
        print_line(rendered([page], form), console)
        return
    print_pages([page], console, headline=metrics_headline(found))


def metrics_headline(found: Sequence[Named]) -> str:
    """Return the values of one target in a sentence, or what the table has."""
    if len(found) == 1:
        one = found[0]
        parts = [
            f"{output.name} {shown_value(output, result.summaries[output.name])}"
            f" (scored {share(result.scored, result.captioned)})"
            for result in one.results
            for output in result.metric.outputs
        ]
        return f"{one_line(one.name, 60)}: {', '.join(parts)}."
    parts = [
        f"{output.name} {_extremes(found, output)}"
        for result in found[0].results
        for output in result.metric.outputs
    ]
    scored = sum(result.scored for one in found for result in one.results)
    captioned = sum(result.captioned for one in found for result in one.results)
    captions = sum(max(result.captioned for result in one.results) for one in found)
    how = (
        f"all {counted(captions, 'caption')} scored"
        if scored == captioned
        else f"scored {share(scored, captioned)} values of {counted(captions, 'caption')}"
    )
    more = [f"and {len(parts) - _NAMED} more"] if len(parts) > _NAMED else []
    return f"{', '.join([*parts[:_NAMED], *more])}; {how}."


def _extremes(found: Sequence[Named], output: Output) -> str:
    """Return the lowest and the highest value of several systems, with their names."""
    values = {
        one_line(one.name, 60): summary
        for one in found
        for result in one.results
        if (summary := result.summaries.get(output.name)) and summary.value is not None
    }
    if not values:
        return NOTHING
    ordered = sorted(values, key=lambda name: values[name].value or 0.0)
    ends = [f"{shown_value(output, values[name])} ({name})" for name in (ordered[0], ordered[-1])]
    return " to ".join(dict.fromkeys(ends))


def shown_value(output: Output, summary: Summary) -> str:
    """Return a value as it is shown: fractions as percentages."""
    return _column(output).shown(summary.value).text


def _column(output: Output) -> Column:
    if output.unit == "fraction":
        return Column(output.name, under="%", kind=PERCENT)
    unit = "" if output.unit == "number" else one_line(output.unit, 20)
    return Column(output.name, under=unit, kind=Kind(tenths))


def metrics_page(found: Sequence[Named]) -> Page:
    """Return the table with its notes and signatures."""
    results = [result for one in found for result in one.results]
    outputs = {output.name: output for result in results for output in result.metric.outputs}
    columns = [_SYSTEM, *map(_column, outputs.values()), Column("scored", kind=SHARE)]
    table = Table("Metrics", columns)
    notes = []
    if controls := [output.name for output in outputs.values() if output.control]:
        notes.append(f"Controls, which a metric must exceed: {', '.join(controls)}.")
    for one in found:
        values = {
            name: summary.value
            for result in one.results
            for name, summary in result.summaries.items()
        }
        # Where metrics differ, a note has all of them.
        worst = min(one.results, key=lambda result: (result.scored, -result.captioned))
        scored = (worst.scored, worst.captioned)
        table.rows.append([one.name, *(values.get(name) for name in outputs), scored])
        notes += _notes(one)
    tables = [table, *_tables_of_groups(found[0].results if len(found) == 1 else ())]
    if len(found) > 1 and any(one.groups for each in results for one in each.summaries.values()):
        notes.append("Values of each group: --json, or measure one system.")
    signatures = [*dict.fromkeys(result.metric.signature for result in results)]
    return Page(tables=tables, notes=notes, signatures=signatures)


_NAME = Kind(lambda name: one_line(name, 60))
_SYSTEM = Column("System", words=True, kind=_NAME)


def _notes(one: Named) -> Iterator[str]:
    """Yield what is scored by each metric, if they differ, and what is undefined."""
    if len({(result.scored, result.captioned) for result in one.results}) > 1:
        counts = ", ".join(
            f"{result.metric.name} {share(result.scored, result.captioned)}"
            for result in one.results
        )
        yield f"{one_line(one.name, 60)}: scored by {counts}."
    for result in one.results:
        for name, summary in result.summaries.items():
            if summary.undefined:
                yield (
                    f"{one_line(one.name, 60)}: {name} is undefined for {summary.undefined:,} "
                    "of the scored captions, which are left out."
                )


def _tables_of_groups(results: Sequence[MetricResult]) -> list[Table]:
    """Return a table for each metric that averages over groups of one system's captions."""
    tables = []
    for result in results:
        outputs = [one for one in result.metric.outputs if result.summaries[one.name].groups]
        by_output = [result.summaries[one.name].groups for one in outputs]
        columns = [Column("group", words=True, kind=_NAME)]
        columns += [replace(_column(one), under="") for one in outputs]
        rows: list[Row] = [
            [name, *(groups.get(name) for groups in by_output)]
            for name in dict.fromkeys(name for groups in by_output for name in groups)
        ]
        if rows:
            tables.append(Table(f"{result.metric.name} by group", columns, rows))
    return tables
