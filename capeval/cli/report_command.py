"""`capeval report`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capeval.cli.options import RunAnnotations, Runs, WhichJudge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from capeval.files.videos import VideoFolder
    from capeval.reporting.report.thumbnails import Strip
    from capeval.reporting.viewer.cards import HumanLabels
    from capeval.runs.judged_run import JudgedRun
    from capeval.schema import Annotation


HELP = (
    "Make one HTML file that shows what a model fails at, and why.\n\n"
    "It opens from disk and loads nothing: scores with intervals, what became of the annotated "
    "weight, and every video with its frames, caption, matches and verdicts. Several runs stand "
    "side by side."
)

_FRAMES = 8
_MANY_VIDEOS = 100


def report(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="Judged runs: names under runs/, folders, a judge's folder, a judgments.jsonl, or "
            "TUNA result files.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The file to write; else report.html in the judge's folder of one run, or in the "
            "working folder.",
            show_default=False,
        ),
    ] = None,
    human: Annotated[
        Path | None,
        typer.Option(
            help="Labels of people for elements (CSV, TSV or JSON lines), shown beside the "
            "verdicts.",
            show_default=False,
        ),
    ] = None,
    frames: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=64,
            help="Frames of each video, 0 for none; else 8, or none of more than 100 videos.",
            show_default=False,
        ),
    ] = None,
    videos: Annotated[
        Path | None,
        typer.Option(
            help="The folder of the videos; else videos/ beside the annotations.",
            show_default=False,
        ),
    ] = None,
    judge: WhichJudge = None,
    annotations: RunAnnotations = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the bootstrap.")] = 0,
    folder: Runs = Path("runs"),
) -> None:
    """Make one HTML file of judged runs."""
    from capeval.config import CONFIG
    from capeval.llm.prices import read_prices
    from capeval.reporting.report.page import report_html, same_annotations
    from capeval.reporting.viewer.cards import load_human_labels
    from capeval.runs.checking import why_stale
    from capeval.runs.judged_run import files_behind, load_judged_runs
    from capeval.runs.outputs import check_output, write_output
    from capeval.text import one_line

    loaded = load_judged_runs(runs, runs=folder, judge=judge, annotations=annotations, seed=seed)
    same_annotations(loaded)
    file = _default_file(list(loaded.values())) if out is None else out
    inputs = files_behind(runs, runs=folder, judge=judge, annotations=annotations)
    check_output(file, [*inputs, *([human] if human else [])])
    _may_write(file)
    stale = {}
    for name, run in loaded.items():
        stored = run.file.with_name("scores.json")
        if run.file.name != "judgments.jsonl" or not stored.is_file():
            continue
        if why := why_stale(stored, run.scores):
            stale[name] = why
            _say(
                f"{stored}: does not belong to the verdicts beside it: "
                f"{why}; the report is of the verdicts; write it with `capeval score` and --out"
            )
    labels = load_human_labels(human) if human else None
    if labels is not None and human is not None:
        _hold_to_runs(labels, human, loaded)
    prices = read_prices(CONFIG)
    strips = _strips(loaded, frames, videos)
    page = report_html(loaded, human=labels, strips=strips, prices=prices, stale=stale)
    write_output(file, page)
    typer.echo(f"{one_line(str(file), 600)} ({_size(len(page.encode('utf-8')))})")


def _default_file(runs: list[JudgedRun]) -> Path:
    name = "report.html"
    if len(runs) == 1 and runs[0].run is not None:
        return runs[0].file.with_name(name)
    return Path(name)


def _may_write(file: Path) -> None:
    """Refuse a file that a report would destroy."""
    from capeval.errors import InputError
    from capeval.reporting.report.page import MARK

    if not file.is_file():
        return
    with file.open("rb") as stream:
        start = stream.read(400)
    if start and MARK.encode("utf-8") not in start:
        raise InputError("is there already and no report; name another with --out", file=file)


def _hold_to_runs(labels: HumanLabels, human: Path, runs: Mapping[str, JudgedRun]) -> None:
    """Say how many labels cannot be shown; raise where none can be."""
    from capeval.errors import InputError

    systems = {system for run in runs.values() for system in (run.name, run.model, None)}
    known = {
        (annotation.index, f"{number}.{place}")
        for annotation in next(iter(runs.values())).annotations
        for number, event in enumerate(annotation.events, start=1)
        for place, _ in enumerate(event.visual_elements, start=1)
    }
    shown = others = lost = 0
    for (index, system), elements in labels.items():
        for element, raters in elements.items():
            if system not in systems:
                others += len(raters)
            elif (index, element) in known:
                shown += len(raters)
            else:
                lost += len(raters)
    if not shown:
        named = sorted({system or "(none)" for _, system in labels})
        raise InputError(
            f"holds no label of {', '.join(runs)}; its systems are {', '.join(named[:5])}, and "
            "its videos and elements must be the annotations'",
            file=human,
        )
    if lost:
        _say(
            f"{human}: warning: {lost:,} label{'s' if lost > 1 else ''} of these runs "
            f"{'are' if lost > 1 else 'is'} of no video or element that is annotated"
        )
    if others:
        _say(f"{others:,} label{'s are' if others > 1 else ' is'} of other systems")


def _strips(
    runs: Mapping[str, JudgedRun], frames: int | None, folder: Path | None
) -> dict[str, Strip]:
    """Return the frames to show, and say on stderr why where there are none."""
    from capeval.captioners.plan import default_videos
    from capeval.errors import MissingExtra
    from capeval.files.videos import VideoFolder

    run = next(iter(runs.values()))
    count = frames
    if count is None:
        count = _FRAMES if len(run.annotations) <= _MANY_VIDEOS else 0
        if not count:
            _say(
                f"no frames are shown of {len(run.annotations):,} videos; ask for them with "
                f"--frames {_FRAMES}"
            )
    if not count:
        return {}
    place = folder if folder is not None else default_videos(run.annotations_path)
    if folder is None and not place.is_dir():
        _say(f"no frames are shown: {place} is no folder; name the videos' with --videos")
        return {}
    try:
        taken = _taken(run.annotations, VideoFolder(place), count)
    except MissingExtra as missing:
        if frames is not None:
            raise
        _say(f"no frames are shown: {missing}")
        return {}
    without = [(index, strip.note) for index, strip in taken.items() if strip.note]
    if without:
        index, note = without[0]
        _say(f"no frames of {len(without):,} of {len(taken):,} videos in {place}: {index}: {note}")
    # Where there are none at all, one line in the page says so instead of one on each card.
    return taken if len(without) < len(taken) else {}


def _taken(annotations: Sequence[Annotation], folder: VideoFolder, count: int) -> dict[str, Strip]:
    from rich.console import Console
    from rich.progress import track

    from capeval.reporting.report.thumbnails import strips

    return dict(
        track(
            strips(annotations, folder, count),
            "Frames",
            total=len(annotations),
            console=Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
        )
    )


def _say(text: str) -> None:
    from capeval.text import one_line

    sys.stderr.write(f"{one_line(text, 600)}\n")


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"
