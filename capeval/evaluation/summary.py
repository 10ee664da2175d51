"""Scores of stored judgments, with the signature and the settings that explain them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from capeval.files.annotations import annotations_hash
from capeval.schema import Annotation, Judgment, Scored
from capeval.scoring import DRAWS, Scores, score_judgments, signature
from capeval.version import __version__

__all__ = ["summarise"]


def summarise(
    annotations: Sequence[Annotation],
    judgments: Sequence[Judgment],
    *,
    captioned: int,
    settings: Mapping[str, Any],
    seed: int,
) -> Scores:
    """Score judgments; `settings` are those of `judge.json`.

    Raises
    ------
    ValueError
        A judgment does not fit its annotation.
    """
    data = annotations_hash(annotations)
    scored = [judgment for judgment in judgments if isinstance(judgment, Scored)]
    models = sorted({model for judgment in scored for model in judgment.provenance.models})
    # From the verdicts themselves: a settings file can be edited or left behind.
    repeats = max((len(judgment.repeats) for judgment in scored), default=0) or 1
    return score_judgments(
        annotations,
        judgments,
        captioned=captioned,
        signature=signature(
            judge="+".join(models) or str(settings.get("judge", "unknown")),
            prompts=str(settings.get("prompts") or "none"),
            repeats=repeats,
            data_hash=data,
            annotated=len(annotations),
            version=__version__,
        ),
        settings={
            **settings,
            "models": models,
            "fingerprints": sorted({p for j in scored for p in j.provenance.fingerprints}),
            "left_off": sorted({p for j in scored for p in j.provenance.left_off}),
            "data": data,
            "interval": {
                "level": 0.95,
                "method": "percentile bootstrap over videos",
                "draws": DRAWS,
                "seed": seed,
            },
        },
        seed=seed,
    )
