"""`capeval.compare`: judged runs over the videos that are scored in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from capeval.api import FilePath
from capeval.api.sync_async import awaitable
from capeval.errors import UsageError
from capeval.files.jsonl import dumps
from capeval.runs.comparing import compare_judged
from capeval.runs.judged_run import files_behind, load_judged_runs
from capeval.runs.outputs import check_output, write_output
from capeval.scoring import DRAWS
from capeval.scoring.comparison_result import Comparison, Matrix
from capeval.scoring.gates import On, apply_gates, read_coverage, read_gates

# More need more memory than a CI machine has, and change no digit that is shown.
_MOST_RESAMPLES = 100_000


def compare(
    judged_runs: Sequence[FilePath],
    *,
    judge: str | None = None,
    annotations: str | None = None,
    allow_mismatch: bool = False,
    fail_under: Sequence[str] = (),
    gate: On = "estimate",
    min_coverage: str | None = None,
    resamples: int = DRAWS,
    seed: int = 0,
    out: FilePath | None = None,
    runs: FilePath = "runs",
) -> Comparison | Matrix:
    """Compare judged runs over the videos that are scored in all of them.

    Two runs are compared by every measure, as second − first; more than two by overall F1.

    Parameters
    ----------
    judged_runs, judge, annotations, seed, out, runs : see `capeval.api`
    allow_mismatch : compare runs that differ in judge, prompts, repeats or data
    fail_under : gates in points, such as `"f1=-0.5"`; whether each passed is in `gates`
    gate : what the gates test, the estimate or the lower end of its interval
    min_coverage : a further gate: how many annotated videos must be compared, `"99%"` or `"990"`
    resamples : number of bootstrap resamples and of permutations

    Raises
    ------
    InputError, UsageError
        A run cannot be loaded, the runs cannot be compared, or `out` cannot be written.
    """
    if not 99 <= resamples <= _MOST_RESAMPLES:
        raise UsageError(f"--resamples must be from 99 to {_MOST_RESAMPLES:,}, not {resamples:,}")
    gates = read_gates(fail_under, on=gate)
    coverage = None if min_coverage is None else read_coverage(min_coverage)
    if len(judged_runs) < 2:
        raise UsageError("name at least two runs")
    if gates and len(judged_runs) > 2:
        raise UsageError("--fail-under compares two runs; name two")
    loaded = load_judged_runs(
        judged_runs, runs=Path(runs), judge=judge, annotations=annotations, seed=seed
    )
    if out is not None:
        check_output(Path(out), files_behind(loaded.values()))
    found = compare_judged(loaded, draws=resamples, seed=seed, anyway=allow_mismatch)
    found = found.model_copy(update={"gates": apply_gates(found, tuple(gates), coverage)})
    if out is not None:
        write_output(Path(out), dumps(found.model_dump(mode="json"), indent=1) + "\n")
    return found


compare_async = awaitable(compare)
