"""The library as users import it."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _alone(alone: None) -> None:
    """Around every test."""
