"""`capeval rate`: rating sheets for human raters, and their ratings merged."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from capeval.cli import options

app = typer.Typer(
    help="Have humans rate captions without knowing who wrote them.", no_args_is_help=True
)


@app.command()
def sheet(
    run: Annotated[
        list[str] | None,
        options.optional(
            "RUN",
            "A run to sample captions from; repeatable. By default all under runs/, or the "
            "sample if there are none.",
        ),
    ] = None,
    videos: Annotated[
        int | None,
        options.optional("N", "Number of videos. By default 40, or all if there are fewer.", min=1),
    ] = None,
    per_video: Annotated[
        int | None,
        options.optional("N", "Captions of each video. By default one of every run.", min=1),
    ] = None,
    seed: options.Seed = 0,
    annotations: options.RunAnnotations = None,
    video_dir: Annotated[
        Path | None,
        options.optional("DIR", "The folder of the videos that the page plays."),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write to.")] = Path(
        "rating"
    ),
    ignore_unknown: options.IgnoreUnknown = False,
    quiet: options.Quiet = False,
    runs: options.Runs = Path("runs"),
) -> None:
    """Sample captions to rate: sheet.html and sheet.csv for raters, key.csv only for you."""
    from capeval.api import rating_files
    from capeval.cli.output import Output

    output = Output(quiet=quiet)
    made = rating_files.rate_sheet(
        run or (),
        videos=videos,
        per_video=per_video,
        seed=seed,
        annotations=annotations,
        video_dir=video_dir,
        out=out,
        ignore_unknown=ignore_unknown,
        runs=runs,
        on_notice=output.notice,
    )
    output.line(
        f"{made.videos} videos, {len(made.sheet.items)} captions of {made.runs} runs, "
        f"{made.sheet.labels:,} labels; videos found: {made.videos_found} of {made.videos}"
    )
    for line in made.missing_videos[:5]:
        output.notice(line)
    if (left := len(made.missing_videos) - 5) > 0:
        output.notice(f"{left} more videos were not found")
    output.line(f"{made.page}  for raters, in a browser")
    output.line(f"{made.table}  for raters, in a spreadsheet")
    output.line(f"{made.key}  only for you: which system wrote which caption")


@app.command()
def merge(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="The raters' files, one each.", show_default=False),
    ],
    key: Annotated[Path, options.optional("FILE", "The sheet's key.csv.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")] = Path(
        "human.csv"
    ),
    annotations: Annotated[
        str | None,
        options.optional(
            "FILE",
            "Check the key against these annotations, and show agreement by type of element; "
            "'sample' for the bundled ones.",
        ),
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Accept files in which labels are missing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an --out file that has other contents.")
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Merge the raters' files into human.csv, and show how well the raters agree."""
    from capeval.api import rating_files
    from capeval.cli.output import Output
    from capeval.reporting.rating_tables import print_agreement

    output = Output(quiet=quiet)
    merged = rating_files.rate_merge(
        files,
        key,
        out=out,
        annotations=annotations,
        partial=partial,
        force=force,
        on_notice=output.notice,
    )
    print_agreement(merged.raters, merged.agreement, merged.by_type, output.console)
    output.line(f"{out}  {sum(len(file.labels) for file in merged.raters):,} labels")
    output.line(f"Next, for judged runs: capeval correlate --human {shlex.quote(str(out))}")
