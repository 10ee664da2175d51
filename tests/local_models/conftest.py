from __future__ import annotations

from tests.captioners.conftest import _offline, checkpoint, load

__all__ = ["_offline", "checkpoint", "load"]
