"""Whether the tested model took part in making what it is tested on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def base_name(model: str) -> str:
    """Return the name of a model without its hub and owner.

    >>> base_name("hf:Qwen/Qwen3-VL-8B-Instruct")
    'Qwen3-VL-8B-Instruct'
    """
    return model.removeprefix("hf:").rstrip("/").rpartition("/")[2] or model


def tested_model_warnings(
    run: str, what: str, made: Iterable[Mapping[str, Any]], models: Iterable[str | None]
) -> list[str]:
    """Return warnings that a run's model drafted or filtered annotations or questions.

    Parameters
    ----------
    made : the `drafted_by` and `filtered_by` of each, as far as known
    models : what the run's model is called, besides the run's own name
    """
    names = {_key(name) for name in (run, *models) if name}
    found = {
        (how, model)
        for one in made
        for how in ("drafted", "filtered")
        for model in one.get(f"{how}_by") or ()
        if _key(model) in names
    }
    return [
        f"{run}: the {what} were {how} with {model}, which is tested here: its scores may be too "
        "high"
        for how, model in sorted(found)
    ]


def _key(name: str) -> str:
    # The name of a run of questions goes on with what was shown: MODEL@16.
    return base_name(name).partition("@")[0].casefold()
