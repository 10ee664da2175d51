"""`capeval.plot`: the report's figures, drawn for a paper."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from capeval.api.run_options import PlotOptions, check_has_human
from capeval.correlation.correlate import CorrelateOptions, read_inputs
from capeval.errors import UsageError
from capeval.files.jsonl import write_atomic
from capeval.files.outputs import check_output
from capeval.options import takes
from capeval.reporting.figures import Figure, breakdowns, forest_of
from capeval.reporting.human_figures import scatters_of
from capeval.reporting.plots import FORMATS, rendered, require_plot_extra
from capeval.runs.comparing import compare_judged
from capeval.runs.folder import safe_name
from capeval.scoring.comparison_result import Comparison
from capeval.scoring.judged_run import JudgedRun, files_behind, load_judged_runs
from capeval.text import Loss, nearest, shown

N = TypeVar("N", bound=str)

_WHY_EMPTY = {
    "types": "no caption is scored",
    "characteristics": "no scored video has a visual characteristic",
    "domains": "no scored video has a domain",
    "events": "no caption is scored",
    "elements": "no caption is scored",
    "frames": "no model has runs with different numbers of frames",
    "forest": "the two runs cannot be compared",
    "scatter": "the human file yields no score of a caption",
}


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
                files[file] = rendered(figure, form)
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
    """Return the figures that need no human ratings, by name."""
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
    """Return the figures that compare judges with human ratings."""
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
