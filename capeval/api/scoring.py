"""`capeval.score` and `capeval.check_scores`: scores of stored verdicts, without any model."""

from __future__ import annotations

from pathlib import Path

from capeval.api.run_options import CheckOptions, ScoreOptions, check_has_human
from capeval.errors import InputError, UsageError
from capeval.files.element_table import SUFFIXES, element_rows, table_bytes
from capeval.files.jsonl import dumps
from capeval.files.tuna_results import tuna_result
from capeval.options import takes
from capeval.runs.judged_run import JudgedRun, files_behind, load_judged
from capeval.runs.outputs import check_json, check_output, write_output
from capeval.runs.resolve import find_metric
from capeval.runs.stored_scores import Checked, read_scores, scores_text
from capeval.runs.stored_scores import check_scores as check_stored
from capeval.scoring import Scores, Signature
from capeval.text import counted
from capeval.trust.labels import store_labels, with_labels


@takes(ScoreOptions)
def score_run(o: ScoreOptions) -> JudgedRun:
    """Return a judged run, whose `scores` are computed from its verdicts.

    It is `score` for callers who also need the run's name and the reasons of unscored captions.
    """
    check_has_human(o.columns, o.labels, "--labels")
    if o.layout is not None and o.out is None:
        raise UsageError("--layout is that of --out; name a file with --out")
    runs = Path(o.runs)
    judged = load_judged(
        o.run,
        runs=runs,
        judge=o.judge,
        annotations=o.annotations,
        ignore_unknown=o.ignore_unknown,
        labels=o.labels is None,
        repeats=o.repeats,
    )
    if o.out is not None:
        inputs = [*files_behind([judged]), *([find_metric(o.labels, runs)] if o.labels else [])]
        check_output(Path(o.out), inputs, own="scores.json")
        check_json(Path(o.out), *(SUFFIXES if o.layout is None else ()))
    # Before the run gets labels: it may be refused.
    verdicts = None if o.out is None or _has_scores(o) else _verdicts(judged, o)
    if o.labels is not None:
        judged = with_labels(
            judged,
            o.labels,
            runs=runs,
            columns=o.columns,
            on_notice=o.on_notice,
        )
        for line in store_labels(judged):
            o.on_notice(line)
    if o.out is not None:
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

    With `labels`, of human raters or another judge, the scores are also calibrated. The run keeps
    the labels.

    Raises
    ------
    InputError, UsageError
        There is nothing to score, it does not match the annotations, or `out` cannot be written.
    """
    return score_run(**vars(o)).scores


@takes(CheckOptions)
def check_scores(o: CheckOptions) -> Checked:
    """Recompute a published `scores.json` from verdicts and list the values that differ.

    Raises
    ------
    InputError, UsageError
        The file is not a `scores.json`, or there is nothing to recompute it from.
    """
    named = Signature.parse(str(read_scores(Path(o.file)).get("signature"))).get("repeats")
    judged = load_judged(
        o.run,
        runs=Path(o.runs),
        judge=o.judge,
        annotations=o.annotations,
        ignore_unknown=o.ignore_unknown,
        labels=o.labels is None,
        # As many repeats as the file was made with.
        repeats=o.repeats or (int(named) if named and named.isdecimal() else None),
    )
    if o.labels is not None:
        judged = with_labels(judged, o.labels, runs=Path(o.runs), columns=o.columns)
    return check_stored(judged, Path(o.file))
