"""`capeval judge`: captions are judged."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from capeval.cli.options import LONG, Targets, declared_by
from capeval.judging.options import JudgeOptions
from capeval.show.output import Output

if TYPE_CHECKING:
    from capeval.api.judging import Judged
    from capeval.runs.long_work import LongWork


@declared_by(JudgeOptions, *LONG, "full")
def judge(
    declared: dict[str, Any],
    output: Output,
    *,
    targets: Targets = None,
) -> None:
    """Judge captions event by event and score them: precision, recall and F1.

    A judge splits each caption into events, matches them in order to the annotated events, and
    decides for every annotated visual element whether the caption entails, lacks or contradicts it.

    Run the same command again to resume: nothing is paid for twice.
    """
    # Heavy modules are imported when the command runs, so that `--help` is fast.
    from capeval.api.judging import open_judging, targets_named
    from capeval.cli.long_command import run_long
    from capeval.scoring.scores import RunScores

    # The captions are the targets: several, and each loaded when it is judged.
    options = JudgeOptions(captions={}, **declared)

    def show(work: LongWork[Judged], results: list[Judged]) -> None:
        if output.as_json:
            _print_json(results)
            return
        is_scored = any(one.scores.counts.scored for one in results)
        shown = {result.name: result.scores for result in results}
        if shown:
            RunScores(shown).show(output.console, full=output.full)
        if any(one.stopped for one in results) and work.meter.calls and not is_scored:
            output.line("No caption has a verdict yet. The replies so far are cached.")

    found = targets_named(list(targets or ()), options, on_notice=output.notice)
    opening = open_judging(options, found, offline=output.dry_run, on_notice=output.notice)
    run_long(output, opening, show)


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
