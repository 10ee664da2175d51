"""`capeval.correlate`: metrics compared with human ratings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from capeval.api.run_options import CorrelateOptions
from capeval.correlation.from_files import CorrelateRequest, correlate_files
from capeval.correlation.metric_sources import METRICS
from capeval.correlation.protocols import protocol as protocol_of
from capeval.correlation.result import Correlations
from capeval.correlation.video_level import Settings
from capeval.errors import UsageError
from capeval.files.jsonl import dumps
from capeval.files.outputs import check_json, check_output, write_output
from capeval.options import takes
from capeval.runs.resolve import find_metric
from capeval.runs.sources import annotations_in_memory, files_read
from capeval.schema import Annotation


@takes(CorrelateOptions)
def correlate(o: CorrelateOptions) -> Correlations:
    """Correlate metrics with human ratings.

    Without `metric`, the metrics are those of all judged or measured runs, or of the sample's.

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
    folder = Path(o.runs)
    named: list[tuple[str, Path]] = []
    only: dict[tuple[str, Path], str] = {}
    for name, paths in (o.metric or {}).items():
        for typed in [paths] if isinstance(paths, str | Path) else paths:
            path, metric = _split(typed, folder)
            if metric is None:
                named.append((name, find_metric(path, folder, o.judge)))
            else:
                named.append((name, Path(path)))
                only[named[-1]] = metric
    files = [(f"{name}={path}", f"{name}={os.path.realpath(path)}") for name, path in named]
    _refuse_repeated("--metric", files)
    # A metric in the human file is a column of its name.
    human = os.path.realpath(o.human)
    in_human = tuple(name for name, path in named if os.path.realpath(path) == human)
    named = [(name, path) for name, path in named if os.path.realpath(path) != human]
    known: str | tuple[Annotation, ...] | None = None
    if isinstance(o.annotations, str | Path):
        known = str(o.annotations)
    elif o.annotations is not None:
        known = annotations_in_memory(o.annotations)
    request = CorrelateRequest(
        human=Path(o.human),
        auto=tuple(named),
        only=only,
        metric_columns=in_human,
        annotations=known,
        runs=folder,
        judge=o.judge,
        missing=o.missing,
        published=o.published,
        columns=o.columns or {},
        on_notice=o.on_notice,
    )
    settings = Settings(
        protocol=protocol_of(o.protocol, o.statistic, o.grouping),
        seed=o.seed,
        raters=o.raters,
    )
    if o.out is not None:
        all_runs = not named and not in_human
        annotations = known if isinstance(known, str) else None
        read = files_read([path for _, path in named], annotations, folder if all_runs else None)
        check_output(Path(o.out), [o.human, *read])
        check_json(Path(o.out))
    found = correlate_files(request, settings, o.progress)
    if o.out is not None:
        write_output(Path(o.out), dumps(found.model_dump(mode="json"), indent=1) + "\n")
    return found


def _split(typed: str | Path, folder: Path) -> tuple[str | Path, str | None]:
    """Return the path and the metric of `PATH:METRIC`, for a metrics.jsonl or a run with one."""
    head, _, metric = str(typed).rpartition(":")
    places = [Path(head), folder / head] if head and metric else []
    if any(os.path.lexists(place) for place in (Path(typed), folder / typed)):
        return typed, None
    for place in places:
        file = place / METRICS if place.is_dir() else place
        if file.is_file():
            return file, metric
    return typed, None


def _refuse_repeated(option: str, names: Sequence[tuple[str, str]]) -> None:
    """Refuse a name that is given again: as it is typed, and as it is compared."""
    seen: set[str] = set()
    for typed, meant in names:
        if meant in seen:
            raise UsageError(f"{option}: {typed} is named twice")
        seen.add(meant)
