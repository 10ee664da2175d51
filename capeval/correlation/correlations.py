"""`Correlations`, the content of correlations.json: its headline and its tables.

The screen shows one human score, the first with a value, by the main statistic (tau-b unless others
are chosen); `--full` shows all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, ClassVar

from capeval.correlation.fields import (
    PUBLISHED_NOTE,
    ComparisonResult,
    Correlation,
    Elements,
    ElementTable,
    Notice,
    Published,
    Raters,
    notice_lines,
)
from capeval.schema import Frozen
from capeval.scoring.known_agreement import HUMAN_WORDS
from capeval.show.numbers import bounded, thousands, whole_percent
from capeval.show.result import Result
from capeval.show.table import (
    BOUNDED,
    COEFFICIENT,
    COUNT,
    LINE,
    P_VALUE,
    SHARE,
    SIGNED_BOUNDED,
    Cell,
    Column,
    Kind,
    Page,
    Table,
    columns,
    table_of,
)
from capeval.stats.correlation import GROUPINGS, STATISTICS
from capeval.stats.values import Coefficient
from capeval.text import counted, one_line

_SEVERAL = 5
"""The fewest systems on the screen: over four, p of tau-b is at least 2/4! = .083."""

_GROUPED = ("item", "within_system")
_STATISTICS, _GROUPINGS = list(STATISTICS), list(GROUPINGS)
_LOWER = "a metric ranks lower if it is worse than all of the rank above (p <= 0.05, Holm)."
_LEGEND = {
    "kappa": "kappa: Cohen's.",
    "ties": "n: captions (by system: systems). ties: the share of the compared pairs with "
    "equal metric scores.",
    "groups": "groups: used/all. A group with too few captions, or in which a metric or the "
    "human raters score all alike, is left out for all metrics.",
    "rank": f"rank: {_LOWER}",
}
_CEILING_NOTE = (
    "ceiling: mean over raters. It is not an upper bound: a metric is compared with the aggregated "
    "score of all raters, a rater only with that of the others."
)
_BY_SYSTEM = (
    "By system, p is about other systems: of tau-b over S systems it cannot be below 2/(S!). The "
    "interval is about other videos, so it can exclude 0 although p is above 0.05."
)


def _groups(r: Correlation) -> tuple[int, int] | None:
    """Return the numbers of used groups and of all groups; None for a single group."""
    used = r.groups.used
    return (used, used + r.groups.dropped) if r.grouping in _GROUPED else None


_VALUES: tuple[tuple[Column, Callable[[Correlation], Any]], ...] = (
    (Column("Metric", words=True, kind=LINE), attrgetter("metric")),
    (Column("Grouping", words=True), attrgetter("grouping")),
    (Column("Statistic", words=True), lambda r: STATISTICS[r.statistic].words),
    (Column("Value [95%]", kind=BOUNDED), lambda r: r),
    (Column("p", kind=P_VALUE), attrgetter("p")),
    (Column("n", kind=COUNT), attrgetter("n")),
    (Column("ties", kind=Kind(whole_percent), key="ties"), attrgetter("ties.metric")),
    (Column("groups", kind=SHARE, key="groups"), _groups),
    (Column("rank", key="rank"), attrgetter("cluster")),
)


class Correlations(Result, Frozen):
    """The content of `correlations.json`."""

    screen: ClassVar = 60

    results: tuple[Correlation, ...]
    comparisons: tuple[ComparisonResult, ...]
    elements: Elements
    raters: Raters
    warnings: tuple[Notice, ...]
    inputs: dict[str, Any]
    published: tuple[Published, ...] = ()
    signature: str

    def headline(self) -> str:
        best, table = self.best(), self._judge()
        if best is None:
            if table is None:
                return "No metric has a correlation with a human score."
            return (
                f"{one_line(table.given)} compared with human labels: kappa "
                f"{bounded(table.kappa)} over {counted(table.n, 'element')}."
            )
        leading = self._leading()
        several = len({r.metric for r in leading})
        name, metric = STATISTICS[best.statistic].words, one_line(best.metric)
        human, value = _of_human(best.human, best.rater), bounded(best)
        over = f"over {thousands(best.n)} {GROUPINGS[best.grouping].unit} ({best.grouping})"
        if several == 1:
            return f"{metric} has {name} {value} with the {human} {over}."
        way = (best.statistic, best.grouping, best.value)
        ties = sum((r.statistic, r.grouping, r.value) == way for r in leading) - 1
        return (
            f"{metric} has the highest {name} of {several} metrics with the {human}: "
            f"{value} {over}{f', equal to {ties} other' if ties else ''}."
        )

    def pages(self, *, full: bool = False) -> list[Page]:
        notes = self._missing(full=full)
        published = _published(self.published) if self.published else []
        if full:
            ceilings, alpha = _ceilings(self.raters)
            pairs = dict.fromkeys((t.truth, t.given) for t in self.elements.tables)
            tables = [
                *(table for pair in pairs for table in self._of_elements(*pair)),
                *_all_values(self.results),
                *published,
                *_compared(self.comparisons),
                *ceilings,
            ]
            notes += alpha
        else:
            tables = [*_main_values(self._leading()), *published]
            if judge := self._judge():
                tables += self._of_elements(judge.truth, judge.given)[:1]
            notes.append(
                "--full also shows all human scores and statistics, metrics compared with each "
                "other, labels of elements, and ceilings of raters."
            )
        return [Page(tables, legend=_LEGEND, notes=notes, signatures=[self.signature])]

    def records(self) -> list[dict[str, Any]]:
        """Return a flat record for each metric, human score, statistic and grouping."""
        return [
            one.model_dump(exclude={"groups", "ties"})
            | {f"groups_{part}": count for part, count in one.groups}
            | {f"ties_{part}": count for part, count in one.ties}
            for one in self.results
        ]

    def notices(self) -> list[str]:
        return [f"warning: {line}" for line in notice_lines(self.warnings)]

    def _leading(self) -> list[Correlation]:
        """Return the results of the first human score that has a value by the first statistic."""
        main = min((_STATISTICS.index(r.statistic) for r in self.results), default=0)
        valued = (r for r in self.results if r.value is not None)
        first = next((r for r in valued if r.statistic == _STATISTICS[main]), None)
        first = first or next(iter(self.results), None)
        return [r for r in self.results if first and _who(r) == _who(first)]

    def best(self, metric: str | None = None) -> Correlation | None:
        """Return the best metric's result by pooled tau-b, or by the first way that has one.

        Of a named metric, return its own result.
        """
        valued = [r for r in self._leading() if r.value is not None]
        valued = [r for r in valued if metric in (None, r.metric)]
        return min(valued, key=lambda r: (_GROUPINGS.index(r.grouping), _order(r)), default=None)

    def _judge(self) -> ElementTable | None:
        """Return the element table of the best metric's judge, else of the best kappa's."""
        best = self.best()
        those = [t for t in self.elements.tables if t.by == "all"]
        those = [t for t in those if t.truth == those[0].truth]
        own = [t for t in those if best and t.given == best.metric.rpartition(":")[0]]
        return max(own or those, key=lambda t: t.kappa.value or 0.0, default=None)

    def _of_elements(self, truth: str, given: str) -> list[Table]:
        those = [t for t in self.elements.tables if (t.truth, t.given) == (truth, given)]
        whole = next(t for t in those if t.by == "all")
        truth, given = one_line(truth), one_line(given)
        notes = ["Intervals leave out one video at a time."]
        if whole.tied:
            notes.append(
                f"{whole.tied} of {whole.n + whole.tied} elements are left out because raters are "
                "evenly divided on them; this favours the judge: see --raters each."
            )
        if self.elements.unjudged:
            notes.append(f"{self.elements.unjudged} labelled elements have no verdict.")
        reasons = {t.kappa.reason for t in those if t.kappa.value is not None and t.kappa.reason}
        notes += [f"No interval: {reason}." for reason in sorted(reasons)]
        kappas = Table(
            f"Elements, {truth} and {given}",
            [
                Column("Elements", words=True),
                Column("n", kind=COUNT),
                Column("kappa [95%]", kind=BOUNDED, key="kappa"),
            ],
            [[t.by, t.n, t.kappa] for t in those],
            note=" ".join(notes),
        )
        counts = ((label, COUNT) for label in whole.labels)
        scores = ((name, COEFFICIENT) for name in ("precision", "recall", "F1"))
        labels = Table(
            f"Labels of {truth} (rows) and {given} (columns)", columns("Label", *counts, *scores)
        )
        for label, row in zip(whole.labels, whole.confusion, strict=True):
            of = whole.classes[label]
            labels.rows.append([label, *row, of.precision, of.recall, of.f1])
        return [kappas, labels]

    def _missing(self, *, full: bool) -> list[str]:
        named = [(r, f"{one_line(r.metric)}, {_where(r)}") for r in self.results]
        pairs = [
            (c.reason, f"{one_line(c.first)} − {one_line(c.second)}, {_where(c)}")
            for c in self.comparisons
            if full and c.difference is not None
        ]
        return [
            *_causes("correlation", [(r.reason, name) for r, name in named], "value"),
            *_causes("correlation", [(r.interval_reason, name) for r, name in named], "interval"),
            *_causes("comparison", pairs, "p"),
        ]


def _who(r: Correlation | ComparisonResult) -> tuple[str, str | None]:
    return r.human, r.rater


def _order(r: Correlation) -> tuple[int, bool, float]:
    return _STATISTICS.index(r.statistic), r.value is None, -(r.value or 0.0)


def _of_human(human: str, rater: str | None) -> str:
    """Return the name of a human score, with its rater where raters are kept apart.

    >>> _of_human("f1", None), _of_human("covered", "Ann")
    ('human F1', 'human coverage of Ann')
    """
    return f"human {HUMAN_WORDS.get(human, human)}" + (f" of {one_line(rater)}" if rater else "")


def _where(c: Correlation | ComparisonResult) -> str:
    return f"{STATISTICS[c.statistic].words}, {c.grouping}, {_of_human(c.human, c.rater)}"


def _causes(what: str, found: Sequence[tuple[str | None, str]], lacks: str) -> list[str]:
    """Return a line for each reason: how many lack something, and an example.

    >>> _causes("correlation", [("all ties", "a, item"), (None, "b, item")], "value")
    ['1 of 2 correlations has no value: all ties (such as a, item)']
    """
    examples = {reason: name for reason, name in reversed(found) if reason is not None}
    counts = Counter(reason for reason, _ in found if reason is not None)
    return [
        f"{thousands(count)} of {counted(len(found), what)} {'has' if count == 1 else 'have'} no "
        f"{lacks}: {reason} (such as {examples[reason]})"
        for reason, count in counts.most_common()
    ]


# ---- Values ------------------------------------------------------------------------------------


def _title(results: Sequence[Correlation]) -> str:
    one = results[0]
    ties = next((r.ties.human for r in results if r.ties.human is not None), None)
    human = _of_human(*_who(one))
    of_humans = "" if ties is None else f"; human ties {whole_percent(ties)}"
    about = GROUPINGS[one.grouping].words + of_humans
    return f"{human[:1].upper()}{human[1:]}, {one.grouping} ({about})"


def _all_values(results: Iterable[Correlation]) -> list[Table]:
    ways: dict[tuple[Any, ...], list[Correlation]] = {}
    for r in results:
        ways.setdefault((*_who(r), r.grouping), []).append(r)
    return [
        _listed(_title(those), those, without="Grouping")
        for those in ways.values()
        if any(r.value is not None for r in those)
    ]


def _main_values(leading: Sequence[Correlation]) -> list[Table]:
    by = "statistic" if len({r.grouping for r in leading}) == 1 else "grouping"
    shown = [r for r in leading if r.grouping != "system" or r.n >= _SEVERAL]
    if not shown:
        return []
    if by == "grouping":
        main = min(_STATISTICS.index(r.statistic) for r in shown)
        shown = [r for r in shown if r.statistic == _STATISTICS[main]]
    if len({r.metric for r in shown}) == 1:
        human = _of_human(*_who(shown[0]))
        return [_listed(f"{one_line(shown[0].metric)} and {human}", shown, without="Metric")]
    return [_crossed(shown, by)]


def _listed(title: str, results: Sequence[Correlation], without: str) -> Table:
    ordered = sorted(results, key=lambda r: (_GROUPINGS.index(r.grouping), _order(r)))
    chosen = [(column, value) for column, value in _VALUES if column.heading != without]
    cells = [(column, [value(r) for r in ordered]) for column, value in chosen]
    note = _BY_SYSTEM if any(r.grouping == "system" for r in results) else ""
    return table_of(title, cells, note).known()


def _crossed(results: Sequence[Correlation], by: str) -> Table:
    ordered = sorted(results, key=lambda r: (_GROUPINGS.index(r.grouping), _order(r)))
    first = ordered[0]
    ways = dict.fromkeys(getattr(r, by) for r in ordered)
    names = [STATISTICS[way].words if by == "statistic" else way for way in ways]
    fixed = first.grouping if by == "statistic" else STATISTICS[first.statistic].words
    sizes = {r.grouping: _size(r) for r in ordered if r.value is not None}
    ranks = [f"#1: rank 1; {_LOWER}"] if by == "grouping" and sizes else []
    table = Table(
        f"{fixed[:1].upper()}{fixed[1:]}, {_of_human(*_who(first))}",
        columns("Metric", *((f"{name} [95%]", BOUNDED) for name in names)),
        note=". ".join([*filter(None, ["; ".join(sizes.values())]), *ranks]),
    )
    values = {(r.metric, getattr(r, by)): r for r in results}
    for metric in dict.fromkeys(r.metric for r in ordered):
        of_metric = [values.get((metric, way)) for way in ways]
        table.rows.append([one_line(metric), *(_ranked(r, by) for r in of_metric)])
    return table


def _ranked(r: Correlation | None, by: str) -> Cell:
    # Three statistics with ranks would be wider than a terminal.
    return Cell(r, after=f" #{r.cluster}" if by == "grouping" and r and r.cluster else "")


def _size(r: Correlation) -> str:
    groups = _groups(r)
    what = "video" if r.grouping == "item" else "system"
    of = f" of {thousands(groups[0])}/{counted(groups[1], what)}" if groups else ""
    return f"{r.grouping}: {counted(r.n, GROUPINGS[r.grouping].unit.removesuffix('s'))}{of}"


# ---- Published rows, comparisons and ceilings --------------------------------------------------


def _published(rows: Sequence[Published]) -> list[Table]:
    names = {"kendall": "Kendall tau", "spearman": "Spearman rho", "pearson": "Pearson r"}
    table = Table(
        "Published in TUNA, table 3 (n = 40; values not computed here)",
        columns("Published", *((f"{words} [95%]", BOUNDED) for words in names.values())),
        note=PUBLISHED_NOTE,
    )
    for row in rows:
        ends = (getattr(row, f"{name}_interval") or (None, None) for name in names)
        values = zip((getattr(row, name) for name in names), ends, strict=True)
        table.rows.append([row.metric, *(Coefficient(value, *pair) for value, pair in values)])
    return [table]


def _compared(found: Iterable[ComparisonResult]) -> list[Table]:
    ways: dict[str, list[ComparisonResult]] = {}
    for c in found:
        if c.difference is not None:
            ways.setdefault(f"{_of_human(*_who(c))}, {c.grouping}", []).append(c)
    table = Table(
        "Metrics compared",
        columns(
            *("Statistic", ("Metrics", LINE)),
            *(("Difference [95%]", SIGNED_BOUNDED), ("p", P_VALUE)),
            words=2,
        ),
        note="p: adjusted (Holm) within each statistic and grouping.",
    )
    for way, those in ways.items():
        those.sort(key=lambda c: (_STATISTICS.index(c.statistic), -abs(c.difference or 0.0)))
        table.rows += [[way], *map(_difference, those)]
    return [table] if ways else []


def _difference(c: ComparisonResult) -> list[object]:
    worse = (c.difference or 0) < 0
    names = (c.second, c.first) if worse else (c.first, c.second)
    ends = (c.difference, c.high, c.low) if worse else (c.difference, c.low, c.high)
    value, low, high = (-one if worse and one is not None else one for one in ends)
    shown = Coefficient(value, low, high)
    return [STATISTICS[c.statistic].words, " − ".join(names), shown, c.p_adjusted]


def _ceilings(raters: Raters) -> tuple[list[Table], list[str]]:
    count = len(raters.names)
    if count < 2:
        return [], []
    table = Table(
        "Ceilings: each rater compared with the others",
        columns("Human score", "Statistic", ("ceiling", COEFFICIENT), words=2),
        note=_CEILING_NOTE,
    )
    named = [(c, f"{_of_human(c.human, None)}, {c.grouping}") for c in raters.ceiling]
    for c, name in named:
        if c.value is not None:
            table.rows.append([name, STATISTICS[c.statistic].words, c.value])
    reason = f" ({raters.alpha.reason})" if raters.alpha.value is None else ""
    alpha = f"Krippendorff's alpha ({raters.level}) of {count} raters: {bounded(raters.alpha)}"
    reasons = [(c.reason, f"{name}, {STATISTICS[c.statistic].words}") for c, name in named]
    causes = _causes("ceiling", reasons, "value")
    return [table] if table.rows else [], [alpha + reason, *causes]
