"""`capeval score`: scores of stored verdicts, without any model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import Any, Literal

from capeval.errors import InputError, UsageError
from capeval.files.jsonl import check_json, check_output, dumps, write_output
from capeval.files.judgments import TABLE_SUFFIXES, element_rows, table_bytes, tuna_result
from capeval.options import (
    OUTPUT,
    FilePath,
    Notices,
    annotations_option,
    command,
    declares,
    in_file,
    judge_option,
    on_notice_option,
    option,
    required,
    runs_option,
    takes,
)
from capeval.runs.engine import failure_lines
from capeval.schema import Annotation
from capeval.scoring.judged_run import JudgedRun, files_behind, load_judged, scores_text
from capeval.scoring.scores import RunScores, Scores
from capeval.show.result import Output
from capeval.text import counted


@declares
class ScoreOptions:
    """The arguments of `capeval.score`.

    Parameters
    ----------
    run : A judged run, a judge's folder, a judgments.jsonl, or a TUNA result file.
    repeats : Use only the first N repeats. By default as many as were last requested.
    ignore_unknown : Skip verdicts on videos without an annotation.
    out : Write the scores to this file (JSON), or each element's verdict (.csv, .parquet).
    layout : Write --out in the layout of a benchmark's own code: tuna.
    """

    run: FilePath = required(positional=True, metavar="RUN")
    annotations: str | Path | Sequence[Annotation | Mapping[str, Any]] | None = annotations_option(
        note="Or `Annotation`s, or dicts."
    )
    _: KW_ONLY
    judge: str | None = judge_option()
    repeats: int | None = option(None, metavar="N", min=1)
    ignore_unknown: bool = in_file(False)
    out: FilePath | None = option(None, panel=OUTPUT, metavar="FILE")
    layout: Literal["tuna"] | None = option(None, panel=OUTPUT, metavar="NAME")
    runs: FilePath = runs_option()
    on_notice: Notices = on_notice_option()


@takes(ScoreOptions)
def score_run(o: ScoreOptions) -> JudgedRun:
    """Return a judged run, whose `scores` are computed from its verdicts.

    It is `score` for callers who also need the run's name and the reasons of unscored captions.
    """
    if o.layout is not None and o.out is None:
        raise UsageError("--layout needs a file: name it with --out")
    judged = load_judged(
        o.run,
        runs=Path(o.runs),
        judge=o.judge,
        annotations=o.annotations,
        ignore_unknown=o.ignore_unknown,
        repeats=o.repeats,
    )
    if o.out is not None:
        check_output(Path(o.out), files_behind([judged]), own="scores.json")
        check_json(Path(o.out), *(TABLE_SUFFIXES if o.layout is None else ()))
        what, content = _content(judged, Path(o.out), o.layout)
        write_output(Path(o.out), content)
        o.on_notice(f"{o.out}: the {what} of {counted(len(judged.scored), 'video')}")
    return judged


def _content(judged: JudgedRun, out: Path, layout: str | None) -> tuple[str, str | bytes]:
    suffix = out.suffix.lower()
    if layout is None and suffix not in TABLE_SUFFIXES:
        return "scores", scores_text(judged.scores)
    pairs = [(judged.annotated[index], one) for index, one in judged.scored.items()]
    if not pairs:
        raise InputError("has no verdict to write", file=judged.file)
    if layout is None:
        return "verdicts", table_bytes(element_rows(judged.name, pairs), suffix)
    if any(one.repeats[1:] for _, one in pairs):
        raise UsageError("--layout tuna has one verdict per caption; choose one with --repeats 1")
    captions = judged.captions
    records = [
        tuna_result(one, captions[one.index].caption if one.index in captions else "", verdict)
        for one, verdict in pairs
    ]
    return "verdicts", dumps(records, indent=1) + "\n"


@takes(ScoreOptions)
def score(o: ScoreOptions) -> Scores:
    """Score stored verdicts again, without any model.

    Raises
    ------
    InputError, UsageError
        There are no verdicts, they do not fit the annotations, or `out` cannot be written.
    """
    return score_run(**vars(o)).scores


class _Scored(RunScores):
    """The scores of one run; its JSON has only these."""

    def __init__(self, run: JudgedRun) -> None:
        super().__init__({run.name: run.scores})
        self.run = run

    def as_json(self) -> Any:
        return self.run.scores.as_json()

    def notices(self) -> Sequence[str]:
        return [*self.run.notices, *failure_lines(self.run.name, "unscored", self.run.unscored)]

    def exit_code(self) -> int:
        return 0 if self.run.scores.counts.scored else 3


@command("score", "as_json", "full", options=ScoreOptions)
def score_command(o: ScoreOptions, _: Output) -> RunScores:
    """Score stored verdicts again, without any model."""
    return _Scored(score_run(**vars(o)))
