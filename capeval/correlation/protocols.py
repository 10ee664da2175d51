"""Which statistics and groupings to compute, and the published values of a protocol."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from capeval.errors import UsageError
from capeval.scoring.scores import ResultModel
from capeval.stats.correlation import GROUPINGS, STATISTICS
from capeval.stats.values import UPPER, GroupingName
from capeval.text import nearest


@dataclass(frozen=True)
class StudyProtocol:
    """Which statistics to compute by which groupings, and the source of this choice.

    `binary` reduces three-way labels to covered or not.
    """

    name: str
    source: str
    pairs: tuple[tuple[str, GroupingName], ...]
    binary: bool = False


EVERYTHING = StudyProtocol("all", "", tuple((s, g) for g in GROUPINGS for s in STATISTICS))

TUNA = StudyProtocol(
    "tuna",
    "TUNA (ACL 2025), section 4.2 and B.2.4: one caption each of 40 videos; the human score is the "
    "weighted share of elements that raters find covered; Kendall, Spearman and Pearson over all "
    "captions",
    (("kendall_b", "pooled"), ("spearman", "pooled"), ("pearson", "pooled")),
    binary=True,
)


def protocol(
    name: str | None, statistics: Sequence[str] = (), groupings: Sequence[str] = ()
) -> StudyProtocol:
    """Return a protocol by name, else all statistics; limited to some statistics and groupings.

    >>> protocol("tuna", ["spearman"]).pairs
    (('spearman', 'pooled'),)
    """
    for given, known, what in (
        ([name] if name else [], [TUNA.name], "protocol"),
        (statistics, list(STATISTICS), "statistic"),
        (groupings, list(GROUPINGS), "grouping"),
    ):
        for one in given:
            if one not in known:
                near = nearest(one, known) or f"; one of {', '.join(known)}"
                raise UsageError(f"the {what} {one!r} is unknown{near}")
    whole = TUNA if name else EVERYTHING
    taken = tuple(
        (statistic, grouping)
        for statistic, grouping in whole.pairs
        if (not statistics or statistic in statistics) and (not groupings or grouping in groupings)
    )
    if not taken:
        pairs = ", ".join(f"{statistic} by {grouping}" for statistic, grouping in whole.pairs)
        raise UsageError(
            f"the protocol {whole.name} has none of these statistics and groupings; it has {pairs}"
        )
    return replace(whole, pairs=taken)


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
    "Published rows: TUNA (ACL 2025), table 3; of other captions and raters. The paper states that "
    "every p is below .05, but with its n = 40 captions r = .247 has p = .12. The 95% intervals "
    "are computed here from n alone (Fisher's; for rho Bonett and Wright's; for tau Fieller's), as "
    "if scores were normal and without ties."
)
