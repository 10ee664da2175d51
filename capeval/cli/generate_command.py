"""`capeval generate`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capeval.captioners.options import GenerateOptions
from capeval.cli.options import DryRun, Json, Quiet, Yes, declared_by
from capeval.cli.output import print_json
from capeval.options import LIMITS
from capeval.text import Loss

if TYPE_CHECKING:
    from capeval.api.generating import GeneratingSession
    from capeval.captioners.plan import Generation
    from capeval.captioners.run import Merge
    from capeval.captioners.selection import GenerationEstimate, OpenCaptioner
    from capeval.cli.session import Session


@declared_by(GenerateOptions)
def generate(
    declared: dict[str, Any],
    *,
    max_ungenerated: Annotated[
        str,
        typer.Option(
            metavar="SHARE",
            help="Exit 3 if more get no caption: a number, or a share such as 1%.",
            rich_help_panel=LIMITS,
        ),
    ] = "0",
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
    from capeval.api.generating import merge_shards, open_generating
    from capeval.cli.session import DONE, INCOMPLETE, Session, ask
    from capeval.scoring.gates import CountOrShare

    allowance = CountOrShare.read(max_ungenerated, "--max-ungenerated")
    session = Session(as_json=as_json, quiet=quiet)
    options = GenerateOptions(**declared)

    async def run() -> int:
        if options.merge:
            generation, merge = merge_shards(options), None
            _show(session, generation, merge, None, as_json=as_json, merging=True)
        else:
            async with open_generating(options, on_notice=session.notice) as generating:
                _introduce(session, generating)
                expected = await generating.estimate()
                if dry_run:
                    _show_estimate(session, generating, expected, as_json=as_json)
                    return DONE
                ask(expected.cost, expected.usage.calls, yes=yes, max_cost=options.max_cost)
                with session.showing() as progress:
                    generation, merge = await generating.run(progress)
                _show(session, generation, merge, generating.opened, as_json=as_json)
        left, asked = len(generation.ungenerated), generation.asked
        complete = not generation.stopped and left <= allowance.of(asked)
        return DONE if complete else INCOMPLETE

    raise typer.Exit(session.until_stopped(run))


def _introduce(session: Session, generating: GeneratingSession) -> None:
    from capeval.text import counted

    plan, opened = generating.plan, generating.opened
    where = f" at {opened.base_url}" if opened.base_url else ""
    settings = plan.settings
    session.notice(
        f"Captioner: {opened.captioner.name}{where}, frames {settings['frames']} by "
        f"{settings['decoder']}, prompt {settings['prompt']['source']}"
    )
    if plan.again:
        again = (
            f"{plan.run.name}: {counted(plan.again, 'caption')} will be written again: the prompt "
            "or the video file has changed, or the caption is empty"
        )
        session.notice(Loss(again))


def _show_estimate(
    session: Session, generating: GeneratingSession, expected: GenerationEstimate, *, as_json: bool
) -> None:
    from capeval.cli.session import expected_cost
    from capeval.reporting.numbers import thousands
    from capeval.text import counted

    plan, opened, usage = generating.plan, generating.opened, expected.usage
    if as_json:
        found = {
            "run": plan.run.name,
            "asked": plan.asked,
            "done": plan.asked - len(plan.todo) - len(plan.missing),
            "to_caption": len(plan.todo),
            "missing": dict(plan.missing),
            "calls": len(plan.todo) if opened.base_url else 0,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cost": expected.cost,
            "settings": plan.settings,
        }
        print_json(found)
        return
    session.print(f"{plan.run.name}: {counted(len(plan.todo), 'video')} to caption")
    if plan.missing:
        index, reason = next(iter(plan.missing.items()))
        more = f", and {thousands(len(plan.missing) - 1)} more" if len(plan.missing) > 1 else ""
        session.print(f"{plan.run.name}: no video for {index}{more}: {reason}")
    if opened.base_url is None:
        session.print("Nothing was run")
        return
    if usage.calls:
        session.print(
            f"  about {expected.frames} frames each, {thousands(usage.input_tokens)} tokens "
            f"in, {thousands(usage.output_tokens)} out"
        )
    cost = expected_cost(expected.cost, opened.priced)
    if expected.cost is not None:
        cost += ", minus what is in the cache"
    calls = counted(len(plan.todo), "call") + (" and one short test call" if plan.todo else "")
    session.print(f"Expected: {calls}, {cost}; nothing was called")


def _show(
    session: Session,
    generation: Generation,
    merge: Merge | None,
    opened: OpenCaptioner | None,
    *,
    as_json: bool,
    merging: bool = False,
) -> None:
    from capeval.captioners.run import NOT_REACHED
    from capeval.cli.session import next_step
    from capeval.reporting.numbers import thousands
    from capeval.text import counted

    if as_json:
        print_json(_summary(generation, merge, opened))
    run, left = generation.run, generation.ungenerated
    shard = f" (shard {generation.shard})" if generation.shard else ""
    captioned = generation.asked - len(left)
    new = f", {thousands(generation.new)} of them now" if generation.new < captioned else ""
    of = f"{thousands(captioned)}/{thousands(generation.asked)}"
    session.print(f"{run.name}{shard}: captioned {of}{new}")
    failed = {index: reason for index, reason in left.items() if reason != NOT_REACHED}
    for index, reason in list(failed.items())[:5]:
        session.lost(f"{run.name}: {index} is ungenerated: {reason}")
    if (more := len(failed) - 5) > 0:
        session.lost(f"{run.name}: {more:,} more {'is' if more == 1 else 'are'} ungenerated")
    if not_reached := len(left) - len(failed):
        session.lost(f"{run.name}: {counted(not_reached, 'video')} not captioned")
    for warning, count in generation.warnings.items():
        session.print(f"{run.name}: {counted(count, 'caption')} with a warning: {warning}")
    if len(generation.revisions) > 1:
        session.print(f"{run.name}: written by {' and '.join(generation.revisions[:5])}")
    if generation.stopped:
        sys.stderr.write(f"capeval: {generation.stopped}\n")
    if left and merging:
        session.print("Generate what is missing without --merge, and --run with this name.")
    elif left:
        session.print(next_step(generation.stopped, "ungenerated"))
    if opened is not None and opened.base_url is not None:
        session.print_spent(opened.meter, opened.priced)
    elif opened is not None and generation.usage.output_tokens:
        usage = generation.usage
        session.print(
            f"{thousands(usage.input_tokens)} tokens in, {thousands(usage.output_tokens)} out"
        )
    if merge and merge.waiting_for:
        others = ", ".join(map(str, merge.waiting_for[:8]))
        session.print(
            f"Not merged yet: {others} {'is' if len(merge.waiting_for) == 1 else 'are'} not "
            f"done here. The last shard to finish merges all; or: capeval generate --merge "
            f"--run {run.name}"
        )
    elif generation.captions:
        session.print(f"{run.captions}")
        session.print(f"Judge them: capeval judge {run.name}")


def _summary(
    generation: Generation, merge: Merge | None, opened: OpenCaptioner | None
) -> dict[str, Any]:
    return {
        "run": generation.run.name,
        "captions": str(generation.run.captions) if generation.run.exists() else None,
        "shard": str(generation.shard) if generation.shard else None,
        "annotated": generation.annotated,
        "asked": generation.asked,
        "captioned": generation.asked - len(generation.ungenerated),
        "new": generation.new,
        "ungenerated": dict(generation.ungenerated),
        "warnings": generation.warnings,
        "revisions": generation.revisions,
        "usage": generation.usage.model_dump(),
        "cost": opened.meter.spent if opened and opened.base_url else None,
        "waiting_for": [str(shard) for shard in merge.waiting_for] if merge else [],
        "stopped": str(generation.stopped) if generation.stopped else None,
    }
