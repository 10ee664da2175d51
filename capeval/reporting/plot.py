"""`capeval plot`: the report's figures, and human ratings, drawn for a paper."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import TypeVar

from capeval.comparing.compare import compare_judged
from capeval.comparing.comparison import Comparison
from capeval.correlation.correlate import CorrelateOptions, CorrelationInputs, read_inputs
from capeval.correlation.fields import notice_lines
from capeval.correlation.joining import join
from capeval.correlation.video_level import Analysis, analyse, protocol
from capeval.errors import UsageError
from capeval.files.jsonl import write_atomic
from capeval.files.metrics import MetricScores
from capeval.files.outputs import check_output
from capeval.files.ratings import RatingTable
from capeval.options import (
    OUTPUT,
    FilePath,
    Notices,
    annotations_option,
    command,
    declares,
    human_columns,
    human_option,
    judged_runs_argument,
    on_notice_option,
    option,
    python_only,
    required,
    runs_option,
    takes,
)
from capeval.rating.human_scores import is_comparable
from capeval.reporting.drawing import FORMATS, figure_file, require_plot_extra
from capeval.reporting.figures import Figure, Scatter, breakdowns, forest_of
from capeval.reporting.inspect import check_has_human
from capeval.runs.folder import safe_name
from capeval.scoring.counts import WAYS
from capeval.scoring.judged_run import JudgedRun, files_behind, load_judged_runs
from capeval.show.numbers import coefficient, thousands
from capeval.show.output import Output
from capeval.stats.agreement import combine
from capeval.text import Loss, nearest, shown

N = TypeVar("N", bound=str)

_WHY_EMPTY = dict.fromkeys((way.plural for way in WAYS.values()), "no caption is scored") | {
    "characteristics": "no scored video has a visual characteristic",
    "domains": "no scored video has a domain",
    "frames": "no model has runs with different numbers of frames",
    "forest": "the two runs cannot be compared",
    "scatter": "the human file yields no score of a caption",
}
# The judge's measure that each human score is compared with.
_MEASURES = {"score": "f1", "f1": "f1", "covered": "recall"}
_HUMAN = {
    "score": "Human rating",
    "f1": "F1 by human labels",
    "covered": "Covered by human labels",
}


@declares
class PlotOptions:
    """The arguments of `capeval.plot`.

    Parameters
    ----------
    what : Which figures: all, types, characteristics, domains, events, elements or frames;
        forest for two runs; scatter with human ratings.
    out : The folder to write them to.
    format : The formats: svg, pdf or png.
    """

    what: Sequence[str] = required(kind=str, positional=True, metavar="WHAT", commas=True)
    judged_runs: Sequence[FilePath] = judged_runs_argument()
    _: KW_ONLY
    out: FilePath = option("figures", metavar="DIR", panel=OUTPUT)
    format: Sequence[str] = option(("pdf",), metavar="FORMAT", commas=True, panel=OUTPUT)
    human: FilePath | None = human_option()
    columns: Mapping[str, str] | None = human_columns()
    judge: str | None = python_only(None, "Only the verdicts of this judge.")
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
    check_has_human(o.columns, o.human)
    wanted = _wanted(o)
    forms = _chosen(o.format, FORMATS, "--format")
    require_plot_extra()
    judged = load_judged_runs(
        o.judged_runs, runs=Path(o.runs), judge=o.judge, annotations=o.annotations
    )
    for line in (line for run in judged.values() for line in run.notices):
        o.on_notice(line)
    target, inputs = Path(o.out), files_behind(judged.values())
    inputs += [] if o.human is None else [Path(o.human)]
    for name in wanted:
        for form in forms:
            check_output(target / f"{name}.{form}", inputs)
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
        # Again, now that the names of all figures are known, and before the first is written.
        check_output(path, inputs)
    for path, data in files.items():
        if path.exists():
            o.on_notice(f"{path}: the earlier figure is replaced")
        write_atomic(Path(os.path.realpath(path)), data)
    return list(files)


def _wanted(o: PlotOptions) -> list[str]:
    names = _chosen(o.what, ("all", *_WHY_EMPTY), "WHAT")
    two = len(o.judged_runs) == 2
    if o.human is None and "scatter" in names:
        raise UsageError("scatter compares judges with human ratings; name their file with --human")
    if "all" in names:
        shown_by_all = {"forest": two, "scatter": o.human is not None}
        return [name for name in _WHY_EMPTY if shown_by_all.get(name, True)]
    if "forest" in names and not two:
        raise UsageError(
            f"forest shows the differences of two runs, not of {len(o.judged_runs)}; name two"
        )
    return names


def _chosen(names: Sequence[str], known: Sequence[N], option: str) -> list[N]:
    by_name = {str(one): one for one in known}
    for name in names:
        if name not in by_name:
            raise UsageError(
                f"{option}: {shown(name)} is unknown; choose from {', '.join(known)}"
                f"{nearest(name, known)}"
            )
    if not names:
        raise UsageError(f"{option} is empty; choose from {', '.join(known)}")
    return [by_name[name] for name in dict.fromkeys(names)]


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
    sides = read_inputs(
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
    scatters, warnings = scatters_of(sides, order=order)
    for line in warnings:
        o.on_notice(line)
    return [*scatters]


def scatters_of(
    sides: CorrelationInputs, *, order: Sequence[str] = ()
) -> tuple[list[Scatter], list[str]]:
    """Return a scatter plot of each judge's scores and the human scores, and warnings.

    Points are in the units of their axes: percent, or the human raters' own scale. Several raters'
    scores of a caption are averaged. A warning names the captions without a score by a judge, and
    counts those of systems that it did not judge.

    Parameters
    ----------
    order : systems that come first, so that they look the same as in other figures of these runs

    Raises
    ------
    InputError
        A judge scored none of the rated captions.
    """
    found: list[Scatter] = []
    warnings = notice_lines(sides.warnings)
    for human in sides.scores:
        if human.name not in _MEASURES:
            continue
        for judge in sides.sources.judges:
            metric = sides.sources.metrics[f"{judge}:{_MEASURES[human.name]}"]
            if is_comparable(human.name, metric.measure):
                scatter, more = _scatter(sides, human, judge, order)
                found.append(scatter)
                warnings += more
    return found, list(dict.fromkeys(warnings))


def _scatter(
    sides: CorrelationInputs, human: RatingTable, judge: str, order: Sequence[str]
) -> tuple[Scatter, Sequence[str]]:
    measure = _MEASURES[human.name]
    name = f"{judge}:{measure}"
    metric = sides.sources.metrics[name]
    mine, others = _of_these_systems(human, metric)
    joined = join(mine, [metric], "drop")
    warnings = notice_lines(joined.warnings)
    if others:
        warnings.append(
            f"{human.file}: {others:,} of {len(human.keys):,} rated captions are of other systems "
            "and left out"
        )
    settings = Analysis(protocol=protocol(None, ["kendall_b"], ["pooled"]))
    (result, *_), _, _ = analyse(joined, settings)
    scale = 1 if human.name == "score" else 100
    rated = combine(joined.ratings, "mean")
    points: dict[str, list[tuple[float, float]]] = {}
    for (_, system), x, y in zip(joined.keys, joined.metrics[name], rated, strict=True):
        if not math.isnan(y):
            points.setdefault(system or "captions", []).append((100 * float(x), scale * float(y)))
    first = [system for system in order if system in points]
    count = sum(map(len, points.values()))
    tau = "none" if result.value is None else coefficient(result.value)
    return (
        Scatter(
            name="scatter" if len(sides.sources.judges) == 1 else f"scatter-{judge}",
            x=f"{measure.title() if measure != 'f1' else 'F1'} by {judge} (%)",
            y=_HUMAN[human.name] + ("" if human.name == "score" else " (%)"),
            points={system: tuple(points[system]) for system in [*first, *points]},
            note=f"Kendall τ-b {tau}, n = {thousands(count)}",
        ),
        warnings,
    )


def _of_these_systems(human: RatingTable, metric: MetricScores) -> tuple[RatingTable, int]:
    """Return the human scores of a metric's systems, and how many are of other systems."""
    systems = {system for _, system in (*metric.scores, *metric.missing)}
    kept = [place for place, (_, system) in enumerate(human.keys) if system in systems]
    if None in systems or not kept:
        # One side names no systems, or nothing matches: joining them reports it.
        return human, 0
    return human.take(kept), len(human.keys) - len(kept)


@command("plot", options=PlotOptions)
def plot_command(o: PlotOptions, output: Output) -> None:
    """Draw figures for a paper: SVG, PDF or PNG; separate the names of figures by commas."""
    for file in plot(**vars(o)):
        output.line(str(file))
