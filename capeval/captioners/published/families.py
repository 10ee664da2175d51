"""Which family a published checkpoint belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capeval.captioners.published import internvl2, longva, pllava, tarsier
from capeval.captioners.published.checkpoint import Family

FAMILIES = (internvl2.FAMILY, tarsier.FAMILY, longva.FAMILY, pllava.FAMILY)


def find_family(published: Mapping[str, Any]) -> Family | None:
    """Return the family whose config.json this is, or None if transformers loads it itself."""
    return next((family for family in FAMILIES if family.matches(published)), None)
