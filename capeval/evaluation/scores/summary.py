"""Scores of stored judgments, with the signature and the settings that explain them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from capeval.files.annotations import annotations_hash
from capeval.schema import Annotation, Judgment, Scored
from capeval.scoring import DRAWS, Scores, score_judgments, signature
from capeval.version import __version__

__all__ = ["Maker", "maker_of", "settings_of", "signature_of", "summarise"]


@dataclass(frozen=True, order=True)
class Maker:
    """What one set of scores must have in common: read from the verdicts, which bear it."""

    judge: str = "unknown"
    prompts: str | None = "unknown"
    base_url: str | None = None
    repeats: int = 1

    def __str__(self) -> str:
        parts = (self.judge, self.base_url and f"at {self.base_url}", self.prompts)
        return ", ".join([*(part for part in parts if part), f"repeats {self.repeats}"])


def maker_of(judgment: Judgment) -> Maker:
    """Return who judged a caption, and how often."""
    made = judgment.provenance
    return Maker(made.judge, made.prompts, made.base_url, max(1, len(judgment.repeats)))


def signature_of(
    annotations: Sequence[Annotation], judgments: Sequence[Judgment], *, data: str | None = None
) -> str:
    """Return the signature of the scores that judgments of one judge have.

    `data` is the hash of the annotations, for those who know it already.
    """
    maker, models = _made_by(judgments)
    return signature(
        judge="+".join(models) or maker.judge,
        prompts=maker.prompts or "none",
        repeats=maker.repeats,
        data_hash=data or annotations_hash(annotations),
        annotated=len(annotations),
        version=__version__,
    )


def settings_of(judgments: Sequence[Judgment]) -> dict[str, Any]:
    """Return the settings of scores that judgments of one judge say themselves."""
    scored = [judgment for judgment in judgments if isinstance(judgment, Scored)]
    maker, models = _made_by(judgments)
    return {
        "judge": maker.judge,
        "baseline": maker.prompts is None,
        "base_url": maker.base_url,
        "prompts": maker.prompts,
        "repeats": maker.repeats,
        "models": models,
        "fingerprints": sorted({p for j in scored for p in j.provenance.fingerprints}),
        "left_off": sorted({p for j in scored for p in j.provenance.left_off}),
    }


def _made_by(judgments: Sequence[Judgment]) -> tuple[Maker, list[str]]:
    scored = [judgment for judgment in judgments if isinstance(judgment, Scored)]
    first = next(iter(scored or judgments), None)
    models = sorted({model for judgment in scored for model in judgment.provenance.models})
    return maker_of(first) if first else Maker(), models


def summarise(
    annotations: Sequence[Annotation],
    judgments: Sequence[Judgment],
    *,
    captioned: int,
    seed: int,
    draws: int = DRAWS,
) -> Scores:
    """Score judgments that one judge made; what it was is read from them.

    Raises
    ------
    ValueError
        A judgment does not fit its annotation.
    """
    data = annotations_hash(annotations)
    return score_judgments(
        annotations,
        judgments,
        captioned=captioned,
        signature=signature_of(annotations, judgments, data=data),
        settings={
            **settings_of(judgments),
            "data": data,
            "interval": {
                "level": 0.95,
                "method": "percentile bootstrap over videos",
                "draws": draws,
                "seed": seed,
            },
        },
        seed=seed,
        draws=draws,
    )
