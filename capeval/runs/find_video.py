"""Finding the judged runs that have a video."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from capeval.errors import CapevalError, InputError
from capeval.runs.folder import RunFolder
from capeval.runs.judged_run import JudgedRun, distinct_names, load_judged, load_judged_runs
from capeval.runs.resolve import RUNS
from capeval.schema import Annotation
from capeval.text import nearest, shown


def runs_with_video(
    index: str,
    typed: Sequence[str | Path] = (),
    *,
    runs: Path = RUNS,
    judge: str | None = None,
    annotations: str | None = None,
    on_notice: Callable[[str], None] = lambda _: None,
) -> dict[str, tuple[JudgedRun, Annotation]]:
    """Return judged runs under distinct names, each with its annotation of a video.

    Parameters
    ----------
    typed : names or paths, as `load_judged` takes them; if empty, all judged runs under `runs`
        that have captioned or judged the video
    on_notice : called with a message for each run that is left out because it cannot be read

    Raises
    ------
    InputError, UsageError
        A named run cannot be read or lacks the video, or no run has it.
    """
    if typed:
        asked = load_judged_runs(typed, runs=runs, judge=judge, annotations=annotations)
        return {name: (run, _annotation(run, index)) for name, run in asked.items()}
    loaded: list[JudgedRun] = []
    faults: list[CapevalError] = []
    for file in _judged_under(runs, judge):
        try:
            loaded.append(load_judged(file, annotations=annotations))
        except CapevalError as fault:
            faults.append(fault)
    if not loaded:
        raise faults[0] if faults else InputError(_nothing(judge), file=runs)
    for left_out in faults:
        on_notice(f"left out: {left_out}")
    annotated = [run for run in loaded if any(a.index == index for a in run.annotations)]
    captioned = [run for run in annotated if index in run.captions or index in run.judgments]
    if not annotated:
        known = dict.fromkeys(a.index for run in loaded for a in run.annotations)
        raise InputError(
            f"no judged run has the video {shown(index)}{nearest(index, list(known))}", file=runs
        )
    return {
        name: (run, _annotation(run, index))
        for name, run in distinct_names(captioned or annotated).items()
    }


def _nothing(judge: str | None) -> str:
    by = "" if judge is None else f" by {judge}"
    return f"has no run judged{by}; judge one first, or name it with --run"


def _judged_under(runs: Path, judge: str | None) -> list[Path]:
    """Return the judgments of all runs; with a `judge`, those of the one it names."""
    return [one.judgments for run in RunFolder.all(runs) for one in run.judges(judge)]


def _annotation(run: JudgedRun, index: str) -> Annotation:
    for annotation in run.annotations:
        if annotation.index == index:
            return annotation
    known = [annotation.index for annotation in run.annotations]
    raise InputError(
        f"has no video {shown(index)}{nearest(index, known)}", file=run.annotations_path
    )
