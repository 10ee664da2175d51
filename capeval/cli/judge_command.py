"""`capeval judge`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capeval.cli.options import DryRun, Full, Json, Quiet, Yes, declared_by
from capeval.cli.output import print_json
from capeval.judging.options import JudgeOptions
from capeval.text import Loss, counted

if TYPE_CHECKING:
    from capeval.api.judging import Judged
    from capeval.cli.session import Session
    from capeval.judging.estimate import JudgingEstimate
    from capeval.judging.selection import OpenJudge


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
    from capeval.api.judging import open_judging, targets_named
    from capeval.cli.session import (
        DONE,
        INCOMPLETE,
        Session,
        ask,
        expected_cost,
        unestimated_reasoning,
    )
    from capeval.errors import CapevalError

    session = Session(as_json=as_json, quiet=quiet)
    # The captions are the targets: several, and each loaded when it is judged.
    options = JudgeOptions(captions={}, **declared)

    async def run() -> int:
        typed = list(targets or ())
        found = targets_named(typed, options, on_notice=session.notice)
        async with open_judging(
            options, found, offline=dry_run, on_notice=session.notice
        ) as judging:
            opened = judging.opened
            # Everything is read and checked before anything is called or written.
            expected, todo = await judging.estimate()
            for line in judging.left_out:
                session.notice(Loss(line))
            session.notice(f"Judge: {opened.title}")
            if opened.thinks and expected.usage.calls:
                session.notice(unestimated_reasoning(opened.judge.name))
            cost = expected_cost(expected.cost, opened.judge.name)
            if dry_run:
                if as_json:
                    print_json(_estimate(expected, todo, opened))
                else:
                    for line in _estimate_lines(expected, todo, cost):
                        session.print(line)
                return DONE
            ask(expected.cost, expected.usage.calls, yes=yes, max_cost=options.max_cost)
            results: list[Judged] = []
            failure: CapevalError | None = None
            with session.showing() as progress:
                try:
                    async for result in judging.results(progress):
                        # With hundreds of runs, the scores of every video would fill the memory.
                        results.append(result.without_videos())  # noqa: PERF401 - keeps what came
                except CapevalError as error:
                    failure = error
            # What was finished is shown, whatever became of the rest.
            if results or not failure:
                _show(session, results, opened, as_json=as_json, full=full)
            names = {result.name for result in results}
            left = [target.name for target in judging.targets if target.name not in names]
            if left and results:
                session.notice(Loss(f"Not judged: {', '.join(left)}"))
            if failure:
                raise failure
        complete = all(
            not result.stopped
            and len(result.unscored) <= judging.allowance.of(result.scores.counts.captioned)
            for result in results
        )
        return DONE if complete else INCOMPLETE

    raise typer.Exit(session.until_stopped(run))


def _show(
    session: Session, results: list[Judged], opened: OpenJudge, *, as_json: bool, full: bool
) -> None:
    from capeval.cli.session import next_step
    from capeval.reporting.score_tables import print_scores, unscored_lines

    if as_json:
        _print_json(results)
    else:
        shown = {result.name: result.scores for result in results}
        print_scores(shown, session.console, full=full, notes=_card_lines(results))
    for result in results:
        for line in unscored_lines(result.name, result.unscored):
            session.lost(line)
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


def _card_lines(results: list[Judged]) -> list[str]:
    from capeval.reporting.probe_tables import card_line
    from capeval.trust.cards import card_for

    files = [result.file.with_name("judgments.jsonl") for result in results if result.file]
    return list(dict.fromkeys(f"{card_line(card)}." for f in files if (card := card_for(f))))


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

    lines = [f"{name}: {counted(count, 'caption')} to judge" for name, count in todo.items()]
    lines += [
        f"  {stage:<9} {thousands(part.calls):>9} calls, about "
        f"{thousands(part.input_tokens)} tokens in, {thousands(part.output_tokens)} out"
        for stage, part in expected.stages.items()
    ]
    calls = counted(expected.usage.calls, "call")
    test = " and one short test call" if expected.usage.calls else ""
    return [*lines, f"Expected: {calls}{test}, {cost}; nothing was called"]


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
