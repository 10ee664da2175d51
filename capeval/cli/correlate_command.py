"""`capeval correlate`."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from capeval.cli.options import RunAnnotations, Runs

HELP = """Hold metrics against people: does the judge rank captions as they do?

The human file is CSV (commas, semicolons or tabs) or JSON lines of `video_id, system?, rater?` with
`score`, or with `element_id, label`; or wide, with `human, human_2, ...`. Without --auto and
--metric-cols, every judged run under runs/ is taken; where there is none of yours, the judged
sample.
"""


class _Missing(StrEnum):
    error = "error"
    drop = "drop"


class _Interval(StrEnum):
    bootstrap = "bootstrap"
    analytic = "analytic"
    none = "none"


class _Format(StrEnum):
    table = "table"
    markdown = "markdown"
    latex = "latex"


class _Raters(StrEnum):
    mean = "mean"
    median = "median"
    zmean = "zmean"
    each = "each"


def correlate(
    human: Annotated[Path, typer.Option(help="What people said.", show_default=False)],
    auto: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=PATH of a metric: a judged run, a judgments.jsonl, a metrics.jsonl, or a "
            "CSV of video_id, system?, score. Repeatable; one NAME may have several files.",
            show_default=False,
        ),
    ] = None,
    metric_cols: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns of the human file that hold metrics; commas, or again.",
            show_default=False,
        ),
    ] = None,
    annotations: RunAnnotations = None,
    missing: Annotated[
        _Missing, typer.Option(help="Captions that people rated and a metric has no score of.")
    ] = _Missing.error,
    raters: Annotated[
        _Raters,
        typer.Option(help="How several raters are made one; 'each' keeps them apart."),
    ] = _Raters.mean,
    ci: Annotated[
        _Interval | None,
        typer.Option(help="Kind of intervals; else what fits each.", show_default=False),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            min=99,
            help="Draws of every bootstrap and permutation; else 10,000 for intervals, 2,000 for "
            "p, 1,000 for comparisons.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the statistics.")] = 0,
    protocol: Annotated[
        str | None, typer.Option(help="Only what 'tuna' or 'wmt23' takes.", show_default=False)
    ] = None,
    statistic: Annotated[
        list[str] | None,
        typer.Option(
            help="Only these of kendall_b, kendall_c, spearman, pearson, acc_eq.",
            show_default=False,
        ),
    ] = None,
    grouping: Annotated[
        list[str] | None,
        typer.Option(help="Only these of pooled, item, within_system, system.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Also write correlations.json here.", show_default=False)
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print correlations.json alone on stdout.")
    ] = False,
    form: Annotated[
        _Format | None,
        typer.Option("--format", help="Of the tables; 'table' without.", show_default=False),
    ] = None,
    published: Annotated[
        bool, typer.Option("--published", help="Add the TUNA paper's table 3 for reference.")
    ] = False,
    runs: Runs = Path("runs"),
) -> None:
    """Hold metrics against people."""
    from rich.console import Console

    from capeval.correlation.from_files import Question, correlate_files
    from capeval.correlation.protocols import protocol as protocol_of
    from capeval.correlation.video_level import Settings
    from capeval.errors import UsageError
    from capeval.files.jsonl import dumps
    from capeval.reporting.correlations.tables import print_correlations
    from capeval.runs.outputs import check_output, write_output
    from capeval.runs.sources import files_read
    from capeval.text import one_line

    if as_json and form is not None:
        raise UsageError("--format is of the tables, and --json prints none; leave one of them out")
    columns = _parts(metric_cols)
    if metric_cols and not columns:
        raise UsageError("--metric-cols names no column")
    question = Question(
        human=human,
        auto=tuple(_named(text, runs) for text in auto or ()),
        metric_columns=tuple(columns),
        annotations=annotations,
        runs=runs,
        missing=missing.value,
        published=published,
    )
    settings = Settings(
        protocol=protocol_of(protocol, _parts(statistic), _parts(grouping)),
        ci=ci.value if ci else None,
        draws=draws,
        seed=seed,
        raters=raters.value,
    )
    if out is not None:
        every = not question.auto and not columns
        named = [path for _, path in question.auto]
        check_output(out, [human, *files_read(named, annotations, runs if every else None)])
    found = correlate_files(question, settings)
    text = dumps(found.model_dump(mode="json"), indent=1)
    if out is not None:
        write_output(out, text + "\n")
    for line in found.warnings:
        sys.stderr.write(f"warning: {one_line(line, 600)}\n")
    if as_json:
        typer.echo(text)
    else:
        print_correlations(found, Console(), form=(form or _Format.table).value)


def _parts(values: list[str] | None) -> list[str]:
    return [part.strip() for value in values or () for part in value.split(",") if part.strip()]


def _named(text: str, runs: Path) -> tuple[str, Path]:
    from capeval.errors import UsageError
    from capeval.runs.resolve import find_metric

    name, mark, path = text.partition("=")
    if not mark or not name.strip() or not path.strip():
        raise UsageError(f"--auto: {text!r} must be NAME=PATH")
    if not name.isprintable():
        raise UsageError(f"--auto: {name!r} has characters that no name may have")
    return name.strip(), find_metric(path.strip(), runs)
