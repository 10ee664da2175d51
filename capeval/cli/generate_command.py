"""`capeval generate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from capeval.captioners.options import GenerateOptions
from capeval.cli.options import DryRun, Json, MaxFailed, Quiet, Yes, declared_by

if TYPE_CHECKING:
    from capeval.api.asking_session import AskingSession
    from capeval.captioners.run import Generation, Line


@declared_by(GenerateOptions)
def generate(
    declared: dict[str, Any],
    *,
    max_failed: MaxFailed = "0",
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Caption videos with a video-language model.

    The model is one of the catalogue (`capeval models`), any of the hub as hf:ORG/NAME, or what a
    server at --base-url serves. Captions go to runs/NAME/captions.jsonl, ready for `capeval judge`;
    each line records which frames the model saw.

    Run the same command again to resume where it stopped.
    """
    # Heavy modules are imported when the command runs, so that `--help` is fast.
    from capeval.api.generating import open_generating
    from capeval.cli.asking import AskingCommand
    from capeval.cli.session import Session
    from capeval.scoring.gates import CountOrShare

    allowance = CountOrShare.read(max_failed, "--max-failed")
    session = Session(as_json=as_json, quiet=quiet)
    options = GenerateOptions(**declared)

    def about(asking: AskingSession[Line, Generation]) -> str:
        settings = asking.plan.settings
        prompt = settings["prompt"]["source"]
        return f"frames {settings['frames']} by {settings['decoder']}, prompt {prompt}"

    command = AskingCommand(
        session,
        as_json,
        to_do="caption",
        replies=("caption", "captions"),
        again="captioned again: the prompt or the video file has changed, or the caption is empty",
        then="Judge them: capeval judge",
        name=lambda run: run.name,
        about=about,
        details=lambda made: {"annotated": made.annotated},
    )
    opening = open_generating(options, on_notice=session.notice, dry_run=dry_run)
    raise typer.Exit(
        session.until_stopped(
            lambda: command.run(
                opening, allowance, yes=yes, dry_run=dry_run, max_cost=options.max_cost
            )
        )
    )
