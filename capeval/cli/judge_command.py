"""`capeval judge`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capeval.cli.options import DryRun, Full, Json, MaxFailed, Quiet, Yes, declared_by
from capeval.cli.output import print_json
from capeval.judging.options import JudgeOptions
from capeval.text import Loss, counted

if TYPE_CHECKING:
    from capeval.api.judging import Judged, Target
    from capeval.cli.session import Session
    from capeval.judging.estimate import JudgingEstimate
    from capeval.judging.selection import OpenJudge
    from capeval.scoring.gates import CountOrShare


@declared_by(JudgeOptions)
def judge(
    declared: dict[str, Any],
    *,
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN",
            help="Runs under runs/, or captions files (JSONL, or JSON {index: caption}). "
            "By default every run; if there is none, the bundled sample (its name: sample).",
            show_default=False,
        ),
    ] = None,
    max_failed: MaxFailed = "0",
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    full: Full = False,
    quiet: Quiet = False,
) -> None:
    """Judge captions event by event and score them: precision, recall and F1.

    A judge splits each caption into events, matches them in order to the annotated events, and
    decides for every annotated visual element whether the caption entails, lacks or contradicts it.

    Run the same command again to resume where it stopped: nothing is paid for twice.
    """
    # Heavy modules are imported when the command runs, so that `--help` is fast.
    from capeval.api.judging import targets_named
    from capeval.cli.session import Session
    from capeval.scoring.gates import CountOrShare

    allowance = CountOrShare.read(max_failed, "--max-failed")
    session = Session(as_json=as_json, quiet=quiet)
    # The captions are the targets: several, and each loaded when it is judged.
    options = JudgeOptions(captions={}, **declared)

    def show(results: list[Judged]) -> None:
        from capeval.reporting.score_tables import print_scores

        if as_json:
            _print_json(results)
        else:
            shown = {result.name: result.scores for result in results}
            print_scores(shown, session.console, full=full)

    async def run() -> int:
        found = targets_named(list(targets or ()), options, on_notice=session.notice)
        return await judge_targets(
            session, options, found, show, allowance, yes=yes, dry_run=dry_run, as_json=as_json
        )

    raise typer.Exit(session.until_stopped(run))


async def judge_targets(
    session: Session,
    options: JudgeOptions,
    targets: Sequence[Target],
    show: Callable[[list[Judged]], None],
    allowance: CountOrShare,
    *,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Judge targets, print the results with `show` and what is left, and return the exit code.

    Before anything is called, the expected cost is asked about, or is all that is printed.
    """
    from capeval.api.judging import open_judging
    from capeval.cli.session import DONE, INCOMPLETE, ask, expected_cost, unestimated_reasoning

    async with open_judging(options, targets, offline=dry_run, on_notice=session.notice) as judging:
        opened = judging.opened
        # Everything is read and checked before anything is called or written.
        expected, todo = await judging.estimate()
        for line in judging.left_out:
            session.notice(Loss(line))
        session.notice(f"Judge: {opened.title}")
        if opened.thinks and expected.usage.calls:
            session.notice(unestimated_reasoning(opened.judge.name))
        cost = expected_cost(expected.cost, opened.judge.name, options.max_cost)
        if dry_run:
            if as_json:
                print_json(_estimate(expected, todo, opened))
            else:
                for line in _estimate_lines(expected, todo, cost):
                    session.print(line)
            return DONE
        calls, model = expected.usage.calls, opened.judge.name
        ask(expected.cost, calls, model, yes=yes, max_cost=options.max_cost)
        session.caches_replies = opened.offline is not None
        with session.showing() as progress:
            # With hundreds of runs, the scores of every video would fill the memory.
            judged = (result.without_videos() async for result in judging.results(progress))
            results, failure = await session.collected(judged)
        # What was finished is shown, whatever became of the rest.
        if results or not failure:
            show(results)
            _show_rest(session, results, opened)
        names = {result.name for result in results}
        left = [target.name for target in judging.targets if target.name not in names]
        if left and results:
            session.notice(Loss(f"Not judged: {', '.join(left)}"))
        if failure:
            raise failure
    complete = all(
        not result.stopped and len(result.unscored) <= allowance.of(result.scores.counts.captioned)
        for result in results
    )
    return DONE if complete else INCOMPLETE


def _show_rest(session: Session, results: list[Judged], opened: OpenJudge) -> None:
    """Print what was not judged and why, what to do about it, the cost, and the files."""
    from capeval.cli.session import next_step

    for result in results:
        session.unscored(result.name, result.unscored)
        if result.not_reached:
            session.lost(f"{result.name}: {counted(result.not_reached, 'caption')} not judged")
        if result.stopped:
            sys.stderr.write(f"capeval: {result.stopped}\n")
    if any(result.unscored or result.not_reached for result in results):
        stopped = next((result.stopped for result in results if result.stopped), None)
        if stopped and opened.meter.calls and not any(r.scores.counts.scored for r in results):
            session.print("No caption has a verdict yet. The replies so far are cached.")
        session.print(next_step(stopped, "unscored"))
    session.print_spent(opened.meter, opened.judge.name)
    if opened.meter.guessed:
        report = session.lost if opened.meter.price(opened.judge.name) else session.print
        report(
            f"{counted(opened.meter.guessed, 'reply', 'replies')} came without token counts: "
            "the cost is an estimate"
        )
    for result in results:
        if result.file:
            session.print(f"{result.file}")


def _estimate(
    expected: JudgingEstimate, todo: Mapping[str, int], opened: OpenJudge
) -> dict[str, Any]:
    usage = expected.usage
    return {
        "judge": opened.judge.name,
        "reasoning": opened.judge.reasoning,
        "reasoning_tokens": "not estimated" if opened.thinks else 0,
        "runs": todo,
        "calls": usage.calls,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost": expected.cost,
        "stages": {k: v.model_dump() for k, v in expected.stages.items()},
    }


def _estimate_lines(expected: JudgingEstimate, todo: Mapping[str, int], cost: str) -> list[str]:
    from capeval.reporting.numbers import thousands

    calls = counted(expected.usage.calls, "call")
    test = " and one short test call" if expected.usage.calls else ""
    lines = [f"Expected: {calls}{test}, {cost}; nothing was called"]
    lines += [f"{name}: {counted(count, 'caption')} to judge" for name, count in todo.items()]
    lines += [
        f"  {stage:<9} {thousands(part.calls):>9} calls, about "
        f"{thousands(part.input_tokens)} tokens in, {thousands(part.output_tokens)} out"
        for stage, part in expected.stages.items()
    ]
    return lines


def _print_json(results: list[Judged]) -> None:
    from capeval.files.jsonl import dumps, printable_json

    # Run by run from the files just written: all of them at once may not fit in memory.
    before = "{"
    for result in results:
        if result.file:
            text = result.file.read_text(encoding="utf-8").rstrip()
            sys.stdout.write(printable_json(f"{before}\n{dumps(result.name)}: {text}"))
            before = ","
    sys.stdout.write("\n}\n" if before == "," else "{}\n")
