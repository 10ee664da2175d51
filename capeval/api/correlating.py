"""`capeval.correlate`: metrics held against people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from capeval.api.scoring import Annotations
from capeval.api.sync_async import awaitable
from capeval.correlation.from_files import Question, correlate_files
from capeval.correlation.joining import Missing
from capeval.correlation.protocols import protocol as protocol_of
from capeval.correlation.result import Correlations
from capeval.correlation.video_level import Settings
from capeval.runs.resolve import find_metric
from capeval.schema import RaterMode
from capeval.stats.intervals import Kind


def correlate(
    human: str | Path,
    metrics: Mapping[str, str | Path | Sequence[str | Path]] | None = None,
    *,
    metric_columns: Sequence[str] = (),
    annotations: Annotations | None = None,
    runs: str | Path = "runs",
    missing: Missing = "error",
    raters: RaterMode = "mean",
    ci: Kind | None = None,
    draws: int | None = None,
    seed: int = 0,
    protocol: str | None = None,
    statistics: Sequence[str] = (),
    groupings: Sequence[str] = (),
) -> Correlations:
    """Hold metrics against people.

    Parameters
    ----------
    human : CSV, TSV or JSON lines of ratings or of element labels
    metrics : by name: a judged run, a `judgments.jsonl`, a `metrics.jsonl`, a CSV, or several of
        them; without any and without `metric_columns`, every judged run, or the judged sample
    metric_columns : columns of the human file that hold metrics
    annotations : their file, `"sample"`, or `Annotation`s; runs know their own
    missing : "error", or "drop" to leave out captions that a metric has no score of
    raters : how several raters are made one; "each" keeps them apart
    ci : "bootstrap", "analytic" or "none"; else what fits each
    draws : of every bootstrap and permutation; else 10,000, 2,000 for p, 1,000 for comparisons
    protocol : "tuna" or "wmt23"; else everything
    statistics, groupings : only these

    Raises
    ------
    InputError, UsageError
        A file or a name is not right, or the two sides do not meet.

    Returns
    -------
    What `correlations.json` holds. A constant, missing or failed metric is None with its reason.
    """
    named = [
        (name, find_metric(path, Path(runs)))
        for name, paths in (metrics or {}).items()
        for path in ([paths] if isinstance(paths, str | Path) else paths)
    ]
    if annotations is not None:
        annotations = (
            str(annotations) if isinstance(annotations, str | Path) else tuple(annotations)
        )
    question = Question(
        human=Path(human),
        auto=tuple(named),
        metric_columns=tuple(metric_columns),
        annotations=annotations,
        runs=Path(runs),
        missing=missing,
    )
    wanted = protocol_of(protocol, statistics, groupings)
    return correlate_files(
        question, Settings(protocol=wanted, ci=ci, draws=draws, seed=seed, raters=raters)
    )


correlate_async = awaitable(correlate)
