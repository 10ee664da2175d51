"""Reading many large files of verdicts without Python's search for reference cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Put off Python's search for reference cycles, which takes a third of the time of reading many
    large files of numbers and finds nothing in them.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
