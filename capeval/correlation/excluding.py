"""Systems that are left out, and systems on which a correlation depends."""

from __future__ import annotations

from collections.abc import Sequence

from capeval.correlation.result import HUMAN_WORDS, Correlation
from capeval.errors import UsageError
from capeval.files.ratings import LabelTable, RatingTable
from capeval.stats.statistic import STATISTICS
from capeval.stats.values import GroupingName
from capeval.text import counted, listed, nearest

# A smaller change of a pooled value would not alter what is said of a metric. Systems' means are
# few, and each of them moves their correlation more.
_MUCH: dict[GroupingName, float] = {"pooled": 0.1, "system": 0.3}
# Shares of agreeing pairs have no such scale.
_MOVED = frozenset(STATISTICS) - {"acc_eq"}
# Among few systems, each matters; one that matters twice as much as any other stands out.
_TIMES = 2.0
# Of fewer systems, nearly any one decides.
_FEWEST = 5


def without_systems(
    table: RatingTable | LabelTable, names: Sequence[str]
) -> RatingTable | LabelTable:
    """Return a human file without the captions of some systems.

    Raises
    ------
    UsageError
        The file has no systems, or not one of these, or no others.
    """
    if not names:
        return table
    systems = table.keys.systems
    if systems is None:
        raise UsageError(f"--exclude-system: {table.file} names no systems")
    known = list(dict.fromkeys(systems))
    for name in names:
        if name not in known:
            near = nearest(name, known) or f"; it has {listed(known)}"
            raise UsageError(f"--exclude-system: {table.file} has no system {name!r}{near}")
    rows = [row for row, system in enumerate(systems) if system not in names]
    if not rows:
        raise UsageError(f"--exclude-system: {table.file} has no other system")
    return table.take(rows)


def outlier_warnings(results: Sequence[Correlation]) -> list[str]:
    """Return a line for each human score and system that a correlation much depends on.

    Of five systems or more, one stands out if a pooled value without it differs by .1 or more, or a
    system-level one by .3, and at least twice as much as without any other system. The line has the
    value that differs most, a pooled one if there is any.
    """
    found: dict[tuple[str, str | None, str], list[tuple[float, float, Correlation]]] = {}
    for r in results:
        much = _MUCH.get(r.grouping)
        if much is None or r.value is None or r.statistic not in _MOVED:
            continue
        if len(r.without) < _FEWEST:
            continue
        moved = sorted(
            (abs(left - r.value), system, left)
            for system, left in r.without.items()
            if left is not None
        )
        if len(moved) < 2:
            continue
        most, system, left = moved[-1]
        if most >= much and most >= _TIMES * moved[-2][0]:
            found.setdefault((r.human, r.rater, system), []).append((most, left, r))
    lines = []
    for (human, rater, system), those in found.items():
        _, left, r = max(those, key=lambda one: (one[2].grouping == "pooled", one[0]))
        who = f"human {HUMAN_WORDS.get(human, human)}" + (f" of {rater}" if rater else "")
        others = len(those) - 1
        more = f", and {counted(others, 'other value')} much" if others else ""
        option = f'--exclude-system "{system}"' if " " in system else f"--exclude-system {system}"
        lines.append(
            f"{who}: leaving out {system} changes the {r.grouping} {STATISTICS[r.statistic].words} "
            f"of {r.metric} from {r.value:.3f} to {left:.3f}{more}; "
            f"to leave it out: {option}"
        )
    return lines
