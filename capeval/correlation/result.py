"""The fields of `correlations.json`."""

from __future__ import annotations

import math
from typing import Any, TypedDict

from pydantic import Field

from capeval.scoring.result import ResultModel
from capeval.stats.analytic import interval_of_value
from capeval.stats.values import GroupingName, Interval, Missing, Value


def number_of(value: Value) -> float | None:
    """Return a value for JSON: None if it is missing."""
    return None if isinstance(value, Missing) or math.isnan(value) else float(value)


def reason_of(value: object) -> str | None:
    """Return why a value is missing; None if it is not."""
    return value.reason if isinstance(value, Missing) else None


HUMAN_WORDS = {"f1": "F1", "covered": "coverage"}
"""Names of human scores in messages, where they differ from those in files."""


class Bounds(TypedDict):
    """The fields of an interval, or the reason why there is none."""

    low: float | None
    high: float | None
    interval_reason: str | None


def bounds_of(interval: Interval | Missing | None) -> Bounds:
    """Return the JSON fields of an interval, if one was taken."""
    if isinstance(interval, Interval):
        return {"low": interval.low, "high": interval.high, "interval_reason": None}
    return {"low": None, "high": None, "interval_reason": reason_of(interval)}


class Groups(ResultModel):
    """How many groups have a value, and how many are dropped because they have none."""

    used: int
    dropped: int


class Ties(ResultModel):
    """Shares of tied pairs."""

    metric: float | None
    human: float | None


class Coefficient(ResultModel):
    """A value with its interval, or the reason why one of them is missing."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None

    @classmethod
    def of(cls, value: Value, interval: Interval | Missing | None = None) -> Coefficient:
        """Return a value and, if there is one, its interval."""
        reason = reason_of(value) or reason_of(interval)
        if reason or not isinstance(interval, Interval):
            return cls(value=number_of(value), reason=reason)
        return cls(value=number_of(value), low=interval.low, high=interval.high)


class Correlation(ResultModel):
    """One metric compared with human ratings, by one statistic and grouping.

    Attributes
    ----------
    human : the human score: "score" for ratings; "covered", "recall", "precision" or "f1" for
        labels
    rater : the rater, if raters are kept apart
    interval, test : the methods of the interval and of p
    p_least : the smallest p that the test can give with this number of videos, systems and
        resamples
    threshold, cross_fitted, untied, constant : for acc_eq only
    cluster : rank among the metrics, from 1 for the best; metrics that do not differ share a rank
    without : the value without each system
    data_sets : of an average, the value by data set
    """

    metric: str
    human: str
    rater: str | None = None
    statistic: str
    grouping: GroupingName
    value: float | None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    n: int
    groups: Groups
    threshold: float | None = None
    reason: str | None = None
    interval: str | None = None
    test: str | None = None
    p_reason: str | None = None
    p_least: float | None = None
    interval_reason: str | None = None
    cross_fitted: float | None = None
    untied: float | None = None
    constant: float | None = None
    ties: Ties
    cluster: int | None = None
    without: dict[str, float | None] = Field(default_factory=dict)
    data_sets: dict[str, float | None] = Field(default_factory=dict)


class ComparisonResult(ResultModel):
    """Two metrics (first − second), with p before and after adjustment for multiple tests.

    `p_one_sided` is of the alternative that the first is better, and not adjusted.
    """

    first: str
    second: str
    human: str
    rater: str | None = None
    statistic: str
    grouping: GroupingName
    difference: float | None
    p: float | None
    p_adjusted: float | None
    p_one_sided: float | None = None
    low: float | None = None
    high: float | None = None
    interval_reason: str | None = None
    method: str
    n: int
    groups: Groups
    reason: str | None = None


class ClassResult(ResultModel):
    """Precision, recall and F1 of one label."""

    precision: float | None
    recall: float | None
    f1: float | None
    support: float


class ElementTable(ResultModel):
    """The agreement of two sets of labels of the same elements; rows of `confusion` are `truth`.

    Attributes
    ----------
    by : "all" or an element type
    weighted : whether elements count by their weight
    tied : elements left out because raters were evenly divided on them
    each : the coefficients for each rater's own labels, if the labels of several were aggregated
    """

    truth: str
    given: str
    by: str
    weighted: bool
    labels: tuple[str, ...]
    n: int
    videos: int
    confusion: tuple[tuple[float, ...], ...]
    coefficients: dict[str, Coefficient]
    classes: dict[str, ClassResult]
    tied: int = 0
    each: dict[str, dict[str, float | None]] = Field(default_factory=dict)


class Elements(ResultModel):
    """Labels of elements.

    Attributes
    ----------
    labels : the number of human labels
    tied : elements left out because raters were evenly divided on them
    unjudged : elements left out because a judge gave no verdict on their caption
    """

    scale: str | None = None
    labels: int = 0
    tied: int = 0
    unjudged: int = 0
    tables: tuple[ElementTable, ...] = ()


class CeilingResult(ResultModel):
    """How well each rater agrees with the others' aggregated score, and the mean over raters.

    It is computed on the captions of the `results` of the same human score. It is not an upper
    bound: a metric is compared with the aggregated score of all raters, a rater with that of all
    but one.
    """

    human: str
    statistic: str
    grouping: GroupingName
    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    interval_reason: str | None = None
    each: dict[str, float | None] = Field(default_factory=dict)


class Raters(ResultModel):
    """The human raters: how ratings are aggregated, how raters agree, and the human ceilings."""

    names: tuple[str, ...]
    combined: str
    alpha: Coefficient
    level: str
    ceiling: tuple[CeilingResult, ...] = ()


class Published(ResultModel):
    """A published row, for reference; capeval computes only the intervals, from its n."""

    metric: str
    n: int
    kendall: float
    spearman: float
    pearson: float
    source: str
    kendall_interval: tuple[float, float] | None = None
    spearman_interval: tuple[float, float] | None = None
    pearson_interval: tuple[float, float] | None = None


class Correlations(ResultModel):
    """The content of `correlations.json`."""

    results: tuple[Correlation, ...]
    comparisons: tuple[ComparisonResult, ...]
    elements: Elements
    raters: Raters
    warnings: tuple[str, ...]
    inputs: dict[str, Any]
    published: tuple[Published, ...] = ()
    signature: str


_SOURCE = "TUNA (ACL 2025), table 3"
_CAPTIONS = 40


def _published(metric: str, kendall: float, spearman: float, pearson: float) -> Published:
    def ends(statistic: str, value: float) -> tuple[float, float]:
        found = interval_of_value(statistic, value, _CAPTIONS)
        return found.low, found.high

    return Published(
        metric=metric,
        n=_CAPTIONS,
        kendall=kendall,
        kendall_interval=ends("kendall_b", kendall),
        spearman=spearman,
        spearman_interval=ends("spearman", spearman),
        pearson=pearson,
        pearson_interval=ends("pearson", pearson),
        source=_SOURCE,
    )


PUBLISHED = (
    _published("METEOR", 0.308, 0.448, 0.547),
    _published("BERT-Score", 0.274, 0.348, 0.492),
    _published("CLAIR", 0.456, 0.566, 0.410),
    _published("DREAM-1K", 0.222, 0.313, 0.247),
    _published("TUNA-CAP", 0.572, 0.767, 0.699),
)
"""The TUNA paper's table 3, as fractions."""

PUBLISHED_NOTE = (
    "Published rows: TUNA (ACL 2025), table 3; of other captions and raters. The paper states that "
    "every p is below .05, but with its n = 40 captions r = .247 has p = .12. The 95% intervals "
    "are computed here from n alone (Fisher's; for rho Bonett and Wright's; for tau Fieller's), as "
    "if scores were normal and without ties."
)
