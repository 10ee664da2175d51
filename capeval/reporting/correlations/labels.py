"""Names of statistics, groupings and human scores, and footnotes on missing numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from capeval.correlation.result import HUMAN_WORDS, Correlation
from capeval.reporting.numbers import p_value
from capeval.stats.soft_accuracy import SOFT_ACCURACY, WORDS
from capeval.stats.statistic import STATISTICS
from capeval.stats.values import Grouping
from capeval.text import one_line

STATISTIC_WORDS = {name: statistic.words for name, statistic in STATISTICS.items()} | {
    SOFT_ACCURACY: WORDS
}
GROUPING_WORDS: dict[Grouping, str] = {
    "pooled": "all captions",
    "item": "captions of one video; mean over videos",
    "within_system": "captions of one system; mean over systems",
    "system": "means of systems",
}


def of_human(human: str, rater: str | None) -> str:
    """Return the name of a human score, with its rater where raters are kept apart.

    >>> of_human("f1", None), of_human("covered", "Ann")
    ('human F1', 'human coverage of Ann')
    """
    name = ", ".join(HUMAN_WORDS.get(one, one) for one in human.split(", "))
    return f"human {name}" + (f" of {one_line(rater)}" if rater else "")


def shown_reason(text: object) -> str:
    """Return the reason of a missing value, with statistics by the names that tables have.

    >>> shown_reason("1 pair; kendall_b needs 2")
    '1 pair; Kendall tau-b needs 2'
    """
    found = one_line(str(text))
    for name, words in STATISTIC_WORDS.items():
        found = found.replace(name, words)
    return found


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
    "the interval includes 0. "
)


def footnotes(results: Sequence[Correlation], known: set[tuple[str, str]]) -> str:
    """Return why there is no interval or p, and what keeps p from being smaller.

    Parameters
    ----------
    results : those of one table
    known : what is missing and why, as in the tables above; what is new is added
    """
    valued = [r for r in results if r.value is not None]
    return "".join([*missing(valued, known), *_least(valued), *_crossed(valued)])


def missing(results: Sequence[Correlation], known: set[tuple[str, str]]) -> Iterator[str]:
    """Yield why values have no interval or no p."""
    lacking: dict[str, dict[str, int]] = {}
    # What has too few videos differs between groupings; the number that is needed does not.
    for r in results:
        for what, reason in (
            ("interval", r.interval_reason if r.low is None else None),
            ("p", r.p_reason if r.p is None else None),
        ):
            if reason is not None and reason != UNASKED:
                reason = _TOO_FEW.sub(r"fewer than \3 \1s cannot be resampled", reason)  # noqa: PLW2901
                counts = lacking.setdefault(reason, {})
                counts[what] = counts.get(what, 0) + 1
    for reason, counts in lacking.items():
        new = {what: n for what, n in counts.items() if (what, reason) not in known}
        known.update((what, reason) for what in new)
        everywhere = [what for what, n in new.items() if n == len(results)]
        some = [what for what in new if what not in everywhere]
        parts = [" and ".join(f"no {what}" for what in everywhere)] if everywhere else []
        parts += [f"where there is no {' or no '.join(some)}"] if some else []
        if parts:
            sentence = ", and ".join(parts)
            yield f"{sentence[0].upper()}{sentence[1:]}: {shown_reason(reason)}. "


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
    if results and results[0].grouping == "system":
        if not least or max(least.values()) <= _ALPHA:
            return
        highest = max(map(p_value, least.values()))
        others = [f"{name} {p_value(p)}" for name, p in least.items() if p_value(p) != highest]
        but = f" ({', '.join(others)})" if others else ""
        yield f"With {results[0].n} systems, p cannot be below {highest}{but}. "
        return
    for limit, p in reached.items():
        yield f"With this number of {limit}, p cannot be below {p_value(p)}. "


def _limit(test: str) -> str:
    if test.startswith("exact"):
        return "videos"
    return "videos or resamples" if test.startswith("bootstrap") else "resamples"


def _crossed(results: Sequence[Correlation]) -> Iterator[str]:
    for r in results:
        if r.grouping not in ("item", "within_system") or r.p is None or r.p >= _ALPHA:
            continue
        if r.low is not None and r.high is not None and r.low <= 0 <= r.high:
            yield _WIDER
            return
