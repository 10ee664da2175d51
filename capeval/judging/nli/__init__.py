"""The judge `nli`: a natural-language-inference model of transformers in this process."""

from __future__ import annotations

from collections.abc import Callable

from capeval.judging.nli.judge import NLIJudge

__all__ = ["DEFAULT_MODEL", "NLIJudge", "open_nli"]

DEFAULT_MODEL = "tasksource/ModernBERT-base-nli"
"""Trained on many sets of NLI, Apache-2.0; its 2,048 positions take whole captions."""


def open_nli(
    model: str | None = None,
    *,
    device: str | None = None,
    dtype: str | None = None,
    revision: str | None = None,
    on_notice: Callable[[str], None] = lambda _: None,
) -> NLIJudge:
    """Return the judge with a hub id or a folder; its weights are loaded for the first caption.

    Raises `MissingExtra` and `UsageError`.
    """
    from capeval.local_models.devices import require_packages

    require_packages(("torch", "transformers"), "nli", optional=("torchvision",))
    from capeval.judging.nli.cross_encoder import CrossEncoder

    return NLIJudge(
        CrossEncoder(
            DEFAULT_MODEL if model is None else model,
            device=device or "auto",
            dtype=dtype or "auto",
            revision=revision,
            on_notice=on_notice,
        )
    )
