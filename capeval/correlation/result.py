"""The fields of `correlations.json`."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

from pydantic import Field

from capeval.correlation.notices import Notice
from capeval.scoring.result import ResultModel
from capeval.show.result import Result
from capeval.stats.jackknife import Inference
from capeval.stats.values import UPPER, GroupingName, Interval, Missing, Value


def number_of(value: Value) -> float | None:
    """Return a value for JSON: None if it is missing."""
    return None if isinstance(value, Missing) or math.isnan(value) else float(value)


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
    def of(
        cls, value: Value, interval: Inference | Interval | Missing | None = None
    ) -> Coefficient:
        """Return a value and, if there is one, its interval."""
        missing = next((one for one in (value, interval) if isinstance(one, Missing)), None)
        if missing or not isinstance(interval, Inference | Interval):
            return cls(value=number_of(value), reason=missing and missing.reason)
        return cls(value=number_of(value), low=interval.low, high=interval.high)


class Correlation(ResultModel):
    """One metric compared with human ratings, by one statistic and grouping.

    Attributes
    ----------
    human : the human score: "score" for ratings; "covered", "recall", "precision" or "f1" for
        labels
    rater : the rater, if raters are kept apart
    p : two-sided; by `system` about other systems, else about other videos
    cluster : rank among the metrics, from 1 for the best; metrics that do not differ share a rank
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
    reason: str | None = None
    interval_reason: str | None = None
    ties: Ties
    cluster: int | None = None


class ComparisonResult(ResultModel):
    """Two metrics (first − second), with p before and after adjustment for multiple tests."""

    first: str
    second: str
    human: str
    rater: str | None = None
    statistic: str
    grouping: GroupingName
    difference: float | None
    low: float | None = None
    high: float | None = None
    p: float | None
    p_adjusted: float | None
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
    tied : elements left out because raters were evenly divided on them
    """

    truth: str
    given: str
    by: str
    labels: tuple[str, ...]
    n: int
    videos: int
    confusion: tuple[tuple[float, ...], ...]
    kappa: Coefficient
    classes: dict[str, ClassResult]
    tied: int = 0


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
    reason: str | None = None
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


class Correlations(Result, ResultModel):
    """The content of `correlations.json`."""

    results: tuple[Correlation, ...]
    comparisons: tuple[ComparisonResult, ...]
    elements: Elements
    raters: Raters
    warnings: tuple[Notice, ...]
    inputs: dict[str, Any]
    published: tuple[Published, ...] = ()
    signature: str

    def records(self) -> list[dict[str, Any]]:
        """Return a flat record for each metric, human score, statistic and grouping."""
        return [
            one.model_dump(exclude={"groups", "ties"})
            | {f"groups_{part}": count for part, count in one.groups}
            | {f"ties_{part}": count for part, count in one.ties}
            for one in self.results
        ]


_SOURCE = "TUNA (ACL 2025), table 3"
_CAPTIONS = 40


def _published(metric: str, kendall: float, spearman: float, pearson: float) -> Published:
    def ends(value: float, variance: float) -> tuple[float, float]:
        middle, half = math.atanh(value), NormalDist().inv_cdf(UPPER) * math.sqrt(variance)
        return math.tanh(middle - half), math.tanh(middle + half)

    # Of nothing but the value and n: Fisher's for r, that of Bonett and Wright (2000) for rho and
    # that of Fieller, Hartley and Pearson (1957) for tau.
    return Published(
        metric=metric,
        n=_CAPTIONS,
        kendall=kendall,
        kendall_interval=ends(kendall, 0.437 / (_CAPTIONS - 4)),
        spearman=spearman,
        spearman_interval=ends(spearman, (1 + spearman**2 / 2) / (_CAPTIONS - 3)),
        pearson=pearson,
        pearson_interval=ends(pearson, 1 / (_CAPTIONS - 3)),
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
