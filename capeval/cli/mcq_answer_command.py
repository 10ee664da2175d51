"""`capeval mcq answer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from capeval.api.mcq_answer_options import AnswerOptions
from capeval.cli.options import DryRun, Json, MaxFailed, Quiet, Yes, declared_by

if TYPE_CHECKING:
    from capeval.api.asking_session import AskingSession
    from capeval.mcq.answering import Answers
    from capeval.schema.question import Response


@declared_by(AnswerOptions)
def answer(
    declared: dict[str, Any],
    *,
    max_failed: MaxFailed = "0",
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Let a video-language model answer multiple-choice questions.

    The models are those of `capeval generate`. Responses go to
    runs/mcq/BENCHMARK/MODEL@SETTINGS/responses.jsonl, ready for `capeval mcq grade`; each records
    which frames the model saw. Audio is never used.

    Run the same command again to resume where it stopped; failed calls are then made again.
    """
    # Heavy modules are imported when the command runs, so that `--help` is fast.
    from capeval.api.mcq_answering import open_answering
    from capeval.cli.asking import AskingCommand
    from capeval.cli.session import Session
    from capeval.scoring.gates import CountOrShare

    allowance = CountOrShare.read(max_failed, "--max-failed")
    session = Session(as_json=as_json, quiet=quiet)
    options = AnswerOptions(**declared)

    def about(asking: AskingSession[Response, Answers]) -> str:
        policies = asking.plan.settings["frames"]
        frames = policies if isinstance(policies, str) else ", ".join(map(str, policies.values()))
        view = "no frames" if options.blind else f"frames {frames}"
        if options.shuffle:
            view += " shuffled"
        return f"{view}, prompts {asking.plan.settings['prompt']['set']}"

    command = AskingCommand(
        session,
        as_json,
        to_do="ask",
        replies=("reply", "replies"),
        again="asked again: the question or its video, subtitles or frame has changed",
        then="Grade them: capeval mcq grade",
        name=str,
        about=about,
        details=lambda answers: {"without_subtitles": answers.without_subtitles},
    )
    opening = open_answering(options, on_notice=session.notice, dry_run=dry_run)
    raise typer.Exit(
        session.until_stopped(
            lambda: command.run(
                opening, allowance, yes=yes, dry_run=dry_run, max_cost=options.max_cost
            )
        )
    )
