"""The result of `capeval compare`: two runs by every measure, or several by overall F1."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from capeval.comparing.differences import (
    FEWEST_FOR_POWER,
    BucketDifference,
    Difference,
    Differences,
    Flip,
    Flips,
    PairDifference,
    Transitions,
    VideoMove,
)
from capeval.schema import ELEMENT_TYPES, RELATIONS, Relation
from capeval.scoring import FEWEST_VIDEOS, GROUPS, MEASURES
from capeval.scoring.counts import WAYS
from capeval.scoring.score_parts import ResultModel, bucket_rows
from capeval.scoring.scores import BASELINE_NOTE, FEW_VIDEOS_NOTE, NO_INTERVAL_NOTE, is_narrow
from capeval.scoring.signature import Signature
from capeval.show.formats import Format, rendered
from capeval.show.numbers import (
    letter_of,
    p_equation,
    p_value,
    percent,
    plain_number,
    points,
    share,
    thousands,
)
from capeval.show.result import Result
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
from capeval.text import counted, one_line

MOST = 5
"""How many videos that moved up, that moved down, and flipped elements are shown."""

ALPHA = 0.05
"""A difference with a smaller p is called significant, as in the ranks of several runs."""

_VERDICTS: Mapping[Relation, str] = {
    "entailment": "entailed",
    "lack": "lacking",
    "contradiction": "contradicted",
}
_PAIR = Kind(
    lambda pair: points(pair[0]),
    after=lambda pair: f" ({p_value(pair[1])})",
    parts=lambda pair: {"": pair[0], "_p": pair[1]},
)
# A longer text is cut: it comes from a broken file.
_LONGEST_CONTENT = 600
# Of each video so many flips come before those of the next, so that one video does not fill all.
_OF_A_VIDEO = 2


class LeftOut(ResultModel):
    """A video scored in this run that is not paired because of another run."""

    index: str
    reason: str


class Side(ResultModel):
    """One run: its coverage, and which of its scored videos were left out of the comparison."""

    name: str
    signature: str
    model: str | None
    baseline: bool
    """Judged by a baseline."""
    annotated: int
    captioned: int
    scored: int
    left_out: tuple[LeftOut, ...]


class GateResult(ResultModel):
    """One gate: `value` (points, or percent for coverage) must be at least `at_least`.

    A missing value is None and fails. `message` is the result in words.
    """

    gate: str
    value: float | None
    at_least: float
    passed: bool
    message: str


class _Compared(Result, ResultModel):
    direction: Literal["second - first"] = "second - first"
    comparable: bool
    unlike: tuple[str, ...]
    """The differences between the runs' signatures, if they were compared anyway."""
    notes: tuple[str, ...]
    annotated: int
    """Videos in the annotations of any of the runs."""
    paired: int
    """Videos scored in all runs: only these enter the numbers."""
    gates: tuple[GateResult, ...] = ()
    settings: dict[str, Any] = Field(default_factory=dict)

    @property
    @abstractmethod
    def sides(self) -> Sequence[Side]: ...

    def rendered(self, form: Format) -> str:
        if form != "latex":
            return super().rendered(form)
        # A paper may have one of the tables alone: every caption says what was compared.
        whose = f"{_names(self.sides)}; " if len(self.sides) == 2 else ""
        about = whose + _measurement(self.sides)
        return rendered([replace(page, about=about) for page in self.pages(full=True)], form)

    def failures(self) -> list[str]:
        return [f"gate failed: {gate.message}" for gate in self.gates if not gate.passed]

    def exit_code(self) -> int:
        return 0 if all(gate.passed for gate in self.gates) else 4

    def _sentence(self, what: str) -> str:
        """Return a headline, with the number of videos that it is about."""
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
        """Return a page of tables, with what is known of the runs."""
        if not self.comparable:
            for table in tables:
                table.title = f"[not comparable] {table.title}"
        warnings = [f"NOT COMPARABLE: {one_line(phrase)}" for phrase in self.unlike]
        warnings += [one_line(note) for note in self.notes]
        warnings += [BASELINE_NOTE] if any(run.baseline for run in self.sides) else []
        return Page(
            tables,
            notes=[*(_coverage(at, run) for at, run in enumerate(self.sides)), *notes],
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
        if f1.value is None:
            return f"{better} and {other} cannot be compared: no video was scored in both."
        if f1.value < 0:
            better, other = other, better
        size = points(abs(f1.value)).removeprefix("+")
        how = f"is {size} points of F1 better than" if float(size) else "has the same F1 as"
        p = "" if f1.p is None else f", {p_equation(f1.p)}"
        unsure = ", not significant" if f1.p is not None and f1.p >= ALPHA else ""
        return self._sentence(f"{better} {how} {other} ({_confidence(f1)}{p}{unsure})")

    def pages(self, *, full: bool = False) -> list[Page]:
        tables = [self._overall(full=full)]
        if full:
            for way in Differences.model_fields:
                buckets = getattr(self.by, way)
                tables += [_buckets(way, buckets)] if buckets else []
        tables += self._moved(full=full)
        tables += self._flipped() if full else []
        explained = (
            f"Intervals: {self.settings['interval']['method']}; none for fewer than "
            f"{FEWEST_VIDEOS} videos. p: {self._test()}; the p of buckets is also adjusted (Holm), "
            "that of all videos is not."
        )
        if full:
            notes = [self._detectable()]
        else:
            notes = [_flip_line(self.flips.counts["all"])] if self.flips.videos else []
            notes.append("--full also shows buckets of videos and flipped elements.")
        return [self._page(tables, [explained, *notes])]

    def records(self) -> list[dict[str, Any]]:
        """Return a flat record for each bucket and type; values are second − first."""
        return bucket_rows(self.overall, self.by)

    def _overall(self, *, full: bool) -> Table:
        shown = [
            (group, measure, of.n, getattr(of, measure))
            for group in GROUPS
            for of in (getattr(self.overall, group),)
            for measure in (MEASURES if full or group == "all" else ("f1",))
        ]
        few = [(of.f1, of.n) for of in (getattr(self.overall, group) for group in GROUPS)]
        if full:
            ways = (getattr(self.by, way) for way in Differences.model_fields)
            few += [(of.all.f1, of.all.n) for buckets in ways for of in buckets.values()]
        narrow = FEW_VIDEOS_NOTE if any(is_narrow(*one) for one in few) else ""
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
        """Return the videos whose F1 changed most, with `full` a table for each direction."""
        # A stable sort: of equals, the one that comes first in the annotations.
        ordered = sorted(self.videos.items(), key=lambda item: -abs(item[1].f1.value))
        moved = [(one_line(index), *dict(of.f1).values()) for index, of in ordered if of.f1.value]
        up = [row for row in moved if row[-1] > 0]
        down = [row for row in moved if row[-1] < 0]
        if full:
            of = {
                f"Largest increases in F1 ({counted(len(up), 'video')} up)": up,
                f"Largest decreases in F1 ({counted(len(down), 'video')} down)": down,
            }
        else:
            title = f"{thousands(len(up))} videos up, {thousands(len(down))} down"
            of = {f"Largest changes in F1 ({title})": moved}
        heads = columns("Video", ("A", PERCENT), ("B", PERCENT), ("B − A", POINTS))
        return [Table(title, heads, [*rows[:MOST]]) for title, rows in of.items() if rows]

    def _flipped(self) -> list[Table]:
        """Return a table of flipped elements, first the two heaviest of each video, and so on.

        Videos come in the order of how far their F1 moved, ties in the annotations' order.
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
        changed = {
            group: _total(counts[group]) - sum(counts[group][label][label] for label in RELATIONS)
            for group in ELEMENT_TYPES
        }
        by_type = ", ".join(f"{group} {thousands(n)}" for group, n in changed.items() if n)
        return [
            Table(
                "Flipped elements of the videos that changed most",
                columns("Video, element", "A → B", "Content", "weight", words=3),
                [
                    [
                        f"{one_line(flip.index)}\n{flip.element_id} {flip.type}",
                        f"{_VERDICTS[flip.first]}\n→ {_VERDICTS[flip.second]}",
                        one_line(flip.content, _LONGEST_CONTENT),
                        str(flip.weight),
                    ]
                    for _, flip in sorted(ranked, key=lambda one: one[0])[:MOST]
                ],
                note=f"{_flip_line(counts['all'])} By type: {by_type}.",
            )
        ]

    def _detectable(self) -> str:
        if self.detectable is None:
            return f"Smallest detectable difference: needs at least {FEWEST_FOR_POWER} videos."
        return (
            f"Smallest detectable difference in F1: {percent(self.detectable)} points, found at "
            "p <= 0.05 with a power of 80% (normal approximation)."
        )


class Contender(Side):
    """One of several runs: its means over the paired videos and its rank cluster, from 1."""

    precision: float
    recall: float
    f1: float
    cluster: int


class Matrix(_Compared):
    """More than two runs, paired by video, in the order in which they were named."""

    runs: tuple[Contender, ...]
    pairs: tuple[PairDifference, ...]

    @property
    def sides(self) -> Sequence[Side]:
        return self.runs

    def headline(self) -> str:
        best, second, *_ = sorted(self.runs, key=lambda run: -run.f1)
        pair = self._pairs()[frozenset((best.name, second.name))]
        gap = points(abs(pair.value)).removeprefix("+")
        unsure = ", not significant" if pair.p_adjusted >= ALPHA else ""
        return self._sentence(
            f"{one_line(best.name)} has the highest F1 of {len(self.runs)} runs, "
            f"{percent(best.f1)}, {gap} points above {one_line(second.name)} "
            f"({p_equation(pair.p_adjusted)}, Holm{unsure})"
        )

    def pages(self, *, full: bool = False) -> list[Page]:
        letters = [letter_of(place) for place in range(len(self.runs))]
        measures = (("P", PERCENT), ("R", PERCENT), ("F1", PERCENT), ("rank", COUNT))
        over = counted(self.paired, "video")
        ranks = Table(
            f"Precision, recall and F1 of all elements, {over}; rank by F1",
            columns("", "Run", *measures, words=2),
            [
                [letter, one_line(run.name), run.precision, run.recall, run.f1, run.cluster]
                for letter, run in zip(letters, self.runs, strict=True)
            ],
        )
        square = Table(
            "F1, row − column, in points (p, Holm)",
            columns("", *((letter, _PAIR) for letter in letters)),
            [
                [letter, *(self._difference(run, other) for other in self.runs)]
                for letter, run in zip(letters, self.runs, strict=True)
            ],
        )
        explained = (
            f"p: {self._test()}; adjusted by Holm over all pairs. rank: a run ranks lower if it is "
            f"worse than every run of the rank above (p <= {plain_number(ALPHA)})."
        )
        return [self._page([ranks, square], [explained])]

    def records(self) -> list[dict[str, Any]]:
        """Return a flat record for each pair of runs; values are second − first."""
        return [pair.model_dump() for pair in self.pairs]

    def _pairs(self) -> dict[frozenset[str], PairDifference]:
        return {frozenset((pair.first, pair.second)): pair for pair in self.pairs}

    def _difference(self, row: Side, column: Side) -> tuple[float, float] | None:
        pair = self._pairs().get(frozenset((row.name, column.name)))
        if pair is None:
            return None
        return pair.value if pair.second == row.name else -pair.value, pair.p_adjusted


Compared = Comparison | Matrix


def _names(sides: Sequence[Side]) -> str:
    return ", ".join(f"{letter_of(at)} {one_line(run.name)}" for at, run in enumerate(sides))


def _measurement(runs: Sequence[Side]) -> str:
    """Return the judge, its prompts and the data, as the signatures have them."""
    signatures = [Signature.parse(run.signature) for run in runs]
    parts = []
    for name in ("judge", "prompts", "reasoning", "data"):
        values = dict.fromkeys(one_line(of.get(name) or "unknown") for of in signatures)
        if name != "reasoning" or any(of.get(name) for of in signatures):
            parts.append(f"{name} {' and '.join(values)}")
    return ", ".join(parts)


def _confidence(gap: Difference) -> str:
    """Return the 95% interval of the better run's lead, as a sentence has it."""
    if gap.low is None or gap.high is None:
        return f"no interval: fewer than {FEWEST_VIDEOS} videos"
    behind = gap.value is not None and gap.value < 0
    low, high = (-gap.high, -gap.low) if behind else (gap.low, gap.high)
    return f"95% CI {points(low)} to {points(high)}".replace("+", "")


def _coverage(place: int, run: Side) -> str:
    line = (
        f"{letter_of(place)} {one_line(run.name)}: captioned "
        f"{share(run.captioned, run.annotated)}, scored {share(run.scored, run.captioned)}"
    )
    if not run.left_out:
        return line
    reasons = Counter(one_line(left.reason, 120) for left in run.left_out).most_common()
    shown = [f"{thousands(count)} {reason}" for reason, count in reasons[:3]]
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
    """Return how many verdicts changed, and in which direction."""
    total = _total(counts)
    flipped = total - sum(counts[label][label] for label in RELATIONS)
    others = [label for label in RELATIONS if label != "entailment"]
    gained = sum(counts[label]["entailment"] for label in others)
    lost = sum(counts["entailment"][label] for label in others)
    return (
        f"{thousands(flipped)} of {counted(total, 'verdict')} flipped: {counted(gained, 'element')}"
        f" {'is' if gained == 1 else 'are'} entailed only in B, {thousands(lost)} only in A."
    )


def _total(counts: Transitions) -> int:
    return sum(sum(row.values()) for row in counts.values())
