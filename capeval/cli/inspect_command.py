"""`capeval inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from capeval.cli import options


def inspect(
    index: Annotated[
        str, typer.Argument(metavar="INDEX", help="The video's index.", show_default=False)
    ],
    run: Annotated[
        list[str] | None,
        options.optional(
            "RUN", "A run's name, its folder, a judge's folder, or a judgments.jsonl. Repeatable."
        ),
    ] = None,
    judge: options.WhichJudge = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Add the model's own replies, from the cache.")
    ] = False,
    prompts: Annotated[
        str | None,
        options.optional(
            "NAME",
            "With --raw: the prompt set or folder that the video was judged with, if it is "
            "not found by its name.",
        ),
    ] = None,
    human: options.Human = None,
    annotations: options.RunAnnotations = None,
    as_json: options.Json = False,
    full: options.Full = False,
    runs: options.Runs = Path("runs"),
) -> None:
    """Show why one video has its score: its caption, events, verdicts and repairs.

    Without --run, it shows every judged run under runs/ that has the video.
    """
    from capeval.api import inspecting
    from capeval.cli.output import Output
    from capeval.reporting.viewer.terminal import print_cards, print_raw_replies

    output = Output()
    found = inspecting.inspect(
        index,
        run or (),
        judge=judge,
        raw=raw,
        prompts=prompts,
        human=human,
        annotations=annotations,
        runs=runs,
        on_notice=output.warning,
    )
    if as_json:
        output.json(found.to_json())
    else:
        print_cards(found.cards, output.console, full=full)
        print_raw_replies(found.replies, output.console)
