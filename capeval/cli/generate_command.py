"""`capeval generate`: what it takes; the work is in `generating_session`."""

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
    "Caption videos with a video-language model.\n\n"
    "The model is one of the catalogue (`capeval models`), any of the hub as hf:ORG/NAME, or what "
    "a server at --base-url serves. Captions go to runs/NAME/captions.jsonl, ready for "
    "`capeval judge`; each line says which frames the model saw.\n\n"
    "Run the same command again to go on where it stopped."
)

_MODEL, _FRAMES, _WORK = "Model", "Frames", "Several machines"


def generate(
    model: Annotated[
        str | None,
        typer.Option(
            help="A model of the catalogue, hf:ORG/NAME, or a server's name for its model.",
            show_default=False,
            rich_help_panel=_MODEL,
        ),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(
            help="An OpenAI-compatible endpoint, such as http://localhost:8000/v1.",
            show_default=False,
            rich_help_panel=_MODEL,
        ),
    ] = None,
    prompt: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The prompt for every video. Default: the annotations' question where they have "
            "one, else tuna-cap-v1.",
            show_default=False,
            rich_help_panel=_MODEL,
        ),
    ] = None,
    max_new_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Tokens a caption may have. Default: the catalogue's, 1024 for most.",
            show_default=False,
            rich_help_panel=_MODEL,
        ),
    ] = None,
    batch_size: Annotated[
        str,
        typer.Option(
            help="Videos at a time on a device: a number or auto.", rich_help_panel=_MODEL
        ),
    ] = "auto",
    device: Annotated[
        str | None,
        typer.Option(
            help="cuda, mps or cpu. Default: the best there is.",
            show_default=False,
            rich_help_panel=_MODEL,
        ),
    ] = None,
    annotations: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Annotations (JSON or JSONL) that list the videos. Default: the bundled sample.",
            show_default=False,
            rich_help_panel=INPUTS,
        ),
    ] = None,
    videos: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Folder of the videos. Default: videos/ beside the annotations, else that folder.",
            show_default=False,
            rich_help_panel=INPUTS,
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            help="Name of the run. Default: the model's.",
            show_default=False,
            rich_help_panel=INPUTS,
        ),
    ] = None,
    only: Only = None,
    limit: Limit = None,
    frames: Annotated[
        str | None,
        typer.Option(
            help="32 spread evenly, 2fps, or auto (2 a second below 16 s, else 1). "
            "Default: the catalogue's.",
            show_default=False,
            rich_help_panel=_FRAMES,
        ),
    ] = None,
    decoder: Annotated[str, typer.Option(help="pyav or decord.", rich_help_panel=_FRAMES)] = "pyav",
    shuffle: Annotated[
        bool,
        typer.Option(
            "--shuffle",
            help="Show the frames in an order drawn by --seed.",
            rich_help_panel=_FRAMES,
        ),
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of --shuffle.", rich_help_panel=_FRAMES)
    ] = 0,
    images: Annotated[
        str | None,
        typer.Option(
            help="How an endpoint gets frames: jpeg, png, or video (a list of JPEGs, for vLLM). "
            "Default: the catalogue's, jpeg for most.",
            show_default=False,
            rich_help_panel=_FRAMES,
        ),
    ] = None,
    jpeg_quality: Annotated[
        int, typer.Option(min=1, max=100, help="Quality of JPEGs.", rich_help_panel=_FRAMES)
    ] = 90,
    max_side: Annotated[
        int | None,
        typer.Option(
            min=16,
            help="Shrink frames for an endpoint to so many pixels. Default: as they are.",
            show_default=False,
            rich_help_panel=_FRAMES,
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Do part I of N; the last to end merges all.",
            show_default=False,
            rich_help_panel=_WORK,
        ),
    ] = None,
    merge: Annotated[
        bool,
        typer.Option(
            "--merge",
            help="Merge the shards of --run that are there, and stop.",
            rich_help_panel=_WORK,
        ),
    ] = False,
    max_concurrency: MaxConcurrency = 32,
    timeout: Timeout = 300.0,
    max_cost: MaxCost = None,
    max_ungenerated: Annotated[
        str,
        typer.Option(
            help="Exit 3 if more get no caption: a number, or a share such as 1%.",
            rich_help_panel=LIMITS,
        ),
    ] = "0",
    yes: Yes = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Show what is to be captioned and its expected cost, and stop.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print what came of it as JSON.", rich_help_panel=OUTPUT),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Caption videos with a model; `HELP` is what `--help` says."""
    from capeval.cli.generating_session import GenerateArguments, run_session

    code = run_session(
        GenerateArguments(
            model=model,
            base_url=base_url,
            prompt=prompt,
            max_new_tokens=max_new_tokens,
            batch_size=batch_size,
            device=device,
            annotations=annotations,
            videos=videos,
            run=run,
            only=tuple(only or ()),
            limit=limit,
            frames=frames,
            decoder=decoder,
            shuffle=shuffle,
            seed=seed,
            images=images,
            jpeg_quality=jpeg_quality,
            max_side=max_side,
            shard=shard,
            merge=merge,
            max_concurrency=max_concurrency,
            timeout=timeout,
            max_cost=max_cost,
            max_ungenerated=max_ungenerated,
            yes=yes,
            dry_run=dry_run,
            as_json=as_json,
            quiet=quiet,
        )
    )
    raise typer.Exit(code)
