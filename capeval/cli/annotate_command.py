"""`capeval annotate`: from a folder of videos to annotations."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from capeval.cli.options import LONG, declared_by
from capeval.construct.options import (
    AgreeOptions,
    DraftOptions,
    FilterOptions,
    MergeAnnotationsOptions,
    ReviewOptions,
)
from capeval.show.output import Output
from capeval.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from capeval.construct.review import ReviewFiles
    from capeval.runs.long_work import LongWork

T = TypeVar("T")

annotate = typer.Typer(
    help="Annotate videos: filter, draft, review, agree, merge.",
    no_args_is_help=True,
)

_MOST_LINES = 10  # Open videos or comments that fit on a screen; --full lists all.


@annotate.command("filter")
@declared_by(FilterOptions)
def filter_videos(declared: dict[str, Any], output: Output) -> None:
    """Find the videos that are fit to be annotated: videos.jsonl. Nothing is deleted.

    Left out are videos that cannot be read, are too small, too long, black, frozen or near static,
    and near duplicates. Edit "keep" in videos.jsonl to decide otherwise. A rerun leaves what was
    edited, and decodes only what is new or changed.
    """
    from capeval.api.annotating import annotate_filter
    from capeval.cli.progress import ProgressLine
    from capeval.files.annotations import VIDEO_LIST
    from capeval.reporting.construct_tables import print_video_filter

    progress = ProgressLine(output)
    try:
        with progress:
            rows = annotate_filter(**declared, progress=progress)
    except KeyboardInterrupt:
        progress.report_stop(caches_replies=False)
        raise typer.Exit(130) from None
    print_video_filter(rows, output.console)
    output.line(str(Path(declared["folder"]) / VIDEO_LIST))


@annotate.command()
@declared_by(DraftOptions, *LONG[1:-1])
def draft(declared: dict[str, Any], output: Output) -> None:
    """Draft annotations from captions, for annotators to correct: drafts.jsonl.

    A chat model divides each caption into events and states their visual elements. Run the same
    command again to resume.
    """
    from capeval.api.annotating import open_annotate_draft
    from capeval.reporting.construct_tables import drafts_line

    options = DraftOptions(**declared, on_notice=output.notice)
    opening = open_annotate_draft(options, offline=output.dry_run)
    run_one(output, opening, lambda drafts: output.line(drafts_line([*drafts.values()])))


def run_one(
    output: Output,
    opening: AbstractAsyncContextManager[LongWork[T]],
    show: Callable[[T], object],
) -> None:
    """Do long work that has one result, and print it with `show`."""
    from capeval.cli.long_command import run_long

    run_long(output, opening, lambda _, results: [show(one) for one in results])


@annotate.command()
@declared_by(ReviewOptions)
def review(declared: dict[str, Any], output: Output) -> None:
    """Write pages for annotators, who review offline in a browser."""
    from capeval.api.annotating import annotate_review

    made = annotate_review(**declared, on_notice=output.notice)
    if not declared["differences"]:
        print_review(made, "video", output)
    elif made.files:
        output.line(f"{counted(made.items, 'video')} with differences")
        output.line(str(made.files[0]))
    else:
        output.line("No differences: no page was written.")


def print_review(made: ReviewFiles, noun: str, output: Output) -> None:
    """Print who reviews how many videos or questions, and the pages."""
    loads = ", ".join(f"{name} {load:,}" for name, load in made.loads.items())
    in_two = sum(made.loads.values()) - made.items
    both = "both" if len(made.loads) == 2 else "two"
    for_two = f", {in_two:,} of them for {both} annotators" if in_two else ""
    output.line(f"{counted(made.items, noun)}{for_two}: {loads}")
    if made.missing_videos:
        first = next(iter(made.missing_videos.values()))
        output.notice(f"{counted(len(made.missing_videos), 'video')} not found: {first}")
    for file in made.files:
        output.line(str(file))


@annotate.command()
@declared_by(AgreeOptions, "as_json", "form_or_csv")
def agree(declared: dict[str, Any], output: Output) -> None:
    """Compare annotators: F1 of events and elements, alpha of types and weights.

    Events are aligned in their order, and elements one to one, by the words that they share.
    """
    from capeval.api.annotating import annotate_agree
    from capeval.reporting.construct_tables import agreement_headline, agreement_page
    from capeval.show.formats import rendered
    from capeval.show.terminal import print_pages

    found = annotate_agree(**declared)
    page, headline = agreement_page(found), agreement_headline(found)
    if output.as_json:
        output.json(rendered([page], "json"))
    elif output.table_form != "table":
        output.text(rendered([page], output.table_form))
    else:
        print_pages([page], output.console, headline=headline)


@annotate.command()
@declared_by(MergeAnnotationsOptions, "full")
def merge(declared: dict[str, Any], output: Output) -> None:
    """Merge what annotators confirmed into annotations.json.

    Videos that are unfinished, or on which annotators differ, are left out and listed.
    """
    from capeval.api.annotating import annotate_merge

    found = annotate_merge(**declared)
    done, left = len(found.annotations), len(found.open)
    comments = counted(len(found.comments), "comment")
    output.line(f"{done:,} of {counted(done + left, 'video')} merged, {left:,} open; {comments}")
    for lines in ([f"open: {index}: {why}" for index, why in found.open.items()], found.comments):
        most = len(lines) if output.full else _MOST_LINES
        for line in lines[:most]:
            output.line(f"  {line}")
        if len(lines) > most:
            output.line(f"  {len(lines) - most:,} more: --full")
    file = shlex.quote(str(Path(declared["folder"]) / "annotations.json"))
    output.line(f"{file}  Check it: capeval check {file}")
