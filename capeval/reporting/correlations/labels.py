"""Names of statistics, groupings and human scores, and footnotes on missing numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from capeval.correlation.notices import HUMAN_WORDS
from capeval.correlation.result import Correlation
from capeval.reporting.numbers import p_value
from capeval.stats.correlation import STATISTICS
from capeval.stats.design import GROUPINGS
from capeval.stats.system_means import least_p
from capeval.stats.values import GroupingName
from capeval.text import one_line

STATISTIC_WORDS = {name: statistic.words for name, statistic in STATISTICS.items()}
GROUPING_WORDS: dict[GroupingName, str] = {name: one.words for name, one in GROUPINGS.items()}


def title_of(text: str) -> str:
    """Return a title with a capital first letter.

    >>> title_of("human F1")
    'Human F1'
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
        those = lost.setdefault((where, reason or ""), {}).setdefault(what, [])
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


_OTHER_SYSTEMS = (
    "By system, the interval covers the choice of videos, and p that of systems: the interval can "
    "exclude 0 although p is above 0.05."
)
_ALPHA = 0.05


def footnotes(results: Sequence[Correlation], known: set[str]) -> list[str]:
    """Return why there is no interval, and what keeps p of systems from being smaller.

    Parameters
    ----------
    results : those of one table
    known : the notes of the tables above, which are not repeated; new ones are added
    """
    valued = [r for r in results if r.value is not None]
    notes = [*missing(valued), *_of_systems([r for r in valued if r.grouping == "system"])]
    new = [note for note in dict.fromkeys(notes) if note not in known]
    known.update(new)
    return new


def missing(results: Sequence[Correlation]) -> Iterator[str]:
    """Yield why values have no interval."""
    lacking = Counter(r.interval_reason for r in results if r.low is None and r.interval_reason)
    for reason, count in lacking.items():
        where = "No" if count == len(results) else "Where there is no"
        yield f"{where} interval: {reason}."


def _of_systems(results: Sequence[Correlation]) -> Iterator[str]:
    least = {r.statistic: least_p(r.n, STATISTICS[r.statistic]) for r in results if r.p is not None}
    if least and max(least.values()) > _ALPHA:
        highest = max(map(p_value, least.values()))
        others = [
            f"{STATISTIC_WORDS[name]} {p_value(p)}"
            for name, p in least.items()
            if p_value(p) != highest
        ]
        but = f" ({', '.join(others)})" if others else ""
        yield f"With {results[0].n} systems, p cannot be below {highest}{but}."
    bounded = [r for r in results if r.p is not None and r.low is not None and r.high is not None]
    if any((r.p or 0) >= _ALPHA and not (r.low or 0) <= 0 <= (r.high or 0) for r in bounded):
        yield _OTHER_SYSTEMS
