"""The fields of `correlations.json`: coefficients, comparisons, elements, raters and notices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from statistics import NormalDist
from typing import Any

from pydantic import Field

from capeval.files.annotations import hint_of
from capeval.schema import Frozen
from capeval.scoring.known_agreement import HUMAN_WORDS
from capeval.stats.values import UPPER, Coefficient, GroupingName
from capeval.text import counted, listed

# Names per line; few readers look for one of many raters.
_NAMED = 3


class Notice(Frozen):
    """Something that was left out or is doubtful.

    Attributes
    ----------
    kind : a key of `PHRASES`
    metric, human, rater : its subject: a metric or judge, a human score, one rater's
    values : its numbers and names
    """

    kind: str
    metric: str | None = None
    human: str | None = None
    rater: str | None = None
    values: dict[str, Any] = Field(default_factory=dict)

    @property
    def subject(self) -> str:
        """The subject; empty for the data as a whole."""
        if self.human is None:
            return self.metric or ""
        rater = f" of {self.rater}" if self.rater else ""
        return f"human {HUMAN_WORDS.get(self.human, self.human)}{rater}"

    @property
    def message(self) -> str:
        """The text, without the subject."""
        return PHRASES[self.kind](self.values)

    def __str__(self) -> str:
        return f"{self.subject}: {self.message}" if self.subject else self.message


def notice_lines(notices: Iterable[Notice]) -> list[str]:
    """Return a line for each notice; notices that differ only in their subject share one.

    >>> few = {"count": 9, "unit": "video"}
    >>> notice_lines(Notice(kind="few", human=name, values=few) for name in ("f1", "recall"))
    ['human F1, human recall: only 9 videos (fewer than 30): intervals will be wide']
    """
    subjects: dict[str, dict[str, None]] = {}
    for one in notices:
        subjects.setdefault(one.message, {})[one.subject] = None
    return [": ".join(filter(None, (listed(of, _NAMED), text))) for text, of in subjects.items()]


def _unmatched(v: Mapping[str, Any]) -> str:
    more = v["total"] - v["matched"] - len(v["missing"])
    names = ", ".join(v["missing"]) + (f" and {more} more" if more else "")
    found = f"{v['matched']} of {v['total']} rated captions have a score{hint_of(v['alike'])}"
    return f"{found}; missing: {names}"


def _left_out(v: Mapping[str, Any]) -> str:
    return (
        f"{counted(v['labels'], 'label')} of videos without an annotation are left out: "
        f"{listed(v['videos'])}"
    )


PHRASES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "message": lambda v: str(v["text"]),
    "unmatched": _unmatched,
    "unannotated": _left_out,
    "partly_labelled": lambda v: (
        f"{counted(v['captions'], 'caption')} labelled only in part by a rater: these labels "
        "count for elements but give no caption score"
    ),
    "evenly_divided": lambda v: (
        f"raters are evenly divided on {counted(v['elements'], 'element')}, left out of the table "
        "of elements; this favours a judge there: see --raters each"
    ),
    "few": lambda v: (
        f"only {counted(v['count'], v['unit'])} (fewer than 30): intervals will be wide"
    ),
    "not_tunas_design": lambda v: (
        "the protocol tuna is for one caption of each of 40 videos; only then are values "
        f"comparable with the paper's; there are {counted(v['rows'], 'caption')} of "
        f"{counted(v['videos'], 'video')} by {counted(v['systems'], 'system')}"
    ),
    "too_few": lambda v: f"no intervals: {counted(v['count'], v['unit'])}, fewer than 5",
    "ties": lambda v: (
        "more than 30% of all pairs are tied" if v["share"] < 1 else "constant, so no correlation"
    ),
    "no_human_score": lambda _: "there is no human score to compare a metric with",
    "unrated": lambda v: f"{counted(v['captions'], 'caption')} without this score",
}
"""The sentence of each kind."""


class Groups(Frozen):
    """How many groups have a value, and how many are dropped because they have none."""

    used: int
    dropped: int


class Ties(Frozen):
    """Shares of tied pairs."""

    metric: float | None
    human: float | None


class Correlation(Frozen):
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


class ComparisonResult(Frozen):
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


class ClassResult(Frozen):
    """Precision, recall and F1 of one label."""

    precision: float | None
    recall: float | None
    f1: float | None
    support: float


class ElementTable(Frozen):
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


class Elements(Frozen):
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


class CeilingResult(Frozen):
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


class Raters(Frozen):
    """The human raters: how ratings are aggregated, how raters agree, and the human ceilings."""

    names: tuple[str, ...]
    combined: str
    alpha: Coefficient
    level: str
    ceiling: tuple[CeilingResult, ...] = ()


class Published(Frozen):
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


_CAPTIONS = 40


def _published(metric: str, kendall: float, spearman: float, pearson: float) -> Published:
    def ends(value: float, variance: float) -> tuple[float, float]:
        middle, half = math.atanh(value), NormalDist().inv_cdf(UPPER) * math.sqrt(variance)
        return math.tanh(middle - half), math.tanh(middle + half)

    # From the value and n alone: Fisher's for r, that of Bonett and Wright (2000) for rho and that
    # of Fieller, Hartley and Pearson (1957) for tau.
    return Published(
        metric=metric,
        n=_CAPTIONS,
        kendall=kendall,
        kendall_interval=ends(kendall, 0.437 / (_CAPTIONS - 4)),
        spearman=spearman,
        spearman_interval=ends(spearman, (1 + spearman**2 / 2) / (_CAPTIONS - 3)),
        pearson=pearson,
        pearson_interval=ends(pearson, 1 / (_CAPTIONS - 3)),
        source="TUNA (ACL 2025), table 3",
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
    "Published rows: TUNA (ACL 2025), table 3, for other captions and raters. It states that "
    "every p is below .05, but with its n = 40 captions r = .247 has p = .12. The 95% intervals "
    "are computed here from n alone (Fisher's; for rho Bonett and Wright's; for tau Fieller's), as "
    "if scores were normal and without ties."
)
