from __future__ import annotations

from tests.captioners.conftest import _offline, checkpoint

__all__ = ["_offline", "checkpoint"]
