"""`capeval plot`."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capeval.cli.options import JudgedRuns, RunAnnotations, Runs, WhichJudge

if TYPE_CHECKING:
    from capeval.reporting.figures import Figure
    from capeval.runs.judged_run import JudgedRun


HELP = (
    "Draw what the report shows as figures for a paper: SVG, PDF or PNG.\n\n"
    "WHAT is all, or some of these, separated by commas: types, characteristics, domains, events, "
    "elements, frames; of two runs forest (the second's F1 less the first's); with --human "
    "scatter and confusion."
)

_OF_RUNS = ("types", "characteristics", "domains", "events", "elements", "frames")
_OF_TWO = "forest"
_OF_PEOPLE = ("scatter", "confusion")


class _Width(StrEnum):
    column = "column"
    text = "text"


def _folder(typed: str | Path) -> Path:
    from capeval.errors import UsageError

    # As a path it would be the working folder.
    if not str(typed).strip():
        raise UsageError("--out names no folder")
    return Path(typed)


def plot(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="Which figures.", show_default=False)],
    run: JudgedRuns,
    out: Annotated[
        Path, typer.Option(parser=_folder, metavar="<path>", help="The folder to write them to.")
    ] = Path("figures"),
    form: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            help="svg, pdf or png; commas, or again. Else pdf.",
            show_default=False,
        ),
    ] = None,
    width: Annotated[
        _Width, typer.Option(help="Of a column (3.3 in) or of the text (6.9 in).")
    ] = _Width.column,
    human: Annotated[
        Path | None,
        typer.Option(help="What people said, for scatter and confusion.", show_default=False),
    ] = None,
    judge: WhichJudge = None,
    annotations: RunAnnotations = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the intervals.")] = 0,
    runs: Runs = Path("runs"),
) -> None:
    """Draw figures."""
    from capeval.cli.options import chosen
    from capeval.errors import UsageError
    from capeval.files.jsonl import write_atomic
    from capeval.reporting.plots import (
        FORMATS,
        WIDTHS,
        Paper,
        is_empty,
        rendered,
        require_plot_extra,
    )
    from capeval.runs.folder import safe_name
    from capeval.runs.judged_run import files_behind, load_judged_runs
    from capeval.runs.outputs import check_output

    known = (*_OF_RUNS, _OF_TWO, *_OF_PEOPLE)
    wanted = chosen([what], ("all", *known), "WHAT")
    forms = chosen(form or ["pdf"], FORMATS, "--format")
    named = [name for name in _OF_PEOPLE if name in wanted]
    if named and human is None:
        raise UsageError(f"{named[0]} is of judges against people; name their file with --human")
    if "all" in wanted:
        wanted = [
            name
            for name in known
            if (name != _OF_TWO or len(run) == 2) and (name not in _OF_PEOPLE or human is not None)
        ]
    elif _OF_TWO in wanted and len(run) != 2:
        raise UsageError(f"forest is of the differences of two runs, not {len(run)}; name two")
    require_plot_extra()
    read = files_behind(run, runs=runs, judge=judge, annotations=annotations)
    read += [] if human is None else [human]
    for name in wanted:
        for one in forms:
            check_output(out / f"{name}.{one}", read)
    judged = load_judged_runs(run, runs=runs, judge=judge, annotations=annotations, seed=seed)
    figures: dict[str, list[Figure]] = _of_runs(judged, wanted)
    if _OF_TWO in wanted:
        figures[_OF_TWO] = _of_two(judged, seed)
    if human is not None:
        figures |= _of_people(judged, human, annotations, wanted, seed)
    paper = Paper(WIDTHS[width.value])
    files: dict[Path, bytes] = {}
    for name in wanted:
        shown = [figure for figure in figures.get(name, ()) if not is_empty(figure)]
        if not shown:
            sys.stderr.write(f"{name}: left out, {_NOTHING_TO_SHOW[name]}\n")
        for figure in shown:
            for one in forms:
                files[out / f"{safe_name(figure.name)}.{one}"] = rendered(figure, one, paper)
    if not files:
        raise UsageError(f"nothing to draw: {', '.join(wanted)} would be empty")
    for path in files:
        # Again, and all before the first is written: judges have figures of their own names.
        check_output(path, read)
    for path, data in files.items():
        write_atomic(Path(os.path.realpath(path)), data)
        typer.echo(str(path))


_NOTHING_TO_SHOW = {
    "types": "no caption is scored",
    "characteristics": "no scored video has a visual characteristic",
    "domains": "no scored video has a domain",
    "events": "no caption is scored",
    "elements": "no caption is scored",
    "frames": "no model has runs with different numbers of frames",
    "forest": "the two runs cannot be compared",
    "scatter": "people's file makes no score of a caption",
    "confusion": "people's file has no labels of elements",
}


def _of_runs(judged: dict[str, JudgedRun], wanted: list[str]) -> dict[str, list[Figure]]:
    from capeval.reporting import figures

    if not set(wanted) & set(_OF_RUNS):
        return {}
    scores = {name: one.scores for name, one in judged.items()}
    frames = figures.by_frames(judged)
    return {
        "types": [figures.by_type(scores)],
        "characteristics": [figures.by_characteristic(scores)],
        "domains": [figures.by_domain(scores)],
        "events": [figures.by_complexity(scores, "events")],
        "elements": [figures.by_complexity(scores, "elements")],
        "frames": [] if frames is None else [frames],
    }


def _of_two(judged: dict[str, JudgedRun], seed: int) -> list[Figure]:
    from capeval.errors import UsageError
    from capeval.reporting.figures import forest_of
    from capeval.runs.comparing import compare_judged
    from capeval.scoring.comparison_result import Comparison

    try:
        found = compare_judged(judged, seed=seed)
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return []
    return [forest_of(found)] if isinstance(found, Comparison) else []


def _of_people(
    judged: dict[str, JudgedRun],
    human: Path,
    annotations: str | None,
    wanted: list[str],
    seed: int,
) -> dict[str, list[Figure]]:
    from capeval.correlation.from_files import CorrelateRequest, read_inputs
    from capeval.reporting.human_figures import confusions_of, scatters_of
    from capeval.text import one_line

    if not set(wanted) & set(_OF_PEOPLE):
        return {}
    sides = read_inputs(
        CorrelateRequest(
            human=human,
            auto=tuple((one.file.parent.name, one.file) for one in judged.values()),
            annotations=annotations,
        )
    )
    found: dict[str, list[Figure]] = {}
    if "scatter" in wanted:
        order = [name for one in judged.values() for name in (one.name, one.model) if name]
        scatters, warnings = scatters_of(sides, order=order, seed=seed)
        for line in warnings:
            sys.stderr.write(f"warning: {one_line(line, 600)}\n")
        found["scatter"] = [*scatters]
    if "confusion" in wanted:
        found["confusion"] = [*confusions_of(sides)]
    return found
