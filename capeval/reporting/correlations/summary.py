"""A summary of correlations: a headline and a few lines, and what it is about."""

from __future__ import annotations

from collections.abc import Sequence

from capeval.correlation.result import Correlation, Correlations, ElementTable
from capeval.reporting.correlations.labels import STATISTIC_WORDS, of_human
from capeval.show.numbers import bounded, p_value, thousands
from capeval.stats.design import GROUPINGS
from capeval.text import counted, one_line

_WHAT = {name: GROUPINGS[name].of_each for name in reversed(GROUPINGS)}
_STATISTICS = list(STATISTIC_WORDS)


def summary_lines(found: Correlations) -> list[str]:
    """Return a headline, then how elements agree and how systems and captions are ranked.

    All of it is about one human score and the metric that agrees best with it. Each line has
    the first statistic of its table (tau-b, unless others were asked for).
    """
    leading = of_first_human(found)
    best = _best(leading)
    table = elements_of_best(found)
    agreement = "" if table is None else f"kappa {bounded(table.kappa)}"
    if best is None:
        if table is None:
            return []
        return [
            (
                f"{one_line(table.given)} compared with human labels: {agreement} over "
                f"{counted(table.n, 'element')}."
            ),
            *_left_out(table),
        ]
    lines = [_headline(best, leading)]
    if table:
        lines += [f"  elements of {one_line(table.given)}: {agreement}", *_left_out(table)]
    for grouping, what in _WHAT.items():
        those = [r for r in leading if (r.metric, r.grouping) == (best.metric, grouping)]
        those = [r for r in those if r.value is not None] or those
        if those:
            lines.append(f"  {what}: {_ranked(min(those, key=_order))}")
    return lines


def of_first_human(found: Correlations) -> list[Correlation]:
    """Return the results of the first human score that has a value by the first statistic."""
    statistic = min((r.statistic for r in found.results), key=_STATISTICS.index, default=None)
    valued = (r for r in found.results if r.statistic == statistic and r.value is not None)
    first = next(valued, found.results[0] if found.results else None)
    return [r for r in found.results if first and (r.human, r.rater) == (first.human, first.rater)]


def _headline(best: Correlation, results: Sequence[Correlation]) -> str:
    name = STATISTIC_WORDS[best.statistic]
    human = of_human(best.human, best.rater)
    value = bounded(best)
    over = f"over {thousands(best.n)} {GROUPINGS[best.grouping].unit} ({best.grouping})"
    rivals = [r for r in results if (r.statistic, r.grouping) == (best.statistic, best.grouping)]
    several = len({r.metric for r in results})
    if several == 1:
        return f"{one_line(best.metric)} has {name} {value} with the {human} {over}."
    ties = sum(r.value == best.value for r in rivals) - 1
    return (
        f"{one_line(best.metric)} has the highest {name} of {several} metrics with the {human}: "
        f"{value} {over}{f', equal to {ties} other' if ties else ''}."
    )


def _order(result: Correlation) -> int:
    return _STATISTICS.index(result.statistic)


def _best(results: Sequence[Correlation]) -> Correlation | None:
    """Return the best metric's result by pooled tau-b, or by the first that there is instead."""
    valued = [r for r in results if r.value is not None]
    if not valued:
        return None
    groupings = list(reversed(_WHAT))
    grouping = min((r.grouping for r in valued), key=groupings.index)
    there = [r for r in valued if r.grouping == grouping]
    statistic = min(there, key=_order).statistic
    return max((r for r in there if r.statistic == statistic), key=lambda r: r.value or 0.0)


def elements_of_best(found: Correlations) -> ElementTable | None:
    """Return the labels of humans and the judge of the best metric, else of the best kappa."""
    best = _best(of_first_human(found))
    those = [t for t in found.elements.tables if t.by == "all"]
    those = [t for t in those if t.truth == those[0].truth]
    if not those:
        return None
    judge = best.metric.rpartition(":")[0] if best else None
    own = [t for t in those if t.given == judge]
    return max(own or those, key=lambda t: t.kappa.value or 0.0)


def _left_out(table: ElementTable) -> list[str]:
    are = "is" if table.tied == 1 else "are"
    left = f"    {counted(table.tied, 'element')} with evenly divided raters {are} left out"
    return [f"{left}, which favours it"] if table.tied else []


def _ranked(result: Correlation) -> str:
    name = STATISTIC_WORDS[result.statistic]
    if result.value is None:
        return f"no {name} ({result.reason})"
    text = f"{name} {bounded(result)}"
    means = result.grouping == "system"
    if result.low is not None and result.high is not None:
        about = " (over videos)" if means else ""
        where = "above" if result.low > 0 else "below" if result.high < 0 else "includes"
        text += f"; interval {where} 0{about}"
    elif result.interval_reason is not None:
        text += "; no interval"
    return text + (f"; p {p_value(result.p)} (over systems, n {result.n})" if means else "")
