"""The result of checking published scores, with a line for each number that differs."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.text import Text

from capeval.reporting.numbers import thousands
from capeval.runs.checking import Checked, Missing
from capeval.runs.stored_scores import TOLERANCE
from capeval.text import one_line

# Of more differences, the rest is counted: they would not fit a screen.
_MOST = 40


def print_differences(checked: Checked, console: Console) -> None:
    """Print `path: theirs → ours` for up to 40 differences, then one line that counts them all.

    Numbers are printed as they are in the files, so that a difference in the tenth digit shows.
    """
    for difference in checked.differences[:_MOST]:
        line = f"{difference.path}: {_value(difference.theirs)} → {_value(difference.ours)}"
        console.print(Text(one_line(line, 600)), soft_wrap=True)
    if (left := len(checked.differences) - _MOST) > 0:
        more = f"and {thousands(left)} more; --json lists all"
        console.print(Text(more, style="dim"), soft_wrap=True)
    for note in checked.notes:
        console.print(Text(f"note: {one_line(note)}"), soft_wrap=True)
    agree, differ = thousands(checked.numbers), thousands(len(checked.differences))
    verdict = f"{agree} numbers agree (within {TOLERANCE:g})"
    if checked.differences:
        differ += " value differs" if len(checked.differences) == 1 else " values differ"
        verdict = f"{differ} (theirs → ours), {verdict}"
    console.print(Text(one_line(f"{checked.file}: {verdict}", 600)), soft_wrap=True)


def differences_json(checked: Checked) -> dict[str, Any]:
    """Return the result as JSON values; a side without a value has no key."""
    return {
        "file": str(checked.file),
        "tolerance": TOLERANCE,
        "agree": checked.numbers,
        "differences": [
            {"path": difference.path}
            | {
                side: value
                for side, value in (("theirs", difference.theirs), ("ours", difference.ours))
                if value is not Missing.MISSING
            }
            for difference in checked.differences
        ],
        "notes": list(checked.notes),
    }


def _value(value: Any) -> str:
    if value is Missing.MISSING:
        return "missing"
    return json.dumps(value, ensure_ascii=False)
