"""Where a user's own prices and models stand."""

from __future__ import annotations

from pathlib import Path

CONFIG = Path("capeval.toml")
"""In the working folder; it need not exist."""
