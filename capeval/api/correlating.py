"""`capeval.correlate`: metrics compared with human ratings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from capeval.api.run_options import CorrelateOptions
from capeval.api.sync_async import awaitable
from capeval.correlation.averaging import average, load_data_sets
from capeval.correlation.from_files import CorrelateRequest, correlate_files
from capeval.correlation.protocols import protocol as protocol_of
from capeval.correlation.result import Correlations
from capeval.correlation.video_level import Settings
from capeval.errors import UsageError
from capeval.files.jsonl import dumps
from capeval.options import takes
from capeval.runs.outputs import check_output, write_output
from capeval.runs.resolve import find_metric
from capeval.runs.sources import files_read
from capeval.schema import Annotation


@takes(CorrelateOptions)
def correlate(o: CorrelateOptions) -> Correlations:
    """Correlate metrics with human ratings.

    Without `metric` and `metric_columns`, the metrics are all judged runs, or the judged sample.
    With `average`, results of several data sets are averaged, and only `protocol`, `statistic`,
    `grouping` and `out` have an effect.

    Raises
    ------
    InputError, UsageError
        A file or a name is wrong, metrics and ratings have no caption in common, or `out` cannot
        be written.

    Returns
    -------
    The contents of `correlations.json`. A metric that is constant, missing or failed has the value
    None and a reason.
    """
    if o.average:
        return _average(o)
    if o.human is None:
        raise UsageError(
            "name the file of human ratings with --human, or files of results with --average"
        )
    folder = Path(o.runs)
    named = [
        (name, find_metric(path, folder))
        for name, paths in (o.metric or {}).items()
        for path in ([paths] if isinstance(paths, str | Path) else paths)
    ]
    _refuse_repeated("--metric-columns", [(name, name) for name in o.metric_columns])
    files = [(f"{name}={path}", f"{name}={os.path.realpath(path)}") for name, path in named]
    _refuse_repeated("--metric", files)
    known: str | tuple[Annotation, ...] | None = None
    if isinstance(o.annotations, str | Path):
        known = str(o.annotations)
    elif o.annotations is not None:
        known = tuple(o.annotations)
    request = CorrelateRequest(
        human=Path(o.human),
        auto=tuple(named),
        metric_columns=tuple(o.metric_columns),
        annotations=known,
        runs=folder,
        missing=o.missing,
        published=o.published,
        exclude=tuple(o.exclude_system),
        columns=o.columns or {},
        standardised=o.raters == "zmean",
        on_notice=o.on_notice,
    )
    settings = Settings(
        protocol=protocol_of(o.protocol, o.statistic, o.grouping),
        ci=o.ci,
        resamples=o.resamples,
        seed=o.seed,
        raters=o.raters,
    )
    if o.out is not None:
        all_runs = not named and not o.metric_columns
        path = known if isinstance(known, str) else None
        read = files_read([path for _, path in named], path, folder if all_runs else None)
        check_output(Path(o.out), [o.human, *read])
    return _written(correlate_files(request, settings, o.progress), o)


def _refuse_repeated(option: str, names: Sequence[tuple[str, str]]) -> None:
    """Refuse a name that is given again: as it is typed, and as it is compared."""
    seen: set[str] = set()
    for typed, meant in names:
        if meant in seen:
            raise UsageError(f"{option}: {typed} is named twice")
        seen.add(meant)


# What an average of results depends on; it does not show progress, as it takes no time.
_OF_AVERAGES = ("average", "protocol", "statistic", "grouping", "out", "on_notice", "progress")


def _average(o: CorrelateOptions) -> Correlations:
    for one in fields(o):
        if one.name not in _OF_AVERAGES and getattr(o, one.name) not in (one.default, {}):
            option = f"--{one.name.replace('_', '-')}"
            raise UsageError(
                f"{option} has no effect on an average of results; use it when each is computed"
            )
    paths = [Path(path) for path in o.average]
    if o.out is not None:
        check_output(Path(o.out), paths)
    protocol = protocol_of(o.protocol, o.statistic, o.grouping)
    return _written(average(load_data_sets(paths), protocol), o)


def _written(found: Correlations, o: CorrelateOptions) -> Correlations:
    if o.out is not None:
        write_output(Path(o.out), dumps(found.model_dump(mode="json"), indent=1) + "\n")
    return found


correlate_async = awaitable(correlate)
