"""`capeval judge`: what it takes; the work is in `judging_session`."""

from __future__ import annotations

from typing import Annotated

import typer

from capeval.cli.options import (
    INPUTS,
    LIMITS,
    OUTPUT,
    Limit,
    MaxConcurrency,
    MaxCost,
    Only,
    Quiet,
    Timeout,
    Yes,
)

HELP = (
    "Judge captions event by event and score them: precision, recall and F1.\n\n"
    "A judge splits each caption into events, matches them in order to the annotated events, and "
    "says of every annotated visual element whether the caption entails, lacks or contradicts "
    "it.\n\n"
    "Run the same command again to go on where it stopped: nothing is paid for twice."
)

_JUDGE = "Judge"


def judge(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN",
            help="Runs under runs/, or captions files (JSONL, or JSON {index: caption}). "
            "Without any: every run; where there is none, the bundled sample (its name: sample).",
            show_default=False,
        ),
    ] = None,
    annotations: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Annotations (JSON or JSONL); 'sample' for the bundled ones.",
            show_default=False,
            rich_help_panel=INPUTS,
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            help="Name of the run that a captions file becomes; else the file's stem.",
            show_default=False,
            rich_help_panel=INPUTS,
        ),
    ] = None,
    only: Only = None,
    limit: Limit = None,
    ignore_unknown: Annotated[
        bool,
        typer.Option(
            "--ignore-unknown",
            help="Skip captions that the annotations do not know.",
            rich_help_panel=INPUTS,
        ),
    ] = False,
    judge: Annotated[
        str | None,
        typer.Option(
            help="A chat model; 'lexical', the embedded baseline; or the judge of an installed "
            "package. Default: gpt-4o-2024-08-06, or the only model of the endpoint.",
            show_default=False,
            rich_help_panel=_JUDGE,
        ),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(
            help="An OpenAI-compatible endpoint, such as http://localhost:8000/v1; "
            "else OPENAI_BASE_URL.",
            show_default=False,
            rich_help_panel=_JUDGE,
        ),
    ] = None,
    prompts: Annotated[
        str,
        typer.Option(help="A packaged prompt set, or a folder with one.", rich_help_panel=_JUDGE),
    ] = "tuna-cap-v1",
    repeats: Annotated[
        int,
        typer.Option(
            min=1,
            max=100,
            help="Judge so many times; the majority label counts.",
            rich_help_panel=_JUDGE,
        ),
    ] = 1,
    max_concurrency: MaxConcurrency = 64,
    timeout: Timeout = 120.0,
    max_cost: MaxCost = None,
    max_unscored: Annotated[
        str,
        typer.Option(
            help="Exit 3 if more stay unscored: a number, or a share such as 1%.",
            rich_help_panel=LIMITS,
        ),
    ] = "0",
    yes: Yes = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Show the calls, tokens and money expected, and stop.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print {run: scores} alone on stdout.", rich_help_panel=OUTPUT),
    ] = False,
    quiet: Quiet = False,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the bootstrap.", rich_help_panel=OUTPUT)
    ] = 0,
) -> None:
    """Judge captions and score them; `HELP` is what `--help` says."""
    from capeval.cli.judging_session import JudgeArguments, run_session

    code = run_session(
        JudgeArguments(
            targets=tuple(targets or ()),
            annotations=annotations,
            run=run,
            only=tuple(only or ()),
            limit=limit,
            ignore_unknown=ignore_unknown,
            judge=judge,
            base_url=base_url,
            prompts=prompts,
            repeats=repeats,
            max_concurrency=max_concurrency,
            timeout=timeout,
            max_cost=max_cost,
            max_unscored=max_unscored,
            yes=yes,
            dry_run=dry_run,
            as_json=as_json,
            quiet=quiet,
            seed=seed,
        )
    )
    raise typer.Exit(code)
