"""`capeval annotate`: from a folder of videos to annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from capeval.cli.options import declared_by
from capeval.cli.output import Output
from capeval.construct.options import ReviewOptions
from capeval.text import counted

if TYPE_CHECKING:
    from capeval.api.reviewing import ReviewFiles

app = typer.Typer(
    help="Annotate videos: filter, draft, review, compare annotators, merge.",
    no_args_is_help=True,
)


@app.command()
@declared_by(ReviewOptions)
def review(declared: dict[str, Any], output: Output) -> None:
    """Write pages for annotators, who review offline in a browser."""
    from capeval.api import reviewing

    made = reviewing.annotate_review(**declared)
    if not declared["differences"]:
        print_pages(made, "video", output)
    elif made.files:
        output.line(f"{counted(made.items, 'video')} with differences")
        output.line(str(made.files[0]))
    else:
        output.line("No differences: no page was written.")


def print_pages(made: ReviewFiles, noun: str, output: Output) -> None:
    """Print who reviews how many videos or questions, and the pages."""
    loads = ", ".join(f"{name} {load:,}" for name, load in made.loads.items())
    in_two = sum(made.loads.values()) - made.items
    by_two = f" ({in_two:,} by two)" if in_two else ""
    output.line(f"{counted(made.items, noun)} to review{by_two}: {loads}")
    if made.missing_videos:
        first = next(iter(made.missing_videos.values()))
        output.notice(f"{counted(len(made.missing_videos), 'video')} not found: {first}")
    for file in made.files:
        output.line(str(file))
