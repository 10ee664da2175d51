"""`capeval.compare`: judged runs over the videos that are scored in all of them."""

from __future__ import annotations

from pathlib import Path

from capeval.api.run_options import CompareOptions
from capeval.errors import UsageError
from capeval.files.jsonl import dumps
from capeval.files.outputs import check_json, check_output, write_output
from capeval.options import takes
from capeval.reporting.gate_results import gate_results
from capeval.runs.comparing import compare_judged
from capeval.scoring.comparison import RESAMPLES
from capeval.scoring.comparison_result import Compared
from capeval.scoring.gates import CountOrShare, apply_gates, read_gates
from capeval.scoring.judged_run import files_behind, load_judged_runs


@takes(CompareOptions)
def compare(o: CompareOptions) -> Compared:
    """Compare judged runs over the videos that are scored in all of them.

    Two runs are compared by every measure, as second − first; more than two by overall F1.

    Raises
    ------
    InputError, UsageError
        A run cannot be loaded, the runs cannot be compared, or `out` cannot be written.
    """
    gates = read_gates(o.fail_under)
    coverage = (
        None if o.min_coverage is None else CountOrShare.read(o.min_coverage, "--min-coverage")
    )
    if len(o.judged_runs) < 2:
        raise UsageError("name at least two runs")
    if gates and len(o.judged_runs) > 2:
        raise UsageError("--fail-under compares two runs; name two")
    loaded = load_judged_runs(
        o.judged_runs, runs=Path(o.runs), judge=o.judge, annotations=o.annotations, seed=o.seed
    )
    if o.out is not None:
        check_output(Path(o.out), files_behind(loaded.values()))
        check_json(Path(o.out))
    resamples = RESAMPLES if o.resamples is None else o.resamples
    found = compare_judged(loaded, resamples=resamples, seed=o.seed, anyway=o.allow_mismatch)
    outcomes = apply_gates(found, gates, coverage)
    found = found.model_copy(update={"gates": gate_results(found, outcomes)})
    if o.out is not None:
        write_output(Path(o.out), dumps(found.model_dump(mode="json"), indent=1) + "\n")
    return found
