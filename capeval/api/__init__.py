"""The public functions: each is the only orchestration of the command with its name.

Their parameters are the fields of the classes in `capeval.judging.options`,
`capeval.captioners.options` and
`capeval.api.run_options`, which also declare the options of the commands.

Wrong input raises `InputError` or `UsageError`, with a message of one line that names file and
field.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

FilePath = str | Path
Notices = Callable[[str], None]


def ignore(_notice: str) -> None:
    """Ignore a notice: the `on_notice` of a caller who gives none."""
