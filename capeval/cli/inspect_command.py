"""`capeval inspect`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capeval.cli.options import RunAnnotations, Runs, WhichJudge

if TYPE_CHECKING:
    from capeval.judging.prompts import PromptSet
    from capeval.reporting.viewer.raw_replies import RawReplies
    from capeval.runs.judged_run import JudgedRun


HELP = (
    "Show why one video has its score: its caption, events, verdicts and what was repaired.\n\n"
    "Without --run, every judged run under runs/ that knows the video is shown."
)


def inspect(
    index: Annotated[
        str, typer.Argument(metavar="INDEX", help="The video's index.", show_default=False)
    ],
    run: Annotated[
        list[str] | None,
        typer.Option(
            help="A run's name, its folder, a judge's folder, or a judgments.jsonl. Repeatable.",
            show_default=False,
        ),
    ] = None,
    judge: WhichJudge = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Add the model's own replies, from the cache.")
    ] = False,
    prompts: Annotated[
        str | None,
        typer.Option(
            help="For --raw: the prompts that it was judged with, where their folder is not here.",
            show_default=False,
        ),
    ] = None,
    human: Annotated[
        Path | None,
        typer.Option(help="What people said of each element.", show_default=False),
    ] = None,
    annotations: RunAnnotations = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print {run: card} alone on stdout.")
    ] = False,
    runs: Runs = Path("runs"),
) -> None:
    """Show one video."""
    from rich.console import Console

    from capeval.errors import UsageError
    from capeval.files.jsonl import dumps
    from capeval.judging.prompts import load_prompts
    from capeval.reporting.viewer.cards import card_of, load_human_labels
    from capeval.reporting.viewer.terminal import print_cards, print_raw_replies
    from capeval.runs.find_video import runs_with_video

    if prompts is not None and not raw:
        raise UsageError("--prompts is for --raw; add it, or leave --prompts off")
    used = None if prompts is None else load_prompts(prompts)
    labels = None if human is None else load_human_labels(human)
    found = runs_with_video(
        index, run or (), runs=runs, judge=judge, annotations=annotations, on_notice=_notice
    )
    cards = {name: card_of(one, annotation, labels) for name, (one, annotation) in found.items()}
    replies = _raw({name: one for name, (one, _) in found.items()}, index, used) if raw else {}
    if as_json:
        typer.echo(dumps(_plain(cards, replies), indent=1))
        return
    console = Console()
    print_cards(cards, console)
    print_raw_replies(replies, console)


def _notice(text: str) -> None:
    from capeval.text import one_line

    sys.stderr.write(f"warning: {one_line(text, 600)}\n")


def _raw(
    found: dict[str, JudgedRun], index: str, prompts: PromptSet | None
) -> dict[str, RawReplies]:
    import asyncio

    from capeval.reporting.viewer.raw_replies import raw_replies

    async def all_of() -> dict[str, RawReplies]:
        return {name: await raw_replies(one, index, prompts=prompts) for name, one in found.items()}

    return asyncio.run(all_of())


def _plain(cards: dict[str, Any], replies: dict[str, RawReplies]) -> dict[str, Any]:
    from pydantic import TypeAdapter

    from capeval.reporting.viewer.cards import VideoCard
    from capeval.reporting.viewer.raw_replies import RawReplies

    card, raw = TypeAdapter(VideoCard), TypeAdapter(RawReplies)
    told: dict[str, Any] = {name: card.dump_python(one, mode="json") for name, one in cards.items()}
    for name, one in replies.items():
        told[name]["raw"] = raw.dump_python(one, mode="json")
    return told
