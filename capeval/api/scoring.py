"""`capeval.score`: scores of stored verdicts, without any model."""

from __future__ import annotations

from pathlib import Path

from capeval.api.run_options import ScoreOptions
from capeval.errors import InputError, UsageError
from capeval.files.element_table import SUFFIXES, element_rows, table_bytes
from capeval.files.jsonl import dumps
from capeval.files.tuna_results import tuna_result
from capeval.options import takes
from capeval.runs.judged_run import JudgedRun, files_behind, load_judged
from capeval.runs.outputs import check_json, check_output, write_output
from capeval.runs.stored_scores import scores_text
from capeval.scoring import Scores
from capeval.text import counted


@takes(ScoreOptions)
def score_run(o: ScoreOptions) -> JudgedRun:
    """Return a judged run, whose `scores` are computed from its verdicts.

    It is `score` for callers who also need the run's name and the reasons of unscored captions.
    """
    if o.layout is not None and o.out is None:
        raise UsageError("--layout is that of --out; name a file with --out")
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
        check_json(Path(o.out), *(SUFFIXES if o.layout is None else ()))
        verdicts = None if _has_scores(o) else _verdicts(judged, o)
        write_output(Path(o.out), scores_text(judged.scores) if verdicts is None else verdicts)
        what = "scores" if verdicts is None else "verdicts"
        o.on_notice(f"{o.out}: the {what} of {counted(len(judged.scored), 'video')}")
    return judged


def _has_scores(o: ScoreOptions) -> bool:
    return o.layout is None and Path(str(o.out)).suffix.lower() not in SUFFIXES


def _verdicts(judged: JudgedRun, o: ScoreOptions) -> str | bytes:
    """Return the content of --out where that is the verdicts."""
    pairs = [(judged.annotated[index], one) for index, one in judged.scored.items()]
    if not pairs:
        raise InputError("has no verdict to write", file=judged.file)
    if o.layout is None:
        suffix = Path(str(o.out)).suffix.lower()
        return table_bytes(element_rows(judged.name, pairs), suffix)
    if any(one.repeats[1:] for _, one in pairs):
        raise UsageError("--layout tuna has one verdict per caption; choose one with --repeats 1")
    captions = judged.captions
    records = [
        tuna_result(one, captions[one.index].caption if one.index in captions else "", verdict)
        for one, verdict in pairs
    ]
    return dumps(records, indent=1) + "\n"


@takes(ScoreOptions)
def score(o: ScoreOptions) -> Scores:
    """Score stored verdicts again, without any model.

    Raises
    ------
    InputError, UsageError
        There is nothing to score, it does not match the annotations, or `out` cannot be written.
    """
    return score_run(**vars(o)).scores
