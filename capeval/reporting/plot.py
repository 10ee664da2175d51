"""`capeval plot`: the report's figures, and human ratings, drawn for a paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import ClassVar, Literal, cast

import numpy as np

from capeval.comparing.compare import compare_judged
from capeval.comparing.comparison import Comparison
from capeval.correlation.correlate import CorrelateOptions, CorrelationInputs, read_inputs
from capeval.correlation.fields import Notice, notice_lines
from capeval.correlation.joining import Joined, join
from capeval.errors import MissingExtra, UsageError
from capeval.files.jsonl import check_output, write_atomic
from capeval.options import (
    COLUMNS_OF_HUMAN,
    OUTPUT,
    FilePath,
    Notices,
    annotations_option,
    command,
    declares,
    human_columns,
    human_option,
    judge_option,
    judged_runs_argument,
    on_notice_option,
    option,
    required,
    runs_option,
    takes,
)
from capeval.rating.human_scores import is_comparable
from capeval.reporting.figures import (
    Figure,
    FigureFormat,
    Scatter,
    breakdowns,
    figure_file,
    forest_of,
)
from capeval.runs.folder import safe_name
from capeval.scoring.counts import WAYS
from capeval.scoring.judged_run import JudgedRun, files_behind, load_judged_runs
from capeval.show.numbers import coefficient, thousands
from capeval.show.result import Output
from capeval.stats.agreement import combine
from capeval.text import Loss

What = Literal[
    "all",
    "types",
    "characteristics",
    "domains",
    "events",
    "elements",
    "frames",
    "forest",
    "scatter",
]

_WHY_EMPTY = dict.fromkeys((way.plural for way in WAYS.values()), "no caption is scored") | {
    "characteristics": "no scored video has a visual characteristic",
    "domains": "no scored video has a domain",
    "frames": "no model has runs with different numbers of frames",
    "forest": "the two runs cannot be compared",
    "scatter": "the human file gives no caption a score",
}
# The judge's measure that each human score is compared with, and the label of its axis.
_MEASURES = {
    "score": ("f1", "Human rating"),
    "f1": ("f1", "F1 by human labels (%)"),
    "covered": ("recall", "Covered by human labels (%)"),
}


@declares
class PlotOptions:
    """The arguments of `capeval.plot`.

    Parameters
    ----------
    what : Which figures: all, types, characteristics, domains, events, elements or frames;
        forest for two runs; scatter with human ratings. Separate several by commas.
    out : The folder to write them to.
    format : The formats: svg, pdf or png.
    """

    rules: ClassVar = (COLUMNS_OF_HUMAN,)
    what: What | Sequence[What] = required(kind=str, positional=True, metavar="WHAT", commas=True)
    judged_runs: Sequence[FilePath] = judged_runs_argument()
    _: KW_ONLY
    out: FilePath = option("figures", metavar="DIR", panel=OUTPUT)
    format: FigureFormat | Sequence[FigureFormat] = option(
        ("pdf",), metavar="FORMAT", commas=True, panel=OUTPUT
    )
    human: FilePath | None = human_option()
    columns: Mapping[str, str] | None = human_columns()
    judge: str | None = judge_option()
    annotations: FilePath | None = annotations_option()
    runs: FilePath = runs_option()
    on_notice: Notices = on_notice_option()


@takes(PlotOptions)
def plot(o: PlotOptions) -> list[Path]:
    """Draw figures and return their files.

    Raises
    ------
    InputError, UsageError
        A run cannot be loaded, every figure would be empty, or `out` cannot be written.
    MissingExtra
        matplotlib is not installed.
    """
    wanted = _wanted(o)
    forms = cast(list[FigureFormat], list(dict.fromkeys(o.format)))
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtra("figures need matplotlib", "plot") from None
    judged = load_judged_runs(
        o.judged_runs, runs=Path(o.runs), judge=o.judge, annotations=o.annotations
    )
    for line in (line for run in judged.values() for line in run.notices):
        o.on_notice(line)
    target, inputs = Path(o.out), files_behind(judged.values())
    inputs += [] if o.human is None else [Path(o.human)]
    drawings = _of_runs(judged, wanted, o)
    if o.human is not None and "scatter" in wanted:
        drawings["scatter"] = _scatters(judged, Path(o.human), o)
    files: dict[Path, bytes] = {}
    for name in wanted:
        drawn = [figure for figure in drawings[name] if not figure.empty]
        if not drawn:
            o.on_notice(f"{name}: left out, {_WHY_EMPTY[name]}")
        for figure in drawn:
            for form in forms:
                file = target / f"{safe_name(figure.name)}.{form}"
                files[file] = figure_file(figure, form)
    if not files:
        raise UsageError(f"nothing to draw: {', '.join(wanted)} would be empty")
    for path in files:
        check_output(path, inputs)
    for path, data in files.items():
        write_atomic(path, data)
    return list(files)


def _wanted(o: PlotOptions) -> list[str]:
    two = len(o.judged_runs) == 2
    if o.human is None and "scatter" in o.what:
        raise UsageError("scatter compares judges with human ratings; name their file with --human")
    if "all" in o.what:
        shown_by_all = {"forest": two, "scatter": o.human is not None}
        return [name for name in _WHY_EMPTY if shown_by_all.get(name, True)]
    if "forest" in o.what and not two:
        raise UsageError(
            f"forest shows the differences of two runs, not of {len(o.judged_runs)}; name two"
        )
    return list(dict.fromkeys(o.what))


def _of_runs(
    judged: Mapping[str, JudgedRun], wanted: Sequence[str], o: PlotOptions
) -> dict[str, list[Figure]]:
    found: dict[str, list[Figure]] = {name: [] for name in wanted}
    if set(wanted) - {"forest", "scatter"}:
        found |= {name: [grid] for name, grid in breakdowns(judged).items()}
    if "forest" in wanted:
        try:
            compared = compare_judged(judged)
        except UsageError as error:
            o.on_notice(str(error))
        else:
            found["forest"] = [forest_of(compared)] if isinstance(compared, Comparison) else []
    return found


def _scatters(judged: Mapping[str, JudgedRun], human: Path, o: PlotOptions) -> list[Figure]:
    scored = [run for run in judged.values() if run.scored] or list(judged.values())
    for name, run in judged.items():
        if not run.scored and scored[0].scored:
            o.on_notice(Loss(f"{name}: left out of scatter, no caption is scored"))
    files: dict[str, list[Path]] = {}
    for run in scored:
        files.setdefault(run.file.parent.name, []).append(run.file)
    inputs = read_inputs(
        CorrelateOptions(
            human=human,
            metric=files,
            annotations=o.annotations,
            missing="drop",
            columns=o.columns,
            on_notice=o.on_notice,
        )
    )
    order = [name for run in judged.values() for name in (run.name, run.model) if name]
    scatters, warnings = scatters_of(inputs, order=order)
    for line in warnings:
        o.on_notice(line)
    return [*scatters]


def scatters_of(
    inputs: CorrelationInputs, *, order: Sequence[str] = ()
) -> tuple[list[Scatter], list[str]]:
    """Return a scatter plot of each judge's scores and the human scores, and warnings.

    Points are in the units of their axes: percent, or the human raters' own scale. Several raters'
    scores of a caption are averaged. Systems in `order` come first, so that they look the same as
    in other figures of these runs.

    Raises `InputError` if a judge scored none of the rated captions.
    """
    found: list[Scatter] = []
    warnings: list[Notice] = [*inputs.warnings]
    for human in inputs.scores:
        if human.name not in _MEASURES:
            continue
        measure, label = _MEASURES[human.name]
        for judge in inputs.sources.judges:
            metric = inputs.sources.metrics[f"{judge}:{measure}"]
            if not is_comparable(human.name, metric.measure):
                continue
            joined = join(human, [metric], "drop")
            warnings += joined.warnings
            name = "scatter" if len(inputs.sources.judges) == 1 else f"scatter-{judge}"
            x = f"{'F1' if measure == 'f1' else measure.title()} by {judge} (%)"
            found.append(_scatter(name, x, label, joined, order))
    return found, list(dict.fromkeys(notice_lines(warnings)))


def _scatter(name: str, x: str, y: str, joined: Joined, order: Sequence[str]) -> Scatter:
    from scipy.stats import kendalltau

    (scores,) = joined.metrics.values()
    rated = combine(joined.ratings, "mean")
    known = ~np.isnan(rated)
    tau = kendalltau(scores[known], rated[known]).statistic
    scale = 100 if y.endswith("(%)") else 1
    points: dict[str, list[tuple[float, float]]] = {}
    for (_, system), score, rating in zip(joined.keys, scores, rated, strict=True):
        if not math.isnan(rating):
            points.setdefault(system or "captions", []).append(
                (100 * float(score), scale * float(rating))
            )
    first = [system for system in order if system in points]
    value = "none" if math.isnan(tau) else coefficient(float(tau))
    return Scatter(
        name=name,
        x=x,
        y=y,
        points={system: tuple(points[system]) for system in [*first, *points]},
        note=f"Kendall τ-b {value}, n = {thousands(int(known.sum()))}",
    )


@command("plot", options=PlotOptions)
def plot_command(o: PlotOptions, output: Output) -> None:
    """Draw figures for a paper, as SVG, PDF or PNG."""
    for file in plot(**vars(o)):
        output.line(str(file))
