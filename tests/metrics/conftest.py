from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.captioners.conftest import _offline

__all__ = ["_offline", "encoder"]


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Make a tiny text encoder of a family, once a session for each tokenizer."""
    from tests.metrics import tiny_encoders

    made: dict[Any, Path] = {}

    def get(family: str, **tokenizer: Any) -> Path:
        key = (family, *sorted(tokenizer.items()))
        if key not in made:
            folder = tmp_path_factory.mktemp("encoders")
            made[key] = tiny_encoders.save(family, folder, **tokenizer)
        return made[key]

    return get
