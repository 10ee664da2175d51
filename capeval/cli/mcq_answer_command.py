"""`capeval mcq answer`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capeval.api.mcq_answer_options import AnswerOptions
from capeval.cli.options import DryRun, Json, Quiet, Yes, declared_by
from capeval.cli.output import print_json
from capeval.options import LIMITS
from capeval.text import Loss

if TYPE_CHECKING:
    from capeval.api.mcq_answering import AnsweringSession
    from capeval.captioners.selection import GenerationEstimate, OpenCaptioner
    from capeval.cli.session import Session
    from capeval.mcq.answering import Answers


@declared_by(AnswerOptions)
def answer(
    declared: dict[str, Any],
    *,
    max_unanswered: Annotated[
        str,
        typer.Option(
            metavar="SHARE",
            help="Exit 3 if more get no reply: a number, or a share such as 1%.",
            rich_help_panel=LIMITS,
        ),
    ] = "0",
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
    from capeval.cli.session import DONE, INCOMPLETE, Session, ask
    from capeval.scoring.gates import CountOrShare

    allowance = CountOrShare.read(max_unanswered, "--max-unanswered")
    session = Session(as_json=as_json, quiet=quiet)
    options = AnswerOptions(**declared)

    async def run() -> int:
        async with open_answering(options, on_notice=session.notice) as answering:
            _introduce(session, answering)
            expected = await answering.estimate()
            if dry_run:
                _show_estimate(session, answering, expected, as_json=as_json)
                return DONE
            ask(expected.cost, expected.usage.calls, yes=yes, max_cost=options.max_cost)
            with session.showing() as progress:
                answers = await answering.run(progress)
            _show(session, answers, answering.opened, as_json=as_json)
        complete = len(answers.unanswered) <= allowance.of(answers.asked)
        return DONE if complete and not answers.stopped else INCOMPLETE

    raise typer.Exit(session.until_stopped(run))


def _introduce(session: Session, answering: AnsweringSession) -> None:
    from capeval.text import counted

    plan, opened = answering.plan, answering.opened
    where = f" at {opened.base_url}" if opened.base_url else ""
    view, policies = plan.asking.view, plan.settings["frames"]
    frames = policies if isinstance(policies, str) else ", ".join(map(str, policies.values()))
    shown = "no frames" if view.blind else f"frames {frames}"
    if view.order == "shuffled":
        shown += " shuffled"
    session.notice(
        f"Model: {opened.captioner.name}{where}, {shown}, prompts {plan.settings['prompt']['set']}"
    )
    if plan.again:
        session.notice(
            Loss(
                f"{plan.name}: {counted(plan.again, 'question')} will be asked again: the question "
                "or its video, subtitles or frame has changed"
            )
        )


def _show_estimate(
    session: Session, answering: AnsweringSession, expected: GenerationEstimate, *, as_json: bool
) -> None:
    from capeval.cli.session import expected_cost
    from capeval.reporting.numbers import thousands
    from capeval.text import counted

    plan, opened, usage = answering.plan, answering.opened, expected.usage
    if as_json:
        print_json(
            {
                "run": str(plan.run),
                "to_ask": len(plan.todo),
                "missing": dict(plan.missing),
                "calls": len(plan.todo) if opened.base_url else 0,
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cost": expected.cost,
                "settings": plan.settings,
            }
        )
        return
    item = "rotation" if plan.asking.circular else "question"
    session.print(f"{plan.run}: {counted(len(plan.todo), item)} to ask")
    if plan.missing:
        index, reason = next(iter(plan.missing.items()))
        more = f", and {thousands(len(plan.missing) - 1)} more" if len(plan.missing) > 1 else ""
        session.print(f"No video for {index}{more}: {reason}")
    if opened.base_url is None:
        session.print("Nothing was run")
        return
    cost = expected_cost(expected.cost, opened.priced)
    calls = counted(len(plan.todo), "call") + (" and one short test call" if plan.todo else "")
    session.print(f"Expected: {calls}, {cost}; nothing was called")


def _show(session: Session, answers: Answers, opened: OpenCaptioner, *, as_json: bool) -> None:
    from capeval.cli.session import next_step
    from capeval.mcq.answering import NOT_REACHED
    from capeval.reporting.numbers import thousands
    from capeval.text import counted

    run, left = answers.run, answers.unanswered
    if as_json:
        print_json(
            {
                "run": str(run),
                "responses": str(answers.file),
                "asked": answers.asked,
                "answered": answers.asked - len(left),
                "new": answers.new,
                "unanswered": dict(left),
                "without_subtitles": answers.without_subtitles,
                "warnings": answers.warnings,
                "usage": answers.usage.model_dump(),
                "stopped": str(answers.stopped) if answers.stopped else None,
                "cost": opened.meter.spent if opened.base_url else None,
            }
        )
    answered = answers.asked - len(left)
    new = f", {thousands(answers.new)} of them now" if answers.new < answered else ""
    session.print(f"{run.name}: answered {thousands(answered)}/{thousands(answers.asked)}{new}")
    failed = {index: reason for index, reason in left.items() if reason != NOT_REACHED}
    for index, reason in list(failed.items())[:5]:
        session.lost(f"{run.name}: {index} is unanswered: {reason}")
    if (more := len(failed) - 5) > 0:
        session.lost(f"{run.name}: {more:,} more {'is' if more == 1 else 'are'} unanswered")
    if not_reached := len(left) - len(failed):
        session.lost(f"{run.name}: {counted(not_reached, 'question')} not asked")
    if answers.without_subtitles:
        session.print(f"{counted(answers.without_subtitles, 'video')} without subtitles")
    for warning, count in list(answers.warnings.items())[:5]:
        session.print(f"{counted(count, 'reply', 'replies')}: {warning}")
    if answers.stopped:
        sys.stderr.write(f"capeval: {answers.stopped}\n")
    if left:
        session.print(next_step(answers.stopped, "unanswered"))
    if opened.base_url is not None:
        session.print_spent(opened.meter, opened.priced)
    if answers.responses:
        session.print(str(answers.file))
        session.print(f"Grade them: capeval mcq grade {run}")
