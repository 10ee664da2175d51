"""`capeval.mcq_temporal`: graded runs of one model beside each other."""

from __future__ import annotations

from pathlib import Path

from capeval.api.mcq_options import McqTemporalOptions
from capeval.errors import UsageError
from capeval.mcq.find_run import RESPONSES, find_grades
from capeval.mcq.grades import read_graded_run
from capeval.mcq.temporal import ROLES, TemporalResult, temporal_result
from capeval.options import takes
from capeval.reporting.formats import form_for
from capeval.reporting.temporal_tables import rendered_temporal
from capeval.runs.outputs import check_output, write_output


@takes(McqTemporalOptions)
def mcq_temporal(o: McqTemporalOptions) -> TemporalResult:
    """Return how much each model's accuracy depends on several frames, and on their order.

    Raises
    ------
    InputError, UsageError
        A run cannot be read, the runs do not fit together, or `out` cannot be written.
    """
    given = {role: getattr(o, role) for role in ROLES if getattr(o, role) is not None}
    files = {role: find_grades(run, Path(o.runs)) for role, run in given.items()}
    if len({*files.values()}) < len(files):
        raise UsageError("the same run is named for two roles; each shows the model other frames")
    if o.out is not None:
        read = [file for one in files.values() for file in (one, one.with_name(RESPONSES))]
        check_output(Path(o.out), read)
    result = temporal_result(
        {role: read_graded_run(file) for role, file in files.items()},
        tag=o.by,
        resamples=o.resamples,
        seed=o.seed,
    )
    if o.out is not None:
        form = form_for(Path(o.out), "table")
        write_output(Path(o.out), rendered_temporal(result, form) + "\n")
    return result
