"""p-values of several tests at once."""

from __future__ import annotations

from collections.abc import Sequence

from capeval.stats.values import Missing, Value

# A worse metric is one of which p, adjusted, does not exceed this.
_ALPHA = 0.05


def holm(p_values: Sequence[Value]) -> list[Value]:
    """Return p-values adjusted for their number (Holm, 1979); missing ones stay and do not count.

    >>> holm([0.01, 0.04, Missing("constant"), 0.03])
    [0.03, 0.06, Missing(reason='constant'), 0.06]
    """
    result = list(p_values)
    there = [(p, place) for place, p in enumerate(p_values) if not isinstance(p, Missing)]
    highest = 0.0
    for rank, (p, place) in enumerate(sorted(there)):
        highest = max(highest, min(1.0, p * (len(there) - rank)))
        result[place] = highest
    return result


def rank_clusters(values: Sequence[Value], p_values: Sequence[Sequence[Value]]) -> list[int | None]:
    """Return the cluster of each metric, from 1 for the best; None for one without a value.

    From the best down, a metric opens a new cluster when it is worse than every member of the
    cluster above; a test that is missing is no proof of that.

    Parameters
    ----------
    values : (metrics,)
    p_values : (metrics, metrics), two-sided, adjusted; the diagonal is not read

    >>> rank_clusters([0.5, 0.3, 0.45], [[1, 0.01, 0.2], [0.01, 1, 0.04], [0.2, 0.04, 1]])
    [1, 2, 1]
    """
    result: list[int | None] = [None] * len(values)
    there = [(-v, place) for place, v in enumerate(values) if not isinstance(v, Missing)]
    cluster, members = 1, list[int]()
    for _, place in sorted(there):
        tests = [p_values[place][other] for other in members]
        if members and all(not isinstance(p, Missing) and p <= _ALPHA for p in tests):
            cluster, members = cluster + 1, []
        members.append(place)
        result[place] = cluster
    return result
