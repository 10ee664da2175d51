"""The layout of `correlations.json`."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from capeval.scoring.result import Part
from capeval.stats.values import Grouping, Statistic


class Groups(Part):
    """How many groups a value is taken of, and how many have none."""

    used: int
    dropped: int


class Ties(Part):
    """Shares of pairs that are tied."""

    metric: float | None
    human: float | None


class Estimate(Part):
    """A value with its interval, or the reason for which one of them is not there."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


class Correlation(Part):
    """One metric against people by one statistic and grouping.

    Attributes
    ----------
    human : which human score: "score" as rated; of labels "covered", "recall", "precision", "f1"
    rater : whose, where raters are kept apart
    interval, test : how interval and p were made
    p_least : the smallest p that the test could give of so many videos, systems and draws
    threshold, cross_fitted, untied, constant : of acc_eq alone
    cluster : rank among the metrics, from 1 for the best, equals together
    without : the value with each system left out
    """

    metric: str
    human: str
    rater: str | None = None
    statistic: Statistic
    grouping: Grouping
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


class ComparisonResult(Part):
    """Two metrics, first less second, with p as found and adjusted for the number of tests."""

    first: str
    second: str
    human: str
    rater: str | None = None
    statistic: Statistic
    grouping: Grouping
    difference: float | None
    p: float | None
    p_adjusted: float | None
    method: str
    n: int
    groups: Groups
    reason: str | None = None


class ClassResult(Part):
    """How well one label is found."""

    precision: float | None
    recall: float | None
    f1: float | None
    support: float


class ElementTable(Part):
    """Two sets of labels of the same elements: rows of `confusion` are `truth`.

    Attributes
    ----------
    by : "all" or a type of element
    weighted : whether elements count by their weight
    tied : elements left out because raters were evenly divided on them
    each : the coefficients against each rater's own labels, where several were made one
    """

    truth: str
    given: str
    by: str
    weighted: bool
    labels: tuple[str, ...]
    n: int
    videos: int
    confusion: tuple[tuple[float, ...], ...]
    coefficients: dict[str, Estimate]
    classes: dict[str, ClassResult]
    tied: int = 0
    each: dict[str, dict[str, float | None]] = Field(default_factory=dict)


class Elements(Part):
    """Labels of elements.

    Attributes
    ----------
    labels : how many people gave
    tied : elements left out because raters were evenly divided on them
    unjudged : elements left out because a judge gave no verdict on their caption
    """

    scale: str | None = None
    labels: int = 0
    tied: int = 0
    unjudged: int = 0
    tables: tuple[ElementTable, ...] = ()


class CeilingResult(Part):
    """How well each rater agrees with the others' combined score, and the mean over raters.

    It is of the captions of the `results` of the same human score. It is no upper bound: a metric
    is held against the combined score of all raters, a rater against that of all but one.
    """

    human: str
    statistic: Statistic
    grouping: Grouping
    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    interval_reason: str | None = None
    each: dict[str, float | None] = Field(default_factory=dict)


class Raters(Part):
    """The people: how their ratings were made one, how they agree, and the ceilings they set."""

    names: tuple[str, ...]
    combined: str
    alpha: Estimate
    level: str
    ceiling: tuple[CeilingResult, ...] = ()


class Published(Part):
    """A row that others published: for reference, not computed here."""

    metric: str
    n: int
    kendall: float
    spearman: float
    pearson: float
    source: str


class Correlations(Part):
    """All that `correlations.json` holds."""

    results: tuple[Correlation, ...]
    comparisons: tuple[ComparisonResult, ...]
    elements: Elements
    raters: Raters
    warnings: tuple[str, ...]
    inputs: dict[str, Any]
    published: tuple[Published, ...] = ()
    signature: str


_SOURCE = "TUNA (ACL 2025), table 3"

PUBLISHED = tuple(
    Published(
        metric=metric, n=40, kendall=kendall, spearman=spearman, pearson=pearson, source=_SOURCE
    )
    for metric, kendall, spearman, pearson in (
        ("METEOR", 0.308, 0.448, 0.547),
        ("BERT-Score", 0.274, 0.348, 0.492),
        ("CLAIR", 0.456, 0.566, 0.410),
        ("DREAM-1K", 0.222, 0.313, 0.247),
        ("TUNA-CAP", 0.572, 0.767, 0.699),
    )
)
"""The TUNA paper's table 3, as fractions."""

PUBLISHED_NOTE = (
    "Published rows: TUNA (ACL 2025), table 3; not computed here, and of other captions and "
    "raters. They are of n = 40 captions. There an r of .247 has p = .12 and a rho of .313 p = "
    ".049, so not all of its p-values can be below .05 as stated; and the 95% intervals of its "
    "rows overlap (r = .699: [.50, .83]; r = .547: [.28, .73])."
)
