"""What statistics, groupings and human scores are called in tables."""

from __future__ import annotations

from capeval.errors import one_line
from capeval.stats.values import Grouping, Statistic

__all__ = ["GROUPING_WORDS", "STATISTIC_WORDS", "of_human", "with_interval"]

STATISTIC_WORDS: dict[Statistic, str] = {
    "kendall_b": "Kendall tau-b",
    "kendall_c": "Kendall tau-c",
    "spearman": "Spearman rho",
    "pearson": "Pearson r",
    "acc_eq": "acc_eq",
}
GROUPING_WORDS: dict[Grouping, str] = {
    "pooled": "all captions",
    "item": "captions of one video; mean over videos",
    "within_system": "captions of one system; mean over systems",
    "system": "means of systems",
}


def of_human(human: str, rater: str | None) -> str:
    """Return which human score is meant, and whose.

    >>> of_human("recall", None), of_human("score", "Ann")
    ("people's recall", "people's score of Ann")
    """
    return f"people's {human}" + (f" of {one_line(rater)}" if rater else "")


def with_interval(heading: str, there: bool) -> str:
    """Return the heading of a column of values, with or without intervals.

    >>> with_interval("Value", True), with_interval("Value", False)
    ('Value [95%]', 'Value')
    """
    return f"{heading} [95%]" if there else heading
