"""Names of statistics, groupings and human scores, and footnotes on missing numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from capeval.correlation.result import HUMAN_WORDS, Correlation
from capeval.reporting.numbers import p_value
from capeval.stats.groupings import GROUPINGS, grouping_of
from capeval.stats.soft_accuracy import SOFT_ACCURACY, WORDS
from capeval.stats.statistic import STATISTICS
from capeval.stats.values import GroupingName
from capeval.text import one_line

STATISTIC_WORDS = {name: statistic.words for name, statistic in STATISTICS.items()} | {
    SOFT_ACCURACY: WORDS
}
GROUPING_WORDS: dict[GroupingName, str] = {name: grouping_of(name).words for name in GROUPINGS}


def has_zero(statistic: str) -> bool:
    """Return whether a statistic is 0 by chance, so that the position of its interval says much.

    >>> has_zero("kendall_b"), has_zero("acc_eq"), has_zero("soft_accuracy")
    (True, False, False)
    """
    known = STATISTICS.get(statistic)
    return known is not None and known.chance is not None


def title_of(text: str) -> str:
    """Return a title with a capital first letter.

    >>> title_of("soft pairwise accuracy")
    'Soft pairwise accuracy'
    """
    return text[:1].upper() + text[1:]


def by_human(results: Iterable[Correlation]) -> dict[str, list[Correlation]]:
    """Return results by the name of their human score, with its rater where these are apart."""
    found: dict[tuple[str, str | None], list[Correlation]] = {}
    for r in results:
        found.setdefault((r.human, r.rater), []).append(r)
    return {of_human(*key): those for key, those in found.items()}


def by_grouping(results: Iterable[Correlation]) -> dict[GroupingName, list[Correlation]]:
    """Return results by grouping, each by statistic with the best metric first."""
    order = list(STATISTIC_WORDS)
    ranked = sorted(
        results, key=lambda r: (order.index(r.statistic), r.value is None, -(r.value or 0.0))
    )
    return {g: those for g in GROUPING_WORDS if (those := [r for r in ranked if r.grouping == g])}


def of_human(human: str, rater: str | None) -> str:
    """Return the name of a human score, with its rater where raters are kept apart.

    >>> of_human("f1", None), of_human("covered", "Ann")
    ('human F1', 'human coverage of Ann')
    """
    name = ", ".join(HUMAN_WORDS.get(one, one) for one in human.split(", "))
    return f"human {name}" + (f" of {one_line(rater)}" if rater else "")


def shown_reason(text: object, grouping: GroupingName | None = None) -> str:
    """Return the reason of a missing value, with statistics by the names that tables have.

    >>> shown_reason("1 pair; kendall_b needs 2")
    '1 pair; Kendall tau-b needs 2'
    >>> shown_reason("1 pair; kendall_b needs 2", "system")
    '1 system; Kendall tau-b needs 2'
    """
    found = one_line(str(text))
    if grouping is not None and grouping_of(grouping).means:
        # The pairs are of the two means of a system.
        found = re.sub(r"^(\d+) pair(s?);", r"\1 system\2;", found)
    for name, words in STATISTIC_WORDS.items():
        found = found.replace(name, words)
    return found


def lines_of_missing(missing: Iterable[tuple[str, str, str, str | None]]) -> Iterator[str]:
    """Yield a line for all that lack the same statistics for the same reason in one place.

    Parameters
    ----------
    missing : where, what has no value, by which statistic, and why

    >>> list(lines_of_missing(("item", m, "pearson", "all are alike") for m in ("a", "b")))
    ['item: a, b, Pearson r: no value (all are alike)']
    """
    lost: dict[tuple[str, str], dict[str, list[str]]] = {}
    for where, what, statistic, reason in missing:
        those = lost.setdefault((where, shown_reason(reason)), {}).setdefault(what, [])
        those.append(STATISTIC_WORDS[statistic])
    for (where, reason), by_what in lost.items():
        alike: dict[str, list[str]] = {}
        for what, names in by_what.items():
            alike.setdefault(", ".join(names), []).append(what)
        for statistics, whats in alike.items():
            yield f"{where}: {', '.join(whats)}, {statistics}: no value ({reason})"


def with_interval(heading: str, there: bool) -> str:
    """Return the heading of a column of values, with or without intervals.

    >>> with_interval("Value", True), with_interval("Value", False)
    ('Value [95%]', 'Value')
    """
    return f"{heading} [95%]" if there else heading


UNASKED = "no interval was asked for"
"""The reason in results without intervals that need no footnote."""

_TOO_FEW = re.compile(r"^\d+ (video|caption)s? (is|are) too few to resample: at least (\d+)$")
_ALPHA = 0.05
# A smaller p is printed as a bound, so that its limit does not matter.
_SMALLEST_PRINTED = 0.001
# Two p from the same counts may differ by rounding.
_ROUNDING = 1e-9
_WIDER = (
    "The interval and p come from different methods: with few videos, p can be below 0.05 although "
    "the interval includes 0."
)
_OTHER_SYSTEMS = (
    "The interval of systems is about these systems and other videos, p about other systems: the "
    "interval can exclude 0 although p is above 0.05."
)


def footnotes(results: Sequence[Correlation], known: set[str]) -> list[str]:
    """Return why there is no interval or p, and what keeps p from being smaller.

    Parameters
    ----------
    results : those of one table
    known : the notes of the tables above, which are not repeated; new ones are added
    """
    valued = [r for r in results if r.value is not None]
    grouped = by_grouping(valued)
    notes = [*missing(valued)]
    for grouping, those in grouped.items():
        where = f"{grouping}: w" if len(grouped) > 1 else "W"
        notes += [where + sentence[1:] for sentence in _least(those)]
    new = [note for note in dict.fromkeys([*notes, *_crossed(valued)]) if note not in known]
    known.update(new)
    return new


def missing(results: Sequence[Correlation], *, p: bool = True) -> Iterator[str]:
    """Yield why values have no interval or, where it is shown, no p."""
    lacking: dict[str, Counter[str]] = {}
    for r in results:
        for what, there, reason in (
            ("interval", r.low, r.interval_reason),
            ("p", r.p, r.p_reason if p else None),
        ):
            if there is None and reason is not None and reason != UNASKED:
                # What has too few videos differs between groupings; what is needed does not.
                general = _TOO_FEW.sub(r"fewer than \3 \1s cannot be resampled", reason)
                lacking.setdefault(general, Counter())[what] += 1
    for reason, counts in lacking.items():
        where = "No" if min(counts.values()) == len(results) else "Where there is no"
        yield f"{where} {' and no '.join(counts)}: {shown_reason(reason)}."


def _least(results: Sequence[Correlation]) -> Iterator[str]:
    """Yield the smallest possible p: for systems if it is above .05, else where it was reached."""
    least: dict[str, float] = {}
    reached: dict[str, float] = {}
    for r in results:
        if r.p is None or r.p_least is None:
            continue
        name = STATISTIC_WORDS[r.statistic]
        least[name] = min(r.p_least, least.get(name, 1.0))
        if r.p <= r.p_least * (1 + _ROUNDING) and r.p_least >= _SMALLEST_PRINTED:
            limit = _limit(str(r.test))
            reached[limit] = min(r.p_least, reached.get(limit, 1.0))
    if results and grouping_of(results[0].grouping).means:
        if not least or max(least.values()) <= _ALPHA:
            return
        highest = max(map(p_value, least.values()))
        others = [f"{name} {p_value(p)}" for name, p in least.items() if p_value(p) != highest]
        but = f" ({', '.join(others)})" if others else ""
        yield f"With {results[0].n} systems, p cannot be below {highest}{but}."
        return
    for limit, p in reached.items():
        yield f"With this number of {limit}, p cannot be below {p_value(p)}."


def _limit(test: str) -> str:
    if test.startswith("exact"):
        return "videos"
    return "videos or resamples" if test.startswith("bootstrap") else "resamples"


def _crossed(results: Sequence[Correlation]) -> Iterator[str]:
    bounded = [
        (r, r.p < _ALPHA, r.low <= 0 <= r.high)
        for r in results
        if r.p is not None and r.low is not None and r.high is not None and has_zero(r.statistic)
    ]
    if any(small and wide for r, small, wide in bounded if not grouping_of(r.grouping).whole):
        yield _WIDER
    of_systems = [one for one in bounded if grouping_of(one[0].grouping).means]
    if any(not small and not wide for _, small, wide in of_systems):
        yield _OTHER_SYSTEMS
