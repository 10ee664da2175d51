"""The result of `capeval compare`: two runs by every measure, or several by overall F1.

Every difference is second − first, positive if the second run is better.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from capeval.schema import ELEMENT_TYPES, RELATIONS, ElementType, Frozen, Relation
from capeval.scoring.counts import GROUPS, MEASURES, WAYS
from capeval.scoring.scores import (
    BASELINE_NOTE,
    FEW_VIDEOS_NOTE,
    NO_INTERVAL_NOTE,
    ByMeasure,
    ByType,
    ByWay,
    OverVideos,
    bucket_rows,
    is_narrow,
)
from capeval.scoring.verdicts import signature_parts
from capeval.show.numbers import (
    letter_of,
    p_equation,
    p_value,
    percent,
    plain_number,
    points,
    share,
    signed_tenths,
    tenths,
    thousands,
)
from capeval.show.result import Format, Result, as_latex
from capeval.show.table import (
    COUNT,
    P_VALUE,
    PERCENT,
    POINTS,
    POINTS_INTERVAL,
    Kind,
    Page,
    Table,
    columns,
)
from capeval.stats.values import FEWEST_VIDEOS
from capeval.text import counted, one_line

MOST = 5
"""How many improved videos, worsened videos and flipped elements are shown."""

ALPHA = 0.05
"""A difference with at most this p is called significant, as in the ranks of several runs."""

FEWEST_FOR_POWER = 10
"""Fewer videos estimate the standard deviation too roughly for a statement on power."""

_VERDICTS = {"entailment": "entailed", "lack": "lacking", "contradiction": "contradicted"}
_PAIR = Kind(
    lambda pair: points(pair[0]),
    after=lambda pair: f" ({p_value(pair[1])})",
    parts=lambda pair: {"": pair[0], "_p": pair[1]},
)
# A longer text is cut: it comes from a broken file.
_LONGEST_CONTENT = 600
# Two flips of each video come before the third of any, so that one video does not fill the table.
_OF_A_VIDEO = 2


# ---- Fields -------------------------------------------------------------------------------------


class Difference(Frozen):
    """The means of two runs over the same videos, and their difference.

    `low` and `high` are the 95% interval of `value`; `p` is two-sided and not adjusted. A value
    that does not exist is None.
    """

    first: float | None
    second: float | None
    value: float | None
    low: float | None
    high: float | None
    p: float | None


TypeDifference = OverVideos[Difference]


class BucketDifference(ByType[TypeDifference]):
    """One bucket of videos.

    `p_adjusted` is the p of F1 (all elements), adjusted by Holm over all buckets; None for the
    whole set, whose p is not adjusted.
    """

    p_adjusted: float | None


Differences = ByWay[BucketDifference]


class Move(Frozen):
    """One measure of one video in both runs, all elements pooled."""

    first: float
    second: float
    value: float


VideoMove = ByMeasure[Move]


class Flip(Frozen):
    """An element whose verdicts differ between the two runs."""

    index: str
    element_id: str
    type: ElementType
    weight: int
    content: str
    first: Relation
    second: Relation


Transitions = dict[Relation, dict[Relation, int]]
"""Counts by the first run's verdict, then the second's; the diagonal is unchanged verdicts."""


class Flips(Frozen):
    """How verdicts changed, over the elements of `videos` paired videos with the same annotation.

    `counts` are by "all" and by type of element.
    """

    videos: int
    counts: dict[str, Transitions]
    elements: tuple[Flip, ...]


class PairDifference(Frozen):
    """Two of several runs: the difference of overall F1; `p_adjusted` by Holm over all pairs."""

    first: str
    second: str
    value: float
    low: float | None
    high: float | None
    p: float
    p_adjusted: float


class LeftOut(Frozen):
    """A video scored in this run that is not paired because of another run."""

    index: str
    reason: str


class Side(Frozen):
    """One run: its coverage, and which of its scored videos were left out of the comparison.

    `baseline` is whether a baseline judged it, `mean_words` the mean number of words of the paired
    captions, if they are known.
    """

    name: str
    signature: str
    model: str | None
    baseline: bool
    annotated: int
    captioned: int
    scored: int
    mean_words: float | None
    left_out: tuple[LeftOut, ...]


class Contender(Side):
    """One of several runs: its means over the paired videos and its rank cluster, from 1."""

    precision: float
    recall: float
    f1: float
    cluster: int


class GateResult(Frozen):
    """One gate: `value` (points, or percent for coverage) must be at least `at_least`.

    A missing value is None and fails. `message` is the result in words.
    """

    gate: str
    value: float | None
    at_least: float
    passed: bool
    message: str


# ---- Results ------------------------------------------------------------------------------------


class _Compared(Result, Frozen):
    """Shared by `Comparison` and `Matrix`.

    Attributes
    ----------
    unlike : differences between the runs' signatures; without --allow-mismatch there are none
    annotated : videos in the annotations of any of the runs
    paired : videos scored in all runs; only these enter the numbers
    """

    direction: Literal["second - first"] = "second - first"
    comparable: bool
    unlike: tuple[str, ...]
    notes: tuple[str, ...]
    annotated: int
    paired: int
    gates: tuple[GateResult, ...] = ()
    settings: dict[str, Any] = Field(default_factory=dict)

    @property
    @abstractmethod
    def sides(self) -> Sequence[Side]: ...

    def rendered(self, form: Format) -> str:
        if form != "latex":
            return super().rendered(form)
        # A paper may show one table alone: every caption names the runs and the measurement.
        whose = f"{_names(self.sides)}; " if len(self.sides) == 2 else ""
        about = whose + _measurement(self.sides)
        return as_latex([replace(page, about=about) for page in self.pages(full=True)])

    def failures(self) -> list[str]:
        return [f"gate failed: {gate.message}" for gate in self.gates if not gate.passed]

    def exit_code(self) -> int:
        return 4 if self.failures() else 0

    def _sentence(self, what: str) -> str:
        mark = "" if self.comparable else "[not comparable] "
        runs = "both" if len(self.sides) == 2 else "all"
        part = "; ".join(
            f"{one_line(run.name)} scored {share(run.scored, run.captioned)}"
            for run in self.sides
            if run.scored < run.captioned
        )
        over = f"over the {counted(self.paired, 'video')} scored in {runs} runs"
        return f"{mark}{what} {over}{f' ({part})' if part else ''}."

    def _page(self, tables: list[Table], notes: Sequence[str]) -> Page:
        if not self.comparable:
            for table in tables:
                table.title = f"[not comparable] {table.title}"
        warnings = [f"NOT COMPARABLE: {one_line(phrase)}" for phrase in self.unlike]
        warnings += [one_line(note) for note in self.notes]
        warnings += [BASELINE_NOTE] if any(run.baseline for run in self.sides) else []
        return Page(
            tables,
            notes=[*(_coverage(self.sides, at) for at in range(len(self.sides))), *notes],
            warnings=warnings,
            signatures=list(dict.fromkeys(run.signature for run in self.sides)),
        )

    def _test(self) -> str:
        test = self.settings["test"]
        return f"{test['method']}, {thousands(test['resamples'])} resamples, seed {test['seed']}"


class Comparison(_Compared):
    """Two runs, paired by video; fractions from 0 to 1 at full precision.

    `detectable` is the smallest true difference in F1 that a two-sided test at 5% finds with a
    power of 80%; None for fewer than ten videos.
    """

    first: Side
    second: Side
    overall: BucketDifference
    by: Differences
    detectable: float | None
    videos: dict[str, VideoMove]
    flips: Flips

    @property
    def sides(self) -> Sequence[Side]:
        return self.first, self.second

    def headline(self) -> str:
        f1 = self.overall.all.f1
        better, other = one_line(self.second.name), one_line(self.first.name)
        ends = [end for end in (f1.low, f1.high) if end is not None]
        if (f1.value or 0.0) < 0:
            better, other = other, better
            ends = [-end for end in reversed(ends)]
        size = points(abs(f1.value or 0.0)).removeprefix("+")
        how = f"is {size} points of F1 better than" if float(size) else "has the same F1 as"
        sure = f"no interval: fewer than {FEWEST_VIDEOS} videos"
        if ends:
            sure = f"95% CI {' to '.join(map(points, ends))}".replace("+", "")
        p = "" if f1.p is None else f", {p_equation(f1.p)}"
        unsure = ", not significant" if f1.p is not None and f1.p > ALPHA else ""
        return self._sentence(f"{better} {how} {other} ({sure}{p}{unsure})")

    def pages(self, *, full: bool = False) -> list[Page]:
        if not full:
            notes = [_flip_line(self.flips.counts["all"])] if self.flips.videos else []
            notes.append("--full also shows groups of videos, flipped elements and the methods.")
            tables = [self._overall(full=full), *self._moved(full=full)]
            return [self._page(tables, notes)]
        explained = (
            f"Intervals: {self.settings['interval']['method']}; none for fewer than "
            f"{FEWEST_VIDEOS} videos. p: {self._test()}; the p of groups is also adjusted (Holm), "
            "that of all videos is not."
        )
        ways = [_buckets(way, getattr(self.by, way)) for way in Differences.model_fields]
        tables = [self._overall(full=full), *(table for table in ways if table.rows)]
        tables += [*self._moved(full=full), *self._flipped()]
        detectable = f"Smallest detectable difference: needs at least {FEWEST_FOR_POWER} videos."
        if self.detectable is not None:
            detectable = (
                f"Smallest detectable difference in F1: {percent(self.detectable)} points, found "
                "at p <= 0.05 with a power of 80% (normal approximation)."
            )
        return [self._page(tables, [explained, detectable])]

    def records(self) -> list[dict[str, Any]]:
        return bucket_rows(self.overall, self.by)

    def _overall(self, *, full: bool) -> Table:
        groups = [(group, getattr(self.overall, group)) for group in GROUPS]
        shown = [
            (group, measure, of.n, getattr(of, measure))
            for group, of in groups
            for measure in (MEASURES if full or group == "all" else ("f1",))
        ]
        ways = (getattr(self.by, way) for way in Differences.model_fields)
        few = [of for _, of in groups]
        few += [bucket.all for buckets in ways for bucket in buckets.values()]
        narrow = FEW_VIDEOS_NOTE if full and any(is_narrow(of.f1, of.n) for of in few) else ""
        return Table(
            f"{_names(self.sides)}: B − A, in points, {counted(self.paired, 'video')}",
            columns(
                *("Elements", "Measure", ("n", COUNT), ("A", PERCENT), ("B", PERCENT)),
                *(("B − A [95%]", POINTS_INTERVAL), ("p", P_VALUE)),
                words=2,
            ),
            [
                [group, "F1" if measure == "f1" else measure, n, of.first, of.second, of, of.p]
                for group, measure, n, of in shown
            ],
            ". ".join(filter(None, [_no_interval(of for *_, of in shown), narrow])),
        )

    def _moved(self, *, full: bool) -> list[Table]:
        # A stable sort: ties keep the annotations' order.
        ordered = sorted(self.videos.items(), key=lambda item: -abs(item[1].f1.value))
        moved = [(one_line(index), *dict(of.f1).values()) for index, of in ordered if of.f1.value]
        up = [row for row in moved if row[-1] > 0]
        down = [row for row in moved if row[-1] < 0]
        title = f"{thousands(len(up))} videos up, {thousands(len(down))} down"
        tables = {f"Largest changes in F1 ({title})": moved}
        if full:
            tables = {
                f"Largest increases in F1 ({counted(len(up), 'video')} up)": up,
                f"Largest decreases in F1 ({counted(len(down), 'video')} down)": down,
            }
        heads = columns("Video", ("A", PERCENT), ("B", PERCENT), ("B − A", POINTS))
        return [Table(title, heads, [*rows[:MOST]]) for title, rows in tables.items() if rows]

    def _flipped(self) -> list[Table]:
        """Return a table of flipped elements: the two heaviest of each video, then the next two.

        Videos are sorted by their change in F1, ties in the annotations' order.
        """
        by_video: dict[str, list[Flip]] = {}
        for flip in self.flips.elements:
            by_video.setdefault(flip.index, []).append(flip)
        if not by_video:
            return []
        ranked = [
            (place // _OF_A_VIDEO, flip)
            for index in sorted(by_video, key=lambda index: -abs(self.videos[index].f1.value))
            for place, flip in enumerate(sorted(by_video[index], key=lambda flip: -flip.weight))
        ]
        counts = self.flips.counts
        changed = {group: _totals(counts[group])[1] for group in ELEMENT_TYPES}
        by_type = ", ".join(f"{group} {thousands(n)}" for group, n in changed.items() if n)
        rows = [
            [
                f"{one_line(flip.index)}\n{flip.element_id} {flip.type}",
                f"{_VERDICTS[flip.first]}\n→ {_VERDICTS[flip.second]}",
                one_line(flip.content, _LONGEST_CONTENT),
                str(flip.weight),
            ]
            for _, flip in sorted(ranked, key=lambda one: one[0])[:MOST]
        ]
        return [
            Table(
                "Flipped elements of the videos that changed most",
                columns("Video, element", "A → B", "Content", "weight", words=3),
                [*rows],
                note=f"{_flip_line(counts['all'])} By type: {by_type}.",
            )
        ]


class Matrix(_Compared):
    """More than two runs, paired by video, in the order in which they were named."""

    runs: tuple[Contender, ...]
    pairs: tuple[PairDifference, ...]

    @property
    def sides(self) -> Sequence[Side]:
        return self.runs

    def headline(self) -> str:
        best, second, *_ = sorted(self.runs, key=lambda run: -run.f1)
        gap, p = self._difference(best, second) or (0.0, 1.0)
        unsure = ", not significant" if p > ALPHA else ""
        return self._sentence(
            f"{one_line(best.name)} has the highest F1 of {len(self.runs)} runs, "
            f"{percent(best.f1)}, {points(abs(gap)).removeprefix('+')} points above "
            f"{one_line(second.name)} ({p_equation(p)}, Holm{unsure})"
        )

    def pages(self, *, full: bool = False) -> list[Page]:
        runs = [(letter_of(place), run) for place, run in enumerate(self.runs)]
        measures = (("P", PERCENT), ("R", PERCENT), ("F1", PERCENT), ("rank", COUNT))
        ranks = Table(
            "Precision, recall and F1 of all elements, "
            f"{counted(self.paired, 'video')}; rank by F1",
            columns("", "Run", *measures, words=2),
            [
                [letter, one_line(run.name), run.precision, run.recall, run.f1, run.cluster]
                for letter, run in runs
            ],
        )
        square = Table(
            "F1, row − column, in points (p, Holm)",
            columns("", *((letter, _PAIR) for letter, _ in runs)),
            [
                [letter, *(self._difference(run, other) for _, other in runs)]
                for letter, run in runs
            ],
        )
        explained = (
            f"p: {self._test()}; adjusted by Holm over all pairs. rank: a run ranks lower if it is "
            f"worse than every run of the rank above (p <= {plain_number(ALPHA)})."
        )
        return [self._page([ranks, square], [explained])]

    def records(self) -> list[dict[str, Any]]:
        return [pair.model_dump() for pair in self.pairs]

    def _difference(self, row: Side, column: Side) -> tuple[float, float] | None:
        for pair in self.pairs:
            if (pair.second, pair.first) == (row.name, column.name):
                return pair.value, pair.p_adjusted
            if (pair.first, pair.second) == (row.name, column.name):
                return -pair.value, pair.p_adjusted
        return None


Compared = Comparison | Matrix


# ---- Parts of sentences and tables --------------------------------------------------------------


def _names(sides: Sequence[Side]) -> str:
    return ", ".join(f"{letter_of(at)} {one_line(run.name)}" for at, run in enumerate(sides))


def _measurement(runs: Sequence[Side]) -> str:
    signatures = [signature_parts(run.signature) for run in runs]
    parts = []
    for name in ("judge", "prompts", "reasoning", "data"):
        values = dict.fromkeys(one_line(of.get(name) or "unknown") for of in signatures)
        if name != "reasoning" or any(of.get(name) for of in signatures):
            parts.append(f"{name} {' and '.join(values)}")
    return ", ".join(parts)


def _coverage(sides: Sequence[Side], place: int) -> str:
    run, first = sides[place], sides[0].mean_words
    line = (
        f"{letter_of(place)} {one_line(run.name)}: captioned "
        f"{share(run.captioned, run.annotated)}, scored {share(run.scored, run.captioned)}"
    )
    if run.mean_words is not None:
        line += f", {tenths(run.mean_words)} words per caption"
        if place and first is not None:
            line += f" ({letter_of(place)} − A: {signed_tenths(run.mean_words - first)})"
    if not run.left_out:
        return line
    reasons = Counter(one_line(left.reason, 120) for left in run.left_out).most_common()
    if len(reasons) == 1:
        return f"{line}, left out {thousands(len(run.left_out))} ({reasons[0][0]})"
    shown = [f"{thousands(count)}: {reason}" for reason, count in reasons[:3]]
    shown += ["…"] if len(reasons) > 3 else []
    return f"{line}, left out {thousands(len(run.left_out))} ({'; '.join(shown)})"


def _buckets(way: str, buckets: Mapping[str, BucketDifference]) -> Table:
    every = [(name, of.all, of.p_adjusted) for name, of in buckets.items()]
    return Table(
        f"By {WAYS[way].title}: B − A, in points, all elements",
        columns(
            *(WAYS[way].heading, ("n", COUNT), ("F1 [95%]", POINTS_INTERVAL), ("p", P_VALUE)),
            *(("p (Holm)", P_VALUE), ("precision [95%]", POINTS_INTERVAL)),
            ("recall [95%]", POINTS_INTERVAL),
        ),
        [
            [one_line(name), of.n, of.f1, of.f1.p, adjusted, of.precision, of.recall]
            for name, of, adjusted in every
        ],
        _no_interval(one for _, of, _ in every for one in (of.f1, of.precision, of.recall)),
    )


def _no_interval(shown: Iterable[Difference]) -> str:
    bare = any(one.value is not None and one.low is None for one in shown)
    return NO_INTERVAL_NOTE if bare else ""


def _flip_line(counts: Transitions) -> str:
    total, flipped = _totals(counts)
    others = [label for label in RELATIONS if label != "entailment"]
    gained = sum(counts[label]["entailment"] for label in others)
    lost = sum(counts["entailment"][label] for label in others)
    return (
        f"{thousands(flipped)} of {counted(total, 'verdict')} flipped: {counted(gained, 'element')}"
        f" {'is' if gained == 1 else 'are'} entailed only in B, {thousands(lost)} only in A."
    )


def _totals(counts: Transitions) -> tuple[int, int]:
    total = sum(sum(row.values()) for row in counts.values())
    return total, total - sum(counts[label][label] for label in RELATIONS)
