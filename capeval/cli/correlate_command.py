"""`capeval correlate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from capeval.cli import options


def correlate(
    human: Annotated[Path, options.optional("FILE", "Human ratings or labels.")],
    metric: Annotated[
        list[str] | None,
        options.optional(
            "NAME=PATH",
            "A metric: a judged run, a judgments.jsonl, a metrics.jsonl, or a CSV of "
            "video_id, system?, score. Repeatable; one NAME may have several files.",
        ),
    ] = None,
    metric_columns: Annotated[
        list[str] | None,
        options.optional(
            "COLUMN",
            "Columns of the human file that contain metrics; repeat the option or separate "
            "them by commas.",
        ),
    ] = None,
    annotations: options.RunAnnotations = None,
    missing: Annotated[
        Literal["error", "drop"],
        typer.Option(
            metavar="ACTION", help="If a rated caption has no score: stop (error) or drop it."
        ),
    ] = "error",
    raters: Annotated[
        Literal["mean", "median", "zmean", "each"],
        typer.Option(
            metavar="MODE",
            help="How the ratings of several raters are aggregated: mean, median, zmean; or each "
            "to keep the raters apart.",
        ),
    ] = "mean",
    ci: Annotated[
        Literal["bootstrap", "analytic", "none"] | None,
        options.optional(
            "KIND",
            "Kind of intervals: bootstrap, analytic or none. By default what suits each statistic.",
        ),
    ] = None,
    resamples: options.Resamples = None,
    seed: options.Seed = 0,
    protocol: Annotated[
        str | None,
        options.optional("NAME", "Only the statistics of a published protocol: tuna or wmt23."),
    ] = None,
    statistic: Annotated[
        list[str] | None,
        options.optional("NAME", "Only these of kendall_b, kendall_c, spearman, pearson, acc_eq."),
    ] = None,
    grouping: Annotated[
        list[str] | None,
        options.optional("NAME", "Only these of pooled, item, within_system, system."),
    ] = None,
    published: Annotated[
        bool, typer.Option("--published", help="Add the TUNA paper's table 3 for reference.")
    ] = False,
    out: options.OutFile = None,
    as_json: options.Json = False,
    form: options.TableFormat = None,
    full: options.Full = False,
    quiet: options.Quiet = False,
    runs: options.Runs = Path("runs"),
) -> None:
    """Correlate metrics with human ratings: does the judge rank captions as humans do?

    The human file is CSV (commas, semicolons or tabs) or JSON lines of `video_id, system?, rater?`
    with `score`, or with `element_id, label`; or wide, with `human, human_2, ...`.

    Without --metric and --metric-columns, the metrics are all judged runs under runs/; if there is
    none of yours, the judged sample.
    """
    from capeval.api import correlating
    from capeval.cli.output import Output
    from capeval.reporting.correlations.tables import print_correlations

    options.check_format(form, as_json=as_json)
    output = Output(quiet=quiet)
    found = correlating.correlate(
        human,
        _metrics(metric or ()),
        metric_columns=options.listed(metric_columns, "--metric-columns"),
        annotations=annotations,
        runs=runs,
        missing=missing,
        raters=raters,
        ci=ci,
        resamples=resamples,
        seed=seed,
        protocol=protocol,
        statistics=options.listed(statistic, "--statistic"),
        groupings=options.listed(grouping, "--grouping"),
        published=published,
        out=out,
    )
    for line in found.warnings:
        output.warning(line)
    if as_json:
        output.json(found)
    else:
        print_correlations(found, output.console, form=form or "table", full=full)


def _metrics(texts: list[str] | tuple[()]) -> dict[str, list[str]]:
    from capeval.errors import UsageError

    found: dict[str, list[str]] = {}
    for text in texts:
        name, mark, path = text.partition("=")
        if not mark or not name.strip() or not path.strip():
            raise UsageError(f"--metric: {text!r} must be NAME=PATH")
        if not name.isprintable():
            raise UsageError(f"--metric: the name {name!r} has control characters; choose another")
        found.setdefault(name.strip(), []).append(path.strip())
    return found
