from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capeval.judging.nli import NLIJudge, open_nli
from capeval.schema import Annotation
from tests.captioners.conftest import _offline
from tests.judging.nli import tiny_nli

__all__ = ["_offline"]

Checkpoint = Callable[[str], Path]
Judges = Callable[..., NLIJudge]


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """Make a tiny model of a kind, once a session."""
    folder = tmp_path_factory.mktemp("nli")
    makers: dict[str, Callable[[Path], Path]] = {
        "deberta": tiny_nli.deberta,
        "modernbert": tiny_nli.modernbert,
        "roberta": tiny_nli.roberta,
        "ruled": tiny_nli.ruled,
        "ruled-other-order": lambda path: tiny_nli.ruled(path, order=tiny_nli.MODERNBERT_ORDER),
    }

    def get(kind: str) -> Path:
        path = folder / kind
        return path if path.is_dir() else makers[kind](path)

    return get


@pytest.fixture(scope="session")
def judge(checkpoint: Checkpoint) -> Judges:
    """Open a tiny model, once a session for each way to open it."""
    opened: dict[Any, NLIJudge] = {}

    def get(kind: str, **options: Any) -> NLIJudge:
        key = (kind, *sorted(options.items()))
        if key not in opened:
            given = {"device": "cpu", "dtype": "float32", **options}
            opened[key] = open_nli(str(checkpoint(kind)), **given)
        return opened[key]

    return get


def annotation(*events: tuple[str, list[str]]) -> Annotation:
    every = [
        {
            "event": event,
            "visual_elements": [{"content": t, "type": "action", "weight": 1} for t in elements],
        }
        for event, elements in events
    ]
    return Annotation.model_validate({"index": "V1", "events": every})
