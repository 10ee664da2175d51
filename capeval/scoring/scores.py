"""The content of `scores.json`, and its tables of precision, recall and F1 as in the TUNA paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, Field

from capeval.schema import ELEMENT_TYPES, Frozen, Usage
from capeval.scoring.counts import GROUPS, MEASURES, WAYS
from capeval.scoring.verdicts import signature_parts, unlikeness
from capeval.show.numbers import (
    NOTHING,
    Bounded,
    billions,
    hundredths,
    interval,
    percent,
    share,
    tenths,
    thousands,
)
from capeval.show.result import Result
from capeval.show.table import (
    COUNT,
    F1,
    INTERVAL,
    LINE,
    NAMES,
    PRF,
    SHARE,
    VALUE,
    Column,
    Kind,
    Page,
    Table,
    marked,
    table_of,
)
from capeval.stats.values import FEWEST_FOR_FAILURES, FEWEST_VIDEOS, Floats, Ints, number_of
from capeval.text import counted, cut, one_line

T = TypeVar("T")


# ---- The layout of scores.json ------------------------------------------------------------------


class Estimate(Frozen):
    """A mean over videos with its 95% interval; None if there is none."""

    value: float | None
    low: float | None = None
    high: float | None = None


class ByMeasure(Frozen, Generic[T]):
    """One value for each measure."""

    precision: T
    recall: T
    f1: T


class OverVideos(ByMeasure[T], Generic[T]):
    """The values of one type in one bucket, over `n` videos."""

    n: int


TypeScores = OverVideos[Estimate]


class ByType(Frozen, Generic[T]):
    """One value for all elements pooled, and one for each type."""

    all: T
    camera: T
    scene: T
    action: T
    attribute: T


def by_type(
    whole: type[BaseModel], part: type[BaseModel], fields: Sequence[str], table: Floats, n: Ints
) -> dict[str, Any]:
    """Return a `whole` for each type: `n`, and for each measure a `part` with some fields.

    `table` is (types, measures, fields), in which NaN is a missing value.
    """
    rows = zip(GROUPS, table.tolist(), n.tolist(), strict=True)
    return {
        group: whole(
            **{
                measure: part(**dict(zip(fields, map(number_of, values), strict=True)))
                for measure, values in zip(MEASURES, of_type, strict=True)
            },
            n=size,
        )
        for group, of_type, size in rows
    }


class ByWay(Frozen, Generic[T]):
    """The buckets of every way to group videos; empty buckets are left out."""

    visual_characteristic: dict[str, T]
    domain: dict[str, T]
    events: dict[str, T]
    elements: dict[str, T]


def bucket_rows(overall: ByType[Any], by: ByWay[Any]) -> list[dict[str, Any]]:
    """Return a flat record for each bucket and type, of scores or of differences."""
    buckets = [("overall", "all", overall)]
    for way in ByWay.model_fields:
        buckets += [(way, name, bucket) for name, bucket in getattr(by, way).items()]
    return [
        {"by": way, "group": name, "type": kind, "n": of.n}
        | {
            measure + ("" if part == "value" else f"_{part}"): value
            for measure in ("precision", "recall", "f1")
            for part, value in getattr(of, measure).model_dump().items()
        }
        for way, name, bucket in buckets
        for kind in ByType.model_fields
        for of in (getattr(bucket, kind),)
    ]


Bucket = ByType[TypeScores]
Breakdown = ByWay[Bucket]


class Counts(Frozen):
    """How many videos are behind the numbers; `unscored` = captioned - scored.

    `empty` are the scored captions without any event, which score 0; left out of the file if there
    are none.
    """

    annotated: int
    captioned: int
    scored: int
    unscored: int
    empty: int = Field(0, exclude_if=lambda count: not count)


@dataclass(frozen=True, slots=True)
class VideoScore:
    """Weights and measures of one video and type."""

    entailed: int
    contradicted: int
    total: int
    precision: float
    recall: float
    f1: float


class UnmatchedEvents(Frozen):
    """Candidate events that match no reference event: the method cannot check them."""

    unmatched: int
    candidate: int
    share: float | None


class RepeatSpread(Frozen):
    """How much the judge's repeats on the same captions differ.

    `precision`, `recall` and `f1` are overall means, a number for each repeat, `f1_sd` the sample
    standard deviation of `f1`; `unanimous` is the share of elements with the same label in every
    repeat.
    """

    repeats: int
    precision: tuple[float, ...]
    recall: tuple[float, ...]
    f1: tuple[float, ...]
    f1_sd: float
    unanimous: float


# ---- Means by place -----------------------------------------------------------------------------

Place = tuple[str, str]
"""The way of grouping, and the group: ("type", "camera"), ("events", "3-4")."""

OVERALL: Place = ("overall", "all")
VIEWS = ("overall", *WAYS)


def places_of(way: str) -> list[Place]:
    """Return the places of a way with fixed groups."""
    return [(way, name) for name in WAYS[way].groups]


def scores_by(scores: Scores, way: str) -> dict[str, TypeScores]:
    """Return the scores of each type, or of all elements in each bucket of a way."""
    if way == "type":
        return {name: getattr(scores.overall, name) for name in ELEMENT_TYPES}
    return {name: bucket.all for name, bucket in getattr(scores.by, way).items()}


BASELINE_NOTE = (
    "These are scores of a baseline judge: a smoke test, not a measurement. Do not report them."
)

NO_INTERVAL_NOTE = f"[{NOTHING}]: no interval, fewer than {FEWEST_VIDEOS} videos"
"""The note below a table in which a value has no interval."""

FEW_VIDEOS_NOTE = (
    f"Intervals from fewer than {FEWEST_FOR_FAILURES} videos can be too narrow: if 2-5% of "
    "otherwise strong captions fail altogether, 95% intervals of F1 from 20 to 40 videos contain "
    "the true mean in 86-91% of cases."
)
"""The note on such an interval, once per page."""


def is_narrow(mean: Bounded, n: int) -> bool:
    """Return whether `FEW_VIDEOS_NOTE` applies to a mean, or a difference of two."""
    return mean.low is not None and n < FEWEST_FOR_FAILURES


@dataclass(frozen=True)
class ScoreRow:
    """One run as judged or graded, one row of a paper, or a baseline.

    `cells` are the means of videos by place, those of a paper with n = 0, or the accuracies of
    questions; then `captioned` counts the questions. Only rows with a rank can have the best
    numbers marked. Unknown values are None. `parameters` are in billions. `group` is "diagnostic"
    for a run that saw less than the video, and "baseline" for no model; neither has a rank.
    """

    name: str
    cells: Mapping[Place, Any]
    annotated: int | None = None
    captioned: int | None = None
    scored: int | None = None
    empty: int | None = None
    words: float | None = None
    rank: int | None = None
    model: str | None = None
    frames: str | None = None
    parameters: float | None = None
    path: Path | None = None
    group: Literal["", "diagnostic", "baseline"] = ""

    @classmethod
    def of(cls, name: str, scores: Scores, **more: Any) -> Self:
        counts = scores.counts.model_dump(include={"annotated", "captioned", "scored"})
        cells = {OVERALL: scores.overall.all}
        cells |= {(way, name): of for way in WAYS for name, of in scores_by(scores, way).items()}
        cells = {place: of for place, of in cells.items() if of.n}
        more |= {"empty": scores.counts.empty, "words": scores.mean_words}
        return cls(name, cells, **counts, **more)

    @property
    def overall(self) -> TypeScores:
        found: TypeScores = self.cells.get(OVERALL, NO_SCORES)
        return found


NO_SCORES = TypeScores(**dict.fromkeys(MEASURES, Estimate(value=None)), n=0)
"""The scores of a place where nothing is scored."""


class Scores(Result, Frozen):
    """The content of `scores.json`; fractions from 0 to 1 at full precision."""

    signature: str
    counts: Counts
    mean_words: float | None = None
    """Of the scored captions; None if they are not known."""
    overall: Bucket
    by: Breakdown
    videos: dict[str, dict[str, VideoScore]]
    unmatched_events: UnmatchedEvents
    repeat_spread: RepeatSpread | None
    usage: dict[str, Usage]
    settings: dict[str, Any] = Field(default_factory=dict)

    def headline(self) -> str:
        return score_sentence(self)

    def pages(self, *, full: bool = False) -> list[Page]:
        return [scores_page({"": self}, full=full)]

    def records(self) -> list[dict[str, Any]]:
        return bucket_rows(self.overall, self.by)


class RunScores(Result):
    """The scores of one or more runs, by name, and a line about their judge."""

    def __init__(self, of: Mapping[str, Scores], about: str = "") -> None:
        self.of, self._about = of, about

    def headline(self) -> str:
        return scores_headline(self.of)

    def pages(self, *, full: bool = False) -> list[Page]:
        if not any(scores.counts.scored for scores in self.of.values()):
            return []
        hint = "" if full else "--full also shows F1 by domain, events and elements."
        notes = [line for line in (self._about, hint) if line]
        return [scores_page(self.of, full=full, notes=notes)]

    def as_json(self) -> Any:
        return {name: scores.as_json() for name, scores in self.of.items()}


def scores_page(
    results: Mapping[str, Scores], *, full: bool = False, notes: Sequence[str] = ()
) -> Page:
    """Return the tables of runs; also F1 by domain, events and elements if `full`."""
    rows = [ScoreRow.of(one_line(name), scores) for name, scores in results.items()]
    views = VIEWS if full else VIEWS[:3]
    baseline = any(scores.settings.get("baseline") for scores in results.values())
    overall = [scores.overall.all for scores in results.values()]
    narrow = any(is_narrow(of.f1, of.n) for of in overall)
    return Page(
        [table for view in views for table in score_tables(view, rows)],
        legend=LEGEND,
        notes=[
            *(
                f"{one_line(name)}: {coverage(scores)}" if name else coverage(scores)
                for name, scores in results.items()
            ),
            *([FEW_VIDEOS_NOTE] if full and narrow else []),
            *notes,
        ],
        warnings=[BASELINE_NOTE] if baseline else [],
        signatures=list(dict.fromkeys(scores.signature for scores in results.values())),
    )


def scores_headline(results: Mapping[str, Scores]) -> str:
    """Return the F1 of a run, or of the best of several, in a sentence.

    Runs that were measured in different ways, or scored on different videos, have no best: the
    sentence is about the first one.
    """

    def value_of(item: tuple[str, Scores]) -> float:
        value = item[1].overall.all.f1.value
        return -1.0 if value is None else value

    name, best = max(results.items(), key=value_of)
    runs = f"{thousands(len(results))} runs"
    if len(results) > 1 and not any(scores.counts.scored for scores in results.values()):
        captioned = sum(scores.counts.captioned for scores in results.values())
        return f"none of {counted(captioned, 'caption')} of {runs} was scored."
    shown = percent(best.overall.all.f1.value)
    alike = sum(percent(scores.overall.all.f1.value) == shown for scores in results.values()) - 1
    several = highest_of(len(results), alike) if len(results) > 1 else ""
    why = ""
    if unlikeness({name: scores.signature for name, scores in results.items()}):
        why = "they were measured in different ways"
    elif any(scores.videos.keys() != best.videos.keys() for scores in results.values()):
        why = "they are scored on different videos"
    if why:
        name, best = next(item for item in results.items() if item[1].counts.scored)
        several = f", the first of {runs} (not ranked: {why})"
    return f"{one_line(name)}: {score_sentence(best, several)}"


def score_sentence(scores: Scores, several: str = "") -> str:
    """Return the F1 of a run in a sentence, with its place among `several`."""
    counts, f1 = scores.counts, scores.overall.all.f1
    if not counts.scored:
        return f"none of {counted(counts.captioned, 'caption')} was scored."
    judge = one_line(signature_parts(scores.signature)["judge"])
    if scores.settings.get("baseline"):
        judge = f"the baseline {judge}"
    value = "no F1" if f1.value is None else f"F1 {interval(f1)}"
    over = over_videos(counts.scored, counts.annotated, counts.captioned) + empty_captions(counts)
    return f"{value} {over}{several}, judged by {judge}."


def highest_of(runs: int, alike: int) -> str:
    """Return how the highest value compares with other runs, some of which share it.

    >>> highest_of(3, 0), highest_of(12, 1)
    (', the highest of 3 runs', ', the highest of 12 runs (shared with 1 other)')
    """
    shared = f" (shared with {counted(alike, 'other')})" if alike else ""
    return f", the highest of {thousands(runs)} runs{shared}"


def over_videos(scored: int, annotated: int, captioned: int) -> str:
    """Return the number of videos behind a value, in words.

    >>> over_videos(10, 10, 10), over_videos(997, 1000, 999), over_videos(1, 1, 1)
    ('over all 10 videos', 'over 997 of 1,000 videos (scored 997/999)', 'over 1 video')
    """
    if scored == annotated == 1:
        return "over 1 video"
    part = "all" if scored == annotated else f"{thousands(scored)} of"
    of_captioned = f" (scored {share(scored, captioned)})" if scored < captioned else ""
    return f"over {part} {counted(annotated, 'video')}{of_captioned}"


def empty_captions(counts: Counts) -> str:
    """Return the number of scored captions that are empty, to follow the number scored."""
    if not counts.empty:
        return ""
    return f", {counted(counts.empty, 'caption')} empty"


def coverage(scores: Scores) -> str:
    """Return the numbers of captioned and scored videos, and of events that have no match."""
    counts, unmatched = scores.counts, scores.unmatched_events
    parts = [
        f"captioned {share(counts.captioned, counts.annotated)}",
        f"scored {share(counts.scored, counts.captioned)}{empty_captions(counts)}",
    ]
    if unmatched.share is not None:
        parts.append(f"{percent(unmatched.share)}% of caption events unmatched")
    if scores.repeat_spread:
        spread = scores.repeat_spread
        parts.append(
            f"{spread.repeats} repeats: F1 sd {hundredths(spread.f1_sd)}, "
            f"{percent(spread.unanimous)}% of elements unanimous"
        )
    return ", ".join(parts)


def score_tables(view: str, rows: Sequence[ScoreRow], *, published: bool = False) -> list[Table]:
    """Return the table of a view; none where no run has a domain.

    Parameters
    ----------
    published : rows of a paper, whose numbers of videos and intervals are not known
    """
    ranked = [row.rank is not None for row in rows]
    if view == "overall":
        return [_overall(rows, ranked, published=published)]
    found_in = {place for row in rows for place in row.cells}
    places = places_of(view) or sorted(place for place in found_in if place[0] == view)
    if not places:
        return []
    triple = view in ("type", "visual_characteristic")
    kind = PRF if triple else F1
    found: list[tuple[Column, Sequence[Any]]] = [
        (_run(published=published, under="" if published else "n"), [row.name for row in rows])
    ]
    for place in places:
        of_type, name = view == "type", place[1]
        column = Column(
            name.title() if of_type else cut(one_line(name), 30),
            under="" if published else _count(rows, place),
            kind=kind,
            key=name if of_type else f"{view}.{name}",
        )
        found.append((column, marked(column, [row.cells.get(place) for row in rows], ranked)))
    empty = any(place not in row.cells for row in rows for place in places)
    title = f"By {WAYS[view].title}: {'precision/recall/F1' if triple else 'F1'}, %"
    title += "" if published else "; n: scored videos"
    return [
        table_of(title, found, f"{NOTHING}: no scored video" if empty and not published else "")
    ]


def _run(*, published: bool, under: str = "") -> Column:
    return Column("Run", words=True, under=under, kind=NAMES[published], key="run")


def _count(rows: Sequence[ScoreRow], place: Place) -> str:
    counts = {row.cells.get(place, NO_SCORES).n for row in rows}
    return NOTHING.join(map(thousands, dict.fromkeys((min(counts), max(counts)))))


_PARAMETERS = Kind(billions)
LEGEND = {"mean_words": "Words: the mean length of the scored captions."}
"""What the columns of these tables mean, by key."""


def about_rows(
    rows: Sequence[ScoreRow], *, published: bool = False
) -> list[tuple[Column, Sequence[Any]]]:
    """Return the first columns of a table of runs: their identity and coverage."""
    unknown = [None] * len(rows)
    captioned: Sequence[Any] = [
        None if row.captioned is None else (row.captioned, row.annotated) for row in rows
    ]
    if all(row.captioned in (None, row.annotated) for row in rows):
        captioned = unknown
    scored = [None if row.captioned is None else (row.scored, row.captioned) for row in rows]
    empty = [row.empty for row in rows] if any(row.empty for row in rows) else unknown
    return [
        (Column("#", kind=COUNT, key="rank"), [row.rank for row in rows]),
        (_run(published=published), [row.name for row in rows]),
        (Column("Frames", words=True, kind=LINE, key="frames"), [row.frames for row in rows]),
        (Column("Params", kind=_PARAMETERS, key="parameters"), [row.parameters for row in rows]),
        (Column("Captioned", kind=SHARE, key="captioned"), captioned),
        (Column("Scored", kind=SHARE, key="scored"), scored),
        (Column("Empty", kind=COUNT, key="empty"), empty),
    ]


WORDS = Column("Words", kind=Kind(tenths), key="mean_words")
"""The mean number of words of the scored captions."""


def _overall(rows: Sequence[ScoreRow], ranked: Sequence[bool], *, published: bool) -> Table:
    overall = [row.overall for row in rows]
    f1 = Column("F1" if published else "F1 [95%]", kind=VALUE if published else INTERVAL, key="f1")
    found: list[tuple[Column, Sequence[Any]]] = [
        *about_rows(rows, published=published),
        (Column("P", kind=VALUE, key="precision"), [of.precision for of in overall]),
        (Column("R", kind=VALUE, key="recall"), [of.recall for of in overall]),
        (f1, marked(f1, [of.f1 for of in overall], ranked)),
        (WORDS, [row.words for row in rows]),
    ]
    bare = any(of.f1.value is not None and of.f1.low is None for of in overall)
    note = NO_INTERVAL_NOTE if bare and not published else ""
    return table_of("Overall: precision, recall and F1, %", found, note).known()
