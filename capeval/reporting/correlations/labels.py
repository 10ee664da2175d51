"""Names of statistics, groupings and human scores, and why numbers are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from capeval.correlation.notices import HUMAN_WORDS
from capeval.correlation.result import Correlation
from capeval.show.numbers import p_value, thousands
from capeval.stats.correlation import STATISTICS
from capeval.stats.design import GROUPINGS
from capeval.stats.system_means import least_p
from capeval.stats.values import GroupingName
from capeval.text import counted, one_line

STATISTIC_WORDS = {name: statistic.words for name, statistic in STATISTICS.items()}
GROUPING_WORDS: dict[GroupingName, str] = {name: one.words for name, one in GROUPINGS.items()}

ALPHA = 0.05
"""The level of significance of the paper whose protocol this is."""


def title_of(text: str) -> str:
    """Return a title with a capital first letter.

    >>> title_of("human F1")
    'Human F1'
    """
    return text[:1].upper() + text[1:]


def by_human(results: Iterable[Correlation]) -> dict[str, list[Correlation]]:
    """Return results by the name of their human score, with its rater where these are apart."""
    found: dict[str, list[Correlation]] = {}
    for r in results:
        found.setdefault(of_human(r.human, r.rater), []).append(r)
    return found


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


def causes_of_missing(what: str, found: Sequence[tuple[str | None, str]], lacks: str) -> list[str]:
    """Return a line for each reason: how many of all lack something, and one of them.

    Parameters
    ----------
    what : of what they are, in the singular
    found : of each, the reason or None, and its name
    lacks : what they lack

    >>> causes_of_missing("correlation", [("all ties", "a, item"), (None, "b, item")], "value")
    ['1 of 2 correlations has no value: all ties (such as a, item)']
    """
    examples: dict[str, str] = {}
    for reason, name in found:
        if reason is not None:
            examples.setdefault(reason, name)
    counts = Counter(reason for reason, _ in found if reason is not None)
    return [
        f"{thousands(count)} of {counted(len(found), what)} {'has' if count == 1 else 'have'} no "
        f"{lacks}: {reason} (such as {examples[reason]})"
        for reason, count in counts.most_common()
    ]


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


def footnote(results: Sequence[Correlation]) -> str:
    """Return what keeps p of systems from being smaller, and how it can disagree with intervals."""
    results = [r for r in results if r.value is not None and r.grouping == "system"]
    notes = []
    least = {r.statistic: least_p(r.n, STATISTICS[r.statistic]) for r in results if r.p is not None}
    if least and max(least.values()) > ALPHA:
        highest = max(map(p_value, least.values()))
        others = [
            f"{STATISTIC_WORDS[name]} {p_value(p)}"
            for name, p in least.items()
            if p_value(p) != highest
        ]
        but = f" ({', '.join(others)})" if others else ""
        notes.append(f"With {results[0].n} systems, p cannot be below {highest}{but}.")
    bounded = [r for r in results if r.p is not None and r.low is not None and r.high is not None]
    if any((r.p or 0) >= ALPHA and not (r.low or 0) <= 0 <= (r.high or 0) for r in bounded):
        notes.append(_OTHER_SYSTEMS)
    return " ".join(notes)
