"""What the tables of correlations come to: a few lines that stand above them."""

from __future__ import annotations

from collections.abc import Sequence

from capeval.correlation.result import Correlation, Correlations, ElementTable, Raters
from capeval.reporting.correlations.labels import STATISTIC_WORDS, of_human
from capeval.reporting.numbers import bounded, coefficient, p_value
from capeval.stats.values import Grouping
from capeval.text import one_line

_WHAT: dict[Grouping, str] = {
    "system": "systems",
    "within_system": "captions of one system",
    "item": "captions of one video",
    "pooled": "all captions",
}
_STATISTICS = list(STATISTIC_WORDS)


def summary_lines(found: Correlations) -> list[str]:
    """Return how elements agree, and how systems and captions are ranked by the best metric.

    All of it is of the human score that stands first. Each line has the statistic that stands first
    in its table (tau-b, unless others were asked for), and says where the interval lies beside 0.
    """
    whole = [t for t in found.elements.tables if t.by == "all" and not t.weighted]
    first = found.results[0] if found.results else None
    leading = [
        r for r in found.results if first and (r.human, r.rater) == (first.human, first.rater)
    ]
    best = _best(leading)
    table = _of_people(whole, found.raters, best)
    if best is None or first is None:
        if table is None:
            return []
        return [f"In short: {one_line(table.given)} against people", *_elements(table)]
    people = of_human(first.human, first.rater)
    lines = [f"In short: {one_line(best.metric)}{_chosen(best, leading)} against {people}"]
    if table:
        lines += _elements(table)
    for grouping, what in _WHAT.items():
        those = [r for r in leading if (r.metric, r.grouping) == (best.metric, grouping)]
        those = [r for r in those if r.value is not None] or those
        if those:
            lines.append(f"  {what}: {_ranked(min(those, key=_order))}")
    return lines


def _chosen(best: Correlation, results: Sequence[Correlation]) -> str:
    several = len({r.metric for r in results})
    if several == 1:
        return ""
    rivals = [r for r in results if (r.statistic, r.grouping) == (best.statistic, best.grouping)]
    alike = sum(r.value == best.value for r in rivals)
    what = "best" if alike == 1 else f"first of {alike} alike"
    return f" ({what} of {several} by {STATISTIC_WORDS[best.statistic]}, {best.grouping})"


def _order(result: Correlation) -> int:
    return _STATISTICS.index(result.statistic)


def _best(results: Sequence[Correlation]) -> Correlation | None:
    """Return the best metric's result by pooled tau-b, or by what is there instead."""
    valued = [r for r in results if r.value is not None]
    if not valued:
        return None
    groupings = list(reversed(_WHAT))
    grouping = min((r.grouping for r in valued), key=groupings.index)
    there = [r for r in valued if r.grouping == grouping]
    statistic = min(there, key=_order).statistic
    return max((r for r in there if r.statistic == statistic), key=lambda r: r.value or 0.0)


def _of_people(
    tables: Sequence[ElementTable], raters: Raters, best: Correlation | None
) -> ElementTable | None:
    """Return people's table against the judge of the best metric, else that of the best kappa."""
    those = [t for t in tables if t.truth in ("human", *raters.names)]
    those = [t for t in those if t.truth == those[0].truth]
    if not those:
        return None
    judge = best.metric.rpartition(":")[0] if best else None
    own = [t for t in those if t.given == judge]
    return max(own or those, key=lambda t: t.coefficients["kappa"].value or 0.0)


def _elements(table: ElementTable) -> list[str]:
    kappa, ac1 = (table.coefficients[name] for name in ("kappa", "ac1"))
    told = ", ".join(
        f"{name} {bounded(one.value, one.low, one.high)}"
        for name, one in (("kappa", kappa), ("AC1", ac1))
    )
    left = f"    {table.tied} on which raters are evenly divided are left out, which flatters it"
    return [f"  elements of {one_line(table.given)}: {told}", *([left] if table.tied else [])]


def _ranked(result: Correlation) -> str:
    name = STATISTIC_WORDS[result.statistic]
    if result.value is None:
        return f"no {name} ({result.reason})"
    told = f"{name} {bounded(result.value, result.low, result.high)}"
    if result.statistic == "acc_eq":
        # Its p is of the accuracy without threshold, which is not shown here.
        return f"{told}; a constant gets {coefficient(result.constant)}"
    if result.low is not None and result.high is not None:
        where = "above" if result.low > 0 else "below" if result.high < 0 else "holds"
        told += f"; interval {where} 0"
    elif result.interval_reason is not None:
        told += "; no interval"
    # Its interval is of other videos alone.
    return told + (f"; p {p_value(result.p)} (n {result.n})" if result.grouping == "system" else "")
