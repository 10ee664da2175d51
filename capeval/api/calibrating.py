"""`capeval.calibrate`: a judge's scores corrected with labels of some captions."""

from __future__ import annotations

from pathlib import Path

from capeval.api.run_options import CalibrateOptions
from capeval.files.jsonl import dumps
from capeval.files.outputs import check_json, check_output, write_output
from capeval.options import takes
from capeval.runs.folder import JudgeFolder
from capeval.runs.resolve import find_metric
from capeval.scoring.judged_run import files_behind, load_judged
from capeval.trust.calibrated import Calibrated, calibrated_scores
from capeval.trust.labels import read_labels


@takes(CalibrateOptions)
def calibrate(o: CalibrateOptions) -> Calibrated:
    """Correct a judge's scores with labels of some captions, of human raters or another judge.

    Raises
    ------
    InputError, UsageError
        There are no labels of the run's captions, or `out` cannot be written.

    Returns
    -------
    The contents of `calibrated.json`.
    """
    runs = Path(o.runs)
    judged = load_judged(o.run, runs=runs, judge=o.judge, annotations=o.annotations)
    folder = JudgeFolder(judged.file.parent)
    out = None if o.out is None else Path(o.out)
    if out is None and judged.run:
        out = folder.calibrated
    if out is not None:
        inputs = [*files_behind([judged]), find_metric(o.labels, runs)]
        check_output(out, inputs, own=folder.calibrated.name)
        check_json(out)
    labels = read_labels(judged, o.labels, runs=runs, columns=o.columns, on_notice=o.on_notice)
    found = calibrated_scores(judged, labels)
    if out is not None:
        write_output(out, dumps(found.model_dump(mode="json"), indent=1) + "\n")
        o.on_notice(f"{out}: written")
    return found
