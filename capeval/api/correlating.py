"""`capeval.correlate`: metrics compared with human ratings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from capeval.api import FilePath
from capeval.api.scoring import Annotations
from capeval.api.sync_async import awaitable
from capeval.correlation.from_files import CorrelateRequest, correlate_files
from capeval.correlation.joining import IfMissing
from capeval.correlation.protocols import protocol as protocol_of
from capeval.correlation.result import Correlations
from capeval.correlation.video_level import Settings
from capeval.errors import UsageError
from capeval.files.jsonl import dumps
from capeval.runs.outputs import check_output, write_output
from capeval.runs.resolve import find_metric
from capeval.runs.sources import files_read
from capeval.schema import RaterMode
from capeval.stats.intervals import Kind


def correlate(
    human: FilePath,
    metrics: Mapping[str, FilePath | Sequence[FilePath]] | None = None,
    *,
    metric_columns: Sequence[str] = (),
    annotations: Annotations | None = None,
    runs: FilePath = "runs",
    missing: IfMissing = "error",
    raters: RaterMode = "mean",
    ci: Kind | None = None,
    resamples: int | None = None,
    seed: int = 0,
    protocol: str | None = None,
    statistics: Sequence[str] = (),
    groupings: Sequence[str] = (),
    published: bool = False,
    out: FilePath | None = None,
    draws: int | None = None,
) -> Correlations:
    """Correlate metrics with human ratings.

    Parameters
    ----------
    human : CSV, TSV or JSON lines of ratings or of element labels
    metrics : by name: a judged run, a `judgments.jsonl`, a `metrics.jsonl`, a CSV, or several of
        them; without any and without `metric_columns`, every judged run, or the judged sample
    metric_columns : columns of the human file that contain metrics
    annotations : a file, `"sample"`, or `Annotation`s; by default the runs' own
    runs, seed, out : see `capeval.api`
    missing : "error", or "drop" to leave out captions for which a metric has no score
    raters : how the ratings of several raters are aggregated; "each" keeps the raters apart
    ci : "bootstrap", "analytic" or "none"; by default what suits each statistic
    resamples : number of bootstrap resamples and of permutations; by default 10,000 for intervals,
        2,000 for p-values and 1,000 for comparisons
    protocol : "tuna" or "wmt23"; by default every statistic and grouping
    statistics, groupings : only these
    published : add the correlations that the TUNA paper reports, for reference
    draws : deprecated name of `resamples`

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
    folder = Path(runs)
    named = [
        (name, find_metric(path, folder))
        for name, paths in (metrics or {}).items()
        for path in ([paths] if isinstance(paths, str | Path) else paths)
    ]
    if annotations is not None:
        annotations = (
            str(annotations) if isinstance(annotations, str | Path) else tuple(annotations)
        )
    if resamples is not None and draws is not None:
        raise UsageError("draws is the old name of resamples; give resamples alone")
    request = CorrelateRequest(
        human=Path(human),
        auto=tuple(named),
        metric_columns=tuple(metric_columns),
        annotations=annotations,
        runs=folder,
        missing=missing,
        published=published,
    )
    settings = Settings(
        protocol=protocol_of(protocol, statistics, groupings),
        ci=ci,
        resamples=draws if resamples is None else resamples,
        seed=seed,
        raters=raters,
    )
    if out is not None:
        all_runs = not named and not metric_columns
        path = annotations if isinstance(annotations, str) else None
        read = files_read([path for _, path in named], path, folder if all_runs else None)
        check_output(Path(out), [human, *read])
    found = correlate_files(request, settings)
    if out is not None:
        write_output(Path(out), dumps(found.model_dump(mode="json"), indent=1) + "\n")
    return found


correlate_async = awaitable(correlate)
