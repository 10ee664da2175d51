"""`capeval score`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def score(
    path: Annotated[
        Path,
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
        Path | None,
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
    from capeval.files.reading import read_text
    from capeval.reporting.check_output import differences_json, print_differences
    from capeval.reporting.score_tables import print_scores, unscored_lines
    from capeval.runs.checking import check_scores, scores_at
    from capeval.runs.folder import RunFolder, run_or_path
    from capeval.runs.outputs import check_output, run_files, write_output
    from capeval.runs.rescoring import rescore
    from capeval.runs.sources import annotations_named_by, annotations_of

    if check is not None and (seed is not None or out is not None):
        raise UsageError(
            "--check writes nothing and takes the seed from the file: leave out --seed and --out"
        )

    path = run_or_path(path, Path("runs"))
    if not path.is_dir():
        read_text(path)
    full = path.absolute()
    known = annotations or annotations_named_by(path)
    if known is None:
        raise UsageError(f"{path}: name its annotations with --annotations")
    if check is not None:
        checked = check_scores(
            path, annotations_of(known), scores_at(check), ignore_unknown=ignore_unknown
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
        folder = full.parent if full.name == "judgments.jsonl" else full
        name = folder.parent.name if RunFolder(folder.parent).exists() else folder.name
        print_scores({name: scores}, Console())
        for line in unscored_lines(name, rescored.unscored):
            sys.stderr.write(line + "\n")
    if not scores.counts.scored:
        raise typer.Exit(3)
