"""The table of `capeval metrics` and the sentence that sums it up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from rich.console import Console

from capeval.metrics.protocol import Output, Summary
from capeval.metrics.run import MetricResult
from capeval.reporting.formats import Format, rendered
from capeval.reporting.numbers import NOTHING, percent, rating, share, tenths
from capeval.reporting.table import Column, Page, Row, Table
from capeval.reporting.terminal import print_line, print_pages
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
            f"{output.name} {value_of(output, result.summaries[output.name])}"
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
    ends = [f"{value_of(output, values[name])} ({name})" for name in (ordered[0], ordered[-1])]
    return " to ".join(dict.fromkeys(ends))


def value_of(output: Output, summary: Summary) -> str:
    """Return a value as it is shown: fractions as percentages."""
    if summary.value is None:
        return NOTHING
    if output.unit == "fraction":
        return percent(summary.value)
    return tenths(summary.value) if output.scale is None else rating(summary.value)


def _unit(output: Output) -> str:
    """Return what a column of values is in, for its heading."""
    if output.unit == "fraction":
        return "%"
    if output.scale is not None:
        return "{} to {}".format(*output.scale)
    return "" if output.unit == "number" else one_line(output.unit, 20)


def metrics_page(found: Sequence[Named]) -> Page:
    """Return the table with its notes and signatures."""
    results = [result for one in found for result in one.results]
    outputs = {output.name: output for result in results for output in result.metric.outputs}
    rows: list[Row] = []
    for one in found:
        cells = {
            output.name: value_of(output, result.summaries[output.name])
            for result in one.results
            for output in result.metric.outputs
        }
        # Where metrics differ, a note has all of them.
        worst = min(one.results, key=lambda result: (result.scored, -result.captioned))
        scored = share(worst.scored, worst.captioned)
        name = one_line(one.name, 60)
        rows.append([name, *(cells.get(output, NOTHING) for output in outputs), scored])
    columns = [
        Column("System", words=True),
        *(Column(name, under=_unit(output)) for name, output in outputs.items()),
        Column("scored"),
    ]
    notes = []
    if controls := [output.name for output in outputs.values() if output.control]:
        notes.append(f"Controls, which a metric must exceed: {', '.join(controls)}.")
    for one in found:
        if len({(result.scored, result.captioned) for result in one.results}) > 1:
            counts = ", ".join(
                f"{result.metric.name} {share(result.scored, result.captioned)}"
                for result in one.results
            )
            notes.append(f"{one_line(one.name, 60)}: scored by {counts}.")
        for result in one.results:
            for name, summary in result.summaries.items():
                if summary.undefined:
                    notes.append(
                        f"{one_line(one.name, 60)}: {name} is undefined for {summary.undefined:,} "
                        "of the scored captions, which are left out."
                    )
    signatures = [*dict.fromkeys(result.metric.signature for result in results)]
    table = Table("Metrics", columns, rows)
    tables = [table, *_tables_of_groups(found[0].results if len(found) == 1 else ())]
    if len(found) > 1 and any(one.groups for each in results for one in each.summaries.values()):
        notes.append("Values of each group: --json, or measure one system.")
    return Page(tables=tables, notes=notes, signatures=signatures)


def _tables_of_groups(results: Sequence[MetricResult]) -> list[Table]:
    """Return a table for each metric that averages over groups of one system's captions."""
    tables = []
    for result in results:
        summaries = {
            output: one
            for output in result.metric.outputs
            if (one := result.summaries[output.name]).groups
        }
        names = dict.fromkeys(name for one in summaries.values() for name in one.groups)
        rows: list[Row] = [
            [
                one_line(name, 60),
                *(
                    value_of(output, replace(one, value=one.groups.get(name)))
                    for output, one in summaries.items()
                ),
            ]
            for name in names
        ]
        if rows:
            columns = [Column("group", words=True), *(Column(one.name) for one in summaries)]
            tables.append(Table(f"{result.metric.name} by group", columns, rows))
    return tables
