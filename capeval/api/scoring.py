"""`capeval.score`: stored verdicts in, scores out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from capeval.api.sync_async import awaitable
from capeval.runs.rescoring import rescore
from capeval.runs.sources import annotations_of
from capeval.schema import Annotation
from capeval.scoring import Scores

Annotations = str | Path | Sequence[Annotation]


def score(
    path: str | Path,
    annotations: Annotations,
    *,
    seed: int = 0,
    ignore_unknown: bool = False,
) -> Scores:
    """Score stored verdicts again, without any model.

    Parameters
    ----------
    path : a judged run, a judge's folder in it, a `judgments.jsonl`, or a TUNA result file
    annotations : their file, `"sample"`, or `Annotation`s
    seed : of the bootstrap

    Raises
    ------
    InputError
        There is nothing to score, or it does not belong to the annotations.
    """
    if isinstance(annotations, str | Path):
        annotations = annotations_of(str(annotations))
    return rescore(path, annotations, seed=seed, ignore_unknown=ignore_unknown).scores


score_async = awaitable(score)
