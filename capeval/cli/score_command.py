"""`capeval score`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def score(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="A judged run, a judge's folder, a judgments.jsonl, or a TUNA result file.",
            show_default=False,
        ),
    ],
    annotations: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Annotations (JSON or JSONL); 'sample' for the bundled ones. A run knows its own.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Seed of the bootstrap; 0 without.", show_default=False),
    ] = None,
    ignore_unknown: Annotated[
        bool, typer.Option("--ignore-unknown", help="Skip videos without an annotation.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write scores.json here.", show_default=False),
    ] = None,
    check: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Recompute this scores.json (or that of a run or a judge's folder) and list the "
            "numbers that differ; exit code 4 where one does.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print scores.json, or the differences, on stdout.")
    ] = False,
) -> None:
    """Score stored verdicts again, without any model."""
    from rich.console import Console

    from capeval.errors import UsageError
    from capeval.files.jsonl import dumps
    from capeval.reporting.check_output import differences_json, print_differences
    from capeval.reporting.score_tables import print_scores, unscored_lines
    from capeval.runs.checking import check_scores
    from capeval.runs.folder import JudgeFolder
    from capeval.runs.outputs import check_output, run_files, write_output
    from capeval.runs.rescoring import rescore
    from capeval.runs.resolve import find_judgments, find_scores
    from capeval.runs.sources import annotations_named_by, annotations_of

    if check is not None and (seed is not None or out is not None):
        raise UsageError(
            "--check writes nothing and takes the seed from the file: leave out --seed and --out"
        )

    path = find_judgments(run)
    known = annotations or annotations_named_by(path)
    if known is None:
        raise UsageError(f"{run}: name its annotations with --annotations")
    if check is not None:
        checked = check_scores(
            path, annotations_of(known), find_scores(check), ignore_unknown=ignore_unknown
        )
        if as_json:
            typer.echo(dumps(differences_json(checked), indent=1))
        else:
            print_differences(checked, Console())
        if checked.differences:
            raise typer.Exit(4)
        return
    if out is not None:
        check_output(out, [*run_files(path, scores=False), known], scores=True)
    rescored = rescore(
        path,
        annotations_of(known),
        seed=0 if seed is None else seed,
        ignore_unknown=ignore_unknown,
    )
    scores = rescored.scores
    text = dumps(scores.model_dump(mode="json"), indent=1)
    if out is not None:
        write_output(out, text + "\n")
    if as_json:
        typer.echo(text)
    else:
        judged = JudgeFolder(path.parent).run
        name = judged.name if judged else path.stem
        print_scores({name: scores}, Console())
        for line in unscored_lines(name, rescored.unscored):
            sys.stderr.write(line + "\n")
    if not scores.counts.scored:
        raise typer.Exit(3)
