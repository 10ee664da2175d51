"""Protocols: which statistics and groupings to compute, by name or chosen by the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from capeval.errors import UsageError
from capeval.stats.design import Design
from capeval.stats.groupings import GROUPINGS
from capeval.stats.soft_accuracy import SOFT_ACCURACY
from capeval.stats.statistic import STATISTICS
from capeval.stats.values import GroupingName
from capeval.text import nearest


@dataclass(frozen=True)
class Protocol:
    """Which statistics to compute by which groupings, and the source of this choice.

    `binary` reduces three-way labels to covered or not; `of_systems` are computed too where there
    are several systems and it does not take long.
    """

    name: str
    source: str
    pairs: tuple[tuple[str, GroupingName], ...]
    binary: bool = False
    of_systems: tuple[tuple[str, GroupingName], ...] = ()


_SOFT: tuple[tuple[str, GroupingName], ...] = ((SOFT_ACCURACY, "system"),)
EVERYTHING = Protocol(
    "all", "", tuple((s, g) for g in GROUPINGS for s in STATISTICS), of_systems=_SOFT
)

SEVERAL = 5
"""The fewest systems whose ranking is shown: over four, p of tau-b is at least 2/4! = .083."""

# Videos times pairs of systems times metrics: soft accuracy and its interval take five seconds.
_AFFORDABLE = 1_000_000
# Fewer videos hardly take less time: each pair of systems is permuted and resampled anyway.
_FEW_VIDEOS = 40

PROTOCOLS: dict[str, Protocol] = {
    "tuna": Protocol(
        "tuna",
        "TUNA (ACL 2025), section 4.2 and B.2.4: one caption each of 40 videos; the human score is "
        "the weighted share of elements that raters find covered; Kendall, Spearman and Pearson "
        "over all captions",
        (("kendall_b", "pooled"), ("spearman", "pooled"), ("pearson", "pooled")),
        binary=True,
    ),
    "wmt23": Protocol(
        "wmt23",
        "WMT 2023 metrics task (Freitag et al., 2023): systems by pairwise accuracy and Pearson; "
        "segments by Pearson over all, and by acc_eq within the item, its threshold found on the "
        "same pairs",
        (
            ("acc_eq", "system"),
            ("pearson", "system"),
            ("pearson", "pooled"),
            ("acc_eq", "item"),
        ),
    ),
    "wmt24": Protocol(
        "wmt24",
        "WMT 2024 metrics task (Freitag et al., 2024): systems by soft pairwise accuracy; segments "
        "by acc_eq within the item, its threshold found on the same pairs",
        ((SOFT_ACCURACY, "system"), ("acc_eq", "item")),
    ),
}


def for_design(protocol: Protocol, design: Design, metrics: int) -> tuple[Protocol, str | None]:
    """Return a protocol with the statistics of systems where these suit, or why they are left out.

    >>> design = Design.of([0] * 5, range(5))
    >>> for_design(EVERYTHING, design, 2)[0].pairs[-1]
    ('soft_accuracy', 'system')
    """
    more = tuple(pair for pair in protocol.of_systems if pair not in protocol.pairs)
    if not more or design.systems < SEVERAL:
        return protocol, None
    pairs = design.systems * (design.systems - 1) // 2
    if max(design.videos, _FEW_VIDEOS) * pairs * metrics > _AFFORDABLE:
        return protocol, (
            "soft pairwise accuracy of so many captions, systems and metrics takes long and is "
            "left out: see --statistic soft_accuracy"
        )
    return replace(protocol, pairs=(*protocol.pairs, *more)), None


def departure(protocol: Protocol, design: Design) -> str | None:
    """Explain how the data depart from the protocol's design; None if they do not.

    >>> departure(PROTOCOLS["tuna"], Design.of("aab", "xyx"))[-35:]
    '3 captions of 2 videos by 2 systems'
    """
    if protocol.name != "tuna" or (not design.repeats and design.systems == 1):
        return None
    return (
        "the protocol tuna is for one caption of each of 40 videos; only then are values "
        f"comparable with the paper's; here are {design.rows} captions of {design.videos} videos "
        f"by {design.systems} system{'' if design.systems == 1 else 's'}"
    )


def protocol(
    name: str | None, statistics: Sequence[str] = (), groupings: Sequence[str] = ()
) -> Protocol:
    """Return a protocol by name, else all statistics; limited to some statistics and groupings.

    >>> protocol("tuna", ["spearman"]).pairs
    (('spearman', 'pooled'),)
    """
    for given, known, what in (
        ([name] if name else [], list(PROTOCOLS), "protocol"),
        (statistics, [*STATISTICS, SOFT_ACCURACY], "statistic"),
        (groupings, list(GROUPINGS), "grouping"),
    ):
        for one in given:
            if one not in known:
                near = nearest(one, known) or f"; one of {', '.join(known)}"
                raise UsageError(f"the {what} {one!r} is unknown{near}")
    whole = PROTOCOLS[name] if name else EVERYTHING
    if SOFT_ACCURACY in statistics and not name:
        whole = replace(whole, pairs=(*whole.pairs, *_SOFT))
    taken = tuple(
        (statistic, grouping)
        for statistic, grouping in whole.pairs
        if (not statistics or statistic in statistics) and (not groupings or grouping in groupings)
    )
    if not taken and not name and {*statistics} == {SOFT_ACCURACY}:
        raise UsageError(f"the statistic {SOFT_ACCURACY} is by system only: --grouping system")
    if not taken:
        pairs = ", ".join(f"{statistic} by {grouping}" for statistic, grouping in whole.pairs)
        raise UsageError(
            f"the protocol {whole.name} has none of these statistics and groupings; it has {pairs}"
        )
    left_out = statistics or (groupings and "system" not in groupings)
    return replace(whole, pairs=taken, of_systems=() if left_out else whole.of_systems)
