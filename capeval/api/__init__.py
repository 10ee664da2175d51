"""The public functions: each is the only orchestration of the command with its name.

Parameters that several functions share:

- `judged_runs`: run names, folders, judges' folders, `judgments.jsonl` or TUNA result files
- `judge`: which of a run's several judges, by its folder's name or the beginning of it
- `annotations`: a file, or `"sample"` for the bundled ones; by default those that a run names
- `ignore_unknown`: skip captions and verdicts of videos without an annotation
- `seed`: seed of the statistics, an integer of at least 0
- `out`: the file to write; refused before anything is computed if it would replace an input
- `runs`: the folder of the runs
- `on_notice`: called with one line for everything that the caller should know but is no error

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
