"""Which statistics and groupings to compute: a published protocol, or chosen by the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from capeval.errors import UsageError
from capeval.stats.correlation import STATISTICS
from capeval.stats.design import GROUPINGS
from capeval.stats.values import GroupingName
from capeval.text import nearest


@dataclass(frozen=True)
class Protocol:
    """Which statistics to compute by which groupings, and the source of this choice.

    `binary` reduces three-way labels to covered or not.
    """

    name: str
    source: str
    pairs: tuple[tuple[str, GroupingName], ...]
    binary: bool = False


EVERYTHING = Protocol("all", "", tuple((s, g) for g in GROUPINGS for s in STATISTICS))

SEVERAL = 5
"""The fewest systems whose ranking is shown: over four, p of tau-b is at least 2/4! = .083."""

TUNA = Protocol(
    "tuna",
    "TUNA (ACL 2025), section 4.2 and B.2.4: one caption each of 40 videos; the human score is the "
    "weighted share of elements that raters find covered; Kendall, Spearman and Pearson over all "
    "captions",
    (("kendall_b", "pooled"), ("spearman", "pooled"), ("pearson", "pooled")),
    binary=True,
)


def protocol(
    name: str | None, statistics: Sequence[str] = (), groupings: Sequence[str] = ()
) -> Protocol:
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
