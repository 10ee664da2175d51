"""`capeval rate`: sheets for people to rate captions with, and what they gave, joined."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from capeval.rating.agreement import Agreement
    from capeval.rating.merging import RatedFile
    from capeval.runs.sources import Source
    from capeval.schema import Annotation, ElementType


app = typer.Typer(help="Have people rate captions, blind to who wrote them.", no_args_is_help=True)


@app.command()
def sheet(
    run: Annotated[
        list[str] | None,
        typer.Option(
            help="A run to draw captions from; repeat for more. All under runs/, else the sample, "
            "where none is named.",
            show_default=False,
        ),
    ] = None,
    videos: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many videos to draw; 40, or all where there are fewer, without.",
            show_default=False,
        ),
    ] = None,
    per_video: Annotated[
        int | None,
        typer.Option(
            min=1, help="Captions of each video; one of every run without.", show_default=False
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 0,
    annotations: Annotated[
        str | None,
        typer.Option(
            help="Annotations (JSON or JSONL); 'sample' for the bundled ones. A run knows its own.",
            show_default=False,
        ),
    ] = None,
    video_dir: Annotated[
        Path | None,
        typer.Option(help="Folder of the videos, for the page to show.", show_default=False),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("rating"),
    ignore_unknown: Annotated[
        bool, typer.Option("--ignore-unknown", help="Skip captions without an annotation.")
    ] = False,
) -> None:
    """Draw captions to be rated: sheet.html and sheet.csv for raters, key.csv for you alone."""
    from capeval.errors import InputError, UsageError
    from capeval.files.annotations import annotations_hash
    from capeval.files.jsonl import write_atomic
    from capeval.files.reading import read_text
    from capeval.rating.sheet import DEFAULT_VIDEOS, draw_sheet, key_csv, sheet_csv, sheet_html

    sources = _sources(run or [], annotations, ignore_unknown)
    first = sources[0]
    for source in sources[1:]:
        if annotations_hash(source.annotations) != annotations_hash(first.annotations):
            raise UsageError(
                f"{first.name} and {source.name} have other annotations; name the --run that are "
                "to be rated together, or their --annotations"
            )
    drawn = draw_sheet(
        first.annotations,
        {source.name: {c.index: c.caption for c in source.captions} for source in sources},
        videos=videos,
        per_video=per_video,
        seed=seed,
    )
    texts = {"key.csv": key_csv(drawn), "sheet.csv": sheet_csv(drawn)}
    for name, text in texts.items():
        path = out / name
        if path.exists() and read_text(path) != text.removeprefix("\ufeff"):
            raise InputError(
                "is of another sheet, or somebody has filled it in; choose another --out",
                file=path,
            )
    shown = {item.annotation.index: item.annotation for item in drawn.items}
    if videos is None and len(shown) < DEFAULT_VIDEOS:
        sys.stderr.write(
            f"notice: {DEFAULT_VIDEOS} videos are usual; all {len(shown)} that can be drawn "
            "are taken\n"
        )
    found, faults = _films(first, list(shown.values()), video_dir, out)
    for name, text in texts.items():
        write_atomic(out / name, text)
    write_atomic(out / "sheet.html", sheet_html(drawn, found))
    typer.echo(
        f"{len(shown)} videos, {len(drawn.items)} captions of {len(sources)} runs, "
        f"{drawn.labels:,} labels; videos found: {len(found)} of {len(shown)}"
    )
    for line in faults[:5]:
        sys.stderr.write(line + "\n")
    if len(faults) > 5:
        sys.stderr.write(f"{len(faults) - 5} more videos are not there\n")
    typer.echo(f"{out / 'sheet.html'}  for raters, in a browser")
    typer.echo(f"{out / 'sheet.csv'}  for raters, in a spreadsheet")
    typer.echo(f"{out / 'key.csv'}  for you alone: which system wrote what")


@app.command()
def merge(
    files: Annotated[
        list[Path], typer.Argument(help="The raters' files, one each.", show_default=False)
    ],
    key: Annotated[Path, typer.Option(help="The key.csv of the sheet.", show_default=False)],
    out: Annotated[Path, typer.Option(help="File to write.")] = Path("human.csv"),
    annotations: Annotated[
        str | None,
        typer.Option(
            help="Check the key against these annotations, and show agreement by type of element; "
            "'sample' for the bundled ones.",
            show_default=False,
        ),
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Take sheets that are not filled in wholly.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an --out that holds something else.")
    ] = False,
) -> None:
    """Join raters' files into human.csv, and show how well the raters agree."""
    from capeval.errors import UsageError
    from capeval.rating.agreement import agreement, agreement_by_type
    from capeval.rating.merging import check_key, human_csv, read_key, read_rated, together
    from capeval.runs.outputs import check_output, write_output
    from capeval.runs.sources import annotations_of

    check_output(out, [*files, key, *([] if annotations is None else [annotations])])
    items = read_key(key)
    known = None if annotations is None else annotations_of(annotations)
    if known is not None:
        check_key(items, known, file=key)
    rated = [read_rated(path, items) for path in files]
    for file in rated:
        # Of an empty sheet the error says enough.
        if file.missing and file.labels:
            sys.stderr.write(_missing_line(file) + "\n")
    raters = together(rated, partial=partial)
    text = human_csv(raters, items)
    if out.is_file() and not force and out.read_bytes() != text.encode("utf-8"):
        raise UsageError(
            f"--out: {out} exists and holds something else; choose another, or replace it with "
            "--force"
        )
    write_output(out, text)
    _print(
        raters, agreement(raters), {} if known is None else agreement_by_type(raters, items, known)
    )
    typer.echo(f"{out}  {sum(len(file.labels) for file in raters):,} labels")
    typer.echo(f"Next, of judged runs: capeval correlate --human {shlex.quote(str(out))}")


def _sources(names: Sequence[str], annotations: str | None, ignore_unknown: bool) -> list[Source]:
    from capeval.errors import InputError, UsageError
    from capeval.files.captions import known_captions, load_captions
    from capeval.runs.folder import RunFolder
    from capeval.runs.sources import SAMPLE, Source, annotations_of, from_run, sample_captions

    runs = Path("runs")
    sample = sample_captions()

    def bundled(name: str) -> Source:
        known = annotations_of(annotations or SAMPLE)
        captions = known_captions(
            load_captions(sample[name]), known, file=sample[name], ignore_unknown=ignore_unknown
        )
        return Source(name, None, known, captions, annotations or SAMPLE)

    def named(name: str) -> Source:
        try:
            found = RunFolder.find(runs, name)
        except InputError:
            if name in sample:
                return bundled(name)
            raise
        return from_run(found, annotations, ignore_unknown=ignore_unknown)

    if names:
        found = [named(name) for name in names]
    else:
        every = RunFolder.all(runs)
        found = [from_run(run, annotations, ignore_unknown=ignore_unknown) for run in every]
        found = found or [bundled(name) for name in sample]
    seen: set[str] = set()
    for source in found:
        if source.name in seen:
            raise UsageError(f"the run {source.name} is named twice")
        seen.add(source.name)
    return found


def _films(
    source: Source, annotations: Sequence[Annotation], folder: Path | None, out: Path
) -> tuple[dict[str, str], list[str]]:
    """Return the URL of each video as seen from the page, and why others have none."""
    import os
    from urllib.parse import quote

    from capeval.errors import InputError, VideoError
    from capeval.files.packaged import sample_folder
    from capeval.files.videos import VideoFolder
    from capeval.runs.sources import SAMPLE

    if folder is None and source.annotations_path == SAMPLE:
        folder = sample_folder() / "videos"
    if folder is None:
        return {}, []
    if not folder.is_dir():
        raise InputError("is no folder; name that of the videos with --video-dir", file=folder)
    videos = VideoFolder(folder)
    urls: dict[str, str] = {}
    faults: list[str] = []
    for annotation in annotations:
        try:
            file = videos.find(annotation.video or annotation.index)
        except VideoError as fault:
            faults.append(str(fault))
            continue
        # Without the dot a file a:b.mp4 would name a scheme.
        path = Path(os.path.relpath(file.resolve(), out.resolve())).as_posix()
        urls[annotation.index] = "./" + quote(path)
    return urls, faults


def _missing_line(file: RatedFile, most: int = 3) -> str:
    """Return of which captions a file lacks how many labels, the first few of each by name."""
    from capeval.text import one_line

    items: dict[str, list[str]] = {}
    for item, element in file.missing:
        items.setdefault(item, []).append(f"e{element}")
    told = [
        f"{item}: {len(elements)} ({', '.join(elements[:most])}"
        f"{', …' if len(elements) > most else ''})"
        for item, elements in list(items.items())[:most]
    ]
    left = len(items) - most
    more = f"; and {left} more captions" if left > 0 else ""
    return one_line(f"{file.path}: lacks labels: {'; '.join(told)}{more}", 600)


def _print(
    raters: Sequence[RatedFile], found: Agreement, by_type: Mapping[ElementType, Agreement]
) -> None:
    from rich.console import Console

    from capeval.reporting.rating_tables import print_agreement

    print_agreement(raters, found, by_type, Console())
