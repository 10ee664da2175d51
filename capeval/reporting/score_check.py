"""How a file of scores differs from the verdicts that it is said to come from."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console

from capeval.reporting.numbers import plain_number, thousands
from capeval.reporting.terminal import print_line
from capeval.runs.stored_scores import TOLERANCE, Checked
from capeval.text import counted, one_line

# Of more differences, the rest is counted: they would not fit a screen.
_MOST = 40


def print_differences(checked: Checked, console: Console) -> None:
    """Print whether a file matches, notes, and `path: theirs → ours` for up to 40 differences.

    Numbers are printed as they are in the files, so that a difference in the tenth digit shows.
    """
    print_line(one_line(check_headline(checked), 600), console)
    for note in checked.notes:
        print_line(f"note: {one_line(note)}", console)
    for difference in checked.differences[:_MOST]:
        line = f"{difference['path']}: {_side(difference, 'theirs')} → {_side(difference, 'ours')}"
        print_line(one_line(line, 600), console)
    if (left := len(checked.differences) - _MOST) > 0:
        print_line(f"and {thousands(left)} more; --json lists all", console, style="dim")


def check_headline(checked: Checked) -> str:
    """Return whether a file of scores matches the verdicts, in a sentence."""
    agree = f"{counted(checked.numbers, 'number')} {'agrees' if checked.numbers == 1 else 'agree'}"
    agree += f" within {plain_number(TOLERANCE)}"
    if not checked.differences:
        return f"{checked.file} matches the verdicts: {agree}."
    count = len(checked.differences)
    return (
        f"{checked.file} does not match the verdicts: {counted(count, 'value')} "
        f"{'differs' if count == 1 else 'differ'} (in the file → recomputed)"
        f"{f', {agree}' if checked.numbers else ''}."
    )


def differences_json(checked: Checked) -> dict[str, Any]:
    """Return the result as JSON values; a side without a value has no key."""
    return {
        "file": str(checked.file),
        "tolerance": TOLERANCE,
        "agree": checked.numbers,
        "differences": list(checked.differences),
        "notes": list(checked.notes),
    }


def _side(difference: dict[str, Any], side: str) -> str:
    if side not in difference:
        return "missing"
    return json.dumps(difference[side], ensure_ascii=False)
