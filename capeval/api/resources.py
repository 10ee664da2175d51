"""`capeval.cache_info`."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from capeval.llm.cache import CacheInfo


def cache_info() -> CacheInfo:
    """Return where the cache of models' replies is, and how many it contains."""
    from capeval.llm.cache import ReplyCache

    with closing(ReplyCache()) as cache:
        return cache.info()
