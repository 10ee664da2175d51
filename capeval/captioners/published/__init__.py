"""Models of the paper whose published weights need other names, or another order, in transformers.

`find_family` recognises such a checkpoint by its config.json. A family is a module here: its class
of transformers, its names as data, and the pixels and prompt of its authors' code. LLaVA-Video, the
first of them, is `capeval.captioners.llava_video`.
"""

from __future__ import annotations

from capeval.captioners.published.checkpoint import Family, PublishedCheckpoint
from capeval.captioners.published.families import find_family

__all__ = ["Family", "PublishedCheckpoint", "find_family"]
