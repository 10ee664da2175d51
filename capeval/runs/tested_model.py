"""Whether the tested model took part in making what it is tested on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from capeval.schema import Annotation


def base_name(model: str) -> str:
    """Return the name of a model without its hub and owner.

    >>> base_name("hf:Qwen/Qwen3-VL-8B-Instruct")
    'Qwen3-VL-8B-Instruct'
    """
    return model.removeprefix("hf:").rstrip("/").rpartition("/")[2] or model


def annotation_warnings(
    annotations: Iterable[Annotation], tested: Iterable[str | None]
) -> list[str]:
    """Return a warning if a tested model drafted annotations.

    Parameters
    ----------
    tested : names of the model, and of its run
    """
    made = (model for one in annotations for model in one.drafted_by)
    return _warnings("annotations", "drafted", made, tested)


def question_warnings(tags: Iterable[Mapping[str, Any]], tested: Iterable[str | None]) -> list[str]:
    """Return a warning each if a tested model drafted or filtered questions, as their tags say."""
    tags, tested = list(tags), list(tested)
    return [
        line
        for how in ("drafted", "filtered")
        for line in _warnings(
            "questions", how, (m for of in tags for m in of.get(f"{how}_by") or ()), tested
        )
    ]


def _warnings(what: str, how: str, made: Iterable[str], tested: Iterable[str | None]) -> list[str]:
    names = {_key(one) for one in tested if one}
    return [
        f"the {what} were {how} with {model}, which is tested here: its scores may be too high"
        for model in sorted({one for one in made if _key(one) in names})
    ]


def _key(name: str) -> str:
    # The name of a run of questions goes on with what was shown: MODEL@16.
    return base_name(name).partition("@")[0].casefold()
