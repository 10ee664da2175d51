"""`capeval score`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from capeval.cli import options


def score(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="A judged run, a judge's folder, a judgments.jsonl, or a TUNA result file.",
            show_default=False,
        ),
    ],
    judge: options.WhichJudge = None,
    annotations: options.RunAnnotations = None,
    seed: Annotated[
        int | None,
        options.optional("N", "Seed of the bootstrap. By default 0.", min=0),
    ] = None,
    ignore_unknown: options.IgnoreUnknown = False,
    out: options.OutFile = None,
    check: Annotated[
        str | None,
        options.optional(
            "FILE", "Compare with this scores.json, or that of a run or judge's folder, instead."
        ),
    ] = None,
    as_json: options.Json = False,
    full: options.Full = False,
    quiet: options.Quiet = False,
    runs: options.Runs = Path("runs"),
) -> None:
    """Score stored verdicts again, without any model.

    `capeval score RUN --check FILE` recomputes a published scores.json, lists the values that
    differ, and exits with 4 if there are any.
    """
    from capeval.api import scoring
    from capeval.cli.output import Output
    from capeval.errors import UsageError
    from capeval.reporting.check_output import differences_json, print_differences
    from capeval.reporting.score_tables import print_scores, unscored_lines

    output = Output(quiet=quiet)
    if check is not None:
        if seed is not None or out is not None:
            raise UsageError(
                "--check writes nothing and uses the seed in the file; omit --seed and --out"
            )
        checked = scoring.check_scores(
            run, check, annotations, judge=judge, ignore_unknown=ignore_unknown, runs=runs
        )
        if as_json:
            output.json(differences_json(checked))
        else:
            print_differences(checked, output.console)
        if checked.differences:
            raise typer.Exit(4)
        return
    judged = scoring.score_run(
        run,
        annotations,
        judge=judge,
        seed=seed or 0,
        ignore_unknown=ignore_unknown,
        out=out,
        runs=runs,
    )
    if as_json:
        output.json(judged.scores)
    else:
        print_scores({judged.name: judged.scores}, output.console, full=full)
        for line in unscored_lines(judged.name, judged.unscored):
            output.notice(line)
    if not judged.scores.counts.scored:
        raise typer.Exit(3)
