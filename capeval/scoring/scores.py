"""The content of `scores.json`, and its tables of precision, recall and F1 as in the TUNA paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from capeval.schema import ELEMENT_TYPES, Usage
from capeval.scoring.counts import MEASURES, WAYS
from capeval.scoring.score_parts import (
    Breakdown,
    Bucket,
    Counts,
    Estimate,
    RepeatSpread,
    ResultModel,
    TypeScores,
    UnmatchedEvents,
    VideoScore,
    bucket_rows,
)
from capeval.scoring.signature import Signature, unlikeness
from capeval.show.numbers import (
    NOTHING,
    Bounded,
    billions,
    hundredths,
    interval,
    percent,
    share,
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
from capeval.stats import FEWEST_FOR_FAILURES, FEWEST_VIDEOS
from capeval.text import counted, cut, one_line

Place = tuple[str, str]
"""The way of grouping, and the group: ("type", "camera"), ("events", "3-4")."""

OVERALL: Place = ("overall", "all")
VIEWS = ("overall", *WAYS)


def places_of(way: str) -> list[Place]:
    """Return the places of a way whose groups are always the same."""
    return [(way, name) for name in WAYS[way].groups]


def scores_by(scores: Scores, way: str) -> dict[str, TypeScores]:
    """Return the scores of each type, or of all elements in each bucket of a way."""
    if way == "type":
        return {name: getattr(scores.overall, name) for name in ELEMENT_TYPES}
    return {name: bucket.all for name, bucket in getattr(scores.by, way).items()}


def means_of(scores: Scores) -> dict[Place, TypeScores]:
    """Return the means overall and of each group of every way, where there are videos."""
    found = {OVERALL: scores.overall.all}
    found |= {(way, name): of for way in WAYS for name, of in scores_by(scores, way).items()}
    return {place: of for place, of in found.items() if of.n}


BASELINE_NOTE = (
    "These are scores of a baseline judge: a smoke test, not a measurement. Do not report them."
)

NO_INTERVAL_NOTE = f"[{NOTHING}]: no interval, fewer than {FEWEST_VIDEOS} videos"
"""The note below a table in which a value has no interval."""

FEW_VIDEOS_NOTE = (
    f"Intervals from fewer than {FEWEST_FOR_FAILURES} videos can be too narrow: where 2-5% of "
    "strong captions fail altogether, those of F1 from 20 to 40 videos cover 86-91%, not 95%."
)
"""The note on such an interval, once per page."""


def is_narrow(mean: Bounded, n: int) -> bool:
    """Return whether a mean, or a difference of two, has an interval of so few videos."""
    return mean.low is not None and n < FEWEST_FOR_FAILURES


@dataclass(frozen=True)
class ScoreRow:
    """One run judged by one judge, or one row of a paper.

    `cells` are means over videos by place, those of a paper with n = 0. Only rows with a rank can
    have the best numbers marked. What is not known is None. `parameters` are in billions.
    """

    name: str
    cells: Mapping[Place, TypeScores]
    annotated: int | None = None
    captioned: int | None = None
    scored: int | None = None
    rank: int | None = None
    model: str | None = None
    frames: str | None = None
    parameters: float | None = None
    path: Path | None = None
    empty: int | None = None

    @property
    def overall(self) -> TypeScores:
        """The means over all videos and elements."""
        return self.cells.get(OVERALL, NO_SCORES)


NO_SCORES = TypeScores(**dict.fromkeys(MEASURES, Estimate(value=None)), n=0)
"""The scores of a place where nothing is scored."""


class Scores(Result, ResultModel):
    """The content of `scores.json`; fractions from 0 to 1 at full precision."""

    signature: str
    counts: Counts
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
        """Return a flat record for each bucket and type."""
        return bucket_rows(self.overall, self.by)


class RunScores(Result):
    """The scores of one or more runs, by name."""

    def __init__(self, of: Mapping[str, Scores]) -> None:
        self.of = of

    def headline(self) -> str:
        return scores_headline(self.of)

    def pages(self, *, full: bool = False) -> list[Page]:
        if not any(scores.counts.scored for scores in self.of.values()):
            return []
        hint = [] if full else ["--full also shows F1 by domain, events and elements."]
        return [scores_page(self.of, full=full, notes=hint)]

    def as_json(self) -> Any:
        return {name: scores.as_json() for name, scores in self.of.items()}


def scores_page(
    results: Mapping[str, Scores], *, full: bool = False, notes: Sequence[str] = ()
) -> Page:
    """Return the tables of runs; also F1 by domain, events and elements if `full`."""
    rows = [
        ScoreRow(
            name=one_line(name),
            cells=means_of(scores),
            annotated=scores.counts.annotated,
            captioned=scores.counts.captioned,
            scored=scores.counts.scored,
            empty=scores.counts.empty,
        )
        for name, scores in results.items()
    ]
    views = VIEWS if full else VIEWS[:3]
    baseline = any(scores.settings.get("baseline") for scores in results.values())
    overall = [scores.overall.all for scores in results.values()]
    narrow = any(is_narrow(of.f1, of.n) for of in overall)
    return Page(
        [table for view in views for table in score_tables(view, rows)],
        notes=[
            *(
                f"{one_line(name)}: {coverage(scores)}" if name else coverage(scores)
                for name, scores in results.items()
            ),
            *([FEW_VIDEOS_NOTE] if narrow else []),
            *notes,
        ],
        warnings=[BASELINE_NOTE] if baseline else [],
        signatures=list(dict.fromkeys(scores.signature for scores in results.values())),
    )


def scores_headline(results: Mapping[str, Scores]) -> str:
    """Return the F1 of a run, or of the best of several, in a sentence.

    Of runs that were measured in different ways, or are scored on different videos, none is the
    best: it is about the first.
    """

    def value_of(item: tuple[str, Scores]) -> float:
        value = item[1].overall.all.f1.value
        return -1.0 if value is None else value

    name, best = max(results.items(), key=value_of)
    runs = f"{thousands(len(results))} runs"
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
    judge = one_line(Signature.parse(scores.signature).get("judge") or "an unknown judge")
    if scores.settings.get("baseline"):
        judge = f"the baseline {judge}"
    value = "no F1" if f1.value is None else f"F1 {interval(f1)}"
    over = over_videos(counts.scored, counts.annotated, counts.captioned) + empty_captions(counts)
    return f"{value} {over}{several}, judged by {judge}."


def highest_of(runs: int, alike: int) -> str:
    """Return that a value is the highest of some runs, of which others have it too.

    >>> highest_of(3, 0), highest_of(12, 1)
    (', the highest of 3 runs', ', the highest of 12 runs (shared with 1 other)')
    """
    shared = f" (shared with {counted(alike, 'other')})" if alike else ""
    return f", the highest of {thousands(runs)} runs{shared}"


def over_videos(scored: int, annotated: int, captioned: int) -> str:
    """Return how many videos are behind a number, in words.

    >>> over_videos(10, 10, 10), over_videos(997, 1000, 999), over_videos(1, 1, 1)
    ('over all 10 videos', 'over 997 of 1,000 videos (scored 997/999)', 'over 1 video')
    """
    if scored == annotated == 1:
        return "over 1 video"
    part = "all" if scored == annotated else f"{thousands(scored)} of"
    of_captioned = f" (scored {share(scored, captioned)})" if scored < captioned else ""
    return f"over {part} {counted(annotated, 'video')}{of_captioned}"


def empty_captions(counts: Counts) -> str:
    """Return how many scored captions are empty, to follow how many are scored."""
    if not counts.empty:
        return ""
    return f", {counted(counts.empty, 'caption')} empty"


def coverage(scores: Scores) -> str:
    """Return how many videos are behind the numbers, and what the method could not check."""
    counts, unmatched = scores.counts, scores.unmatched_events
    parts = [
        f"captioned {share(counts.captioned, counts.annotated)}",
        f"scored {share(counts.scored, counts.captioned)}{empty_captions(counts)}",
    ]
    if unmatched.share is not None:
        parts.append(f"unmatched events {percent(unmatched.share)}%")
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
    names = [row.name for row in rows]
    ranked = [row.rank is not None for row in rows]
    if view == "overall":
        return [_overall(rows, names, ranked, published=published)]
    found_in = {place for row in rows for place in row.cells}
    places = places_of(view) or sorted(place for place in found_in if place[0] == view)
    if not places:
        return []
    triple = view in ("type", "visual_characteristic")
    kind = PRF if triple else F1
    found: list[tuple[Column, Sequence[Any]]] = [
        (_run(published=published, under="" if published else "n"), names)
    ]
    for place in places:
        under = "" if published else _count(rows, place)
        column = Column(_heading(place), under=under, kind=kind, key=_key(place))
        found.append((column, marked(column, [row.cells.get(place) for row in rows], ranked)))
    empty = any(place not in row.cells for row in rows for place in places)
    title = f"By {WAYS[view].title}: {'precision/recall/F1' if triple else 'F1'}, %"
    title += "" if published else "; n: scored videos"
    return [
        table_of(title, found, f"{NOTHING}: no scored video" if empty and not published else "")
    ]


def _run(*, published: bool, under: str = "") -> Column:
    return Column("Run", words=True, under=under, kind=NAMES[published], key="run")


def _heading(place: Place) -> str:
    way, name = place
    return name.title() if way == "type" else cut(one_line(name), 30)


def _key(place: Place) -> str:
    way, name = place
    return name if way == "type" else f"{way}.{name}"


def _count(rows: Sequence[ScoreRow], place: Place) -> str:
    """Return how many videos a column is of, from the fewest of a run to the most."""
    counts = {row.cells.get(place, NO_SCORES).n for row in rows}
    return NOTHING.join(map(thousands, dict.fromkeys((min(counts), max(counts)))))


_PARAMETERS = Kind(billions)


def _overall(
    rows: Sequence[ScoreRow], names: Sequence[str], ranked: Sequence[bool], *, published: bool
) -> Table:
    overall = [row.overall for row in rows]
    f1 = Column("F1" if published else "F1 [95%]", kind=VALUE if published else INTERVAL, key="f1")
    lead: list[tuple[Column, Sequence[Any]]] = [
        (Column("#", kind=COUNT, key="rank"), [row.rank for row in rows]),
        (_run(published=published), names),
        (Column("Frames", kind=LINE, key="frames"), [row.frames for row in rows]),
        (Column("Params", kind=_PARAMETERS, key="parameters"), [row.parameters for row in rows]),
        (Column("Captioned", kind=SHARE, key="captioned"), _shares(rows, "captioned", "annotated")),
        (Column("Scored", kind=SHARE, key="scored"), _shares(rows, "scored", "captioned")),
        (Column("Empty", kind=COUNT, key="empty"), [row.empty for row in rows]),
    ]
    if all(row.captioned in (None, row.annotated) for row in rows):
        del lead[4]
    if not any(row.empty for row in rows):
        lead = [one for one in lead if one[0].key != "empty"]
    # A column in which nothing is known takes room and says nothing.
    known = [one for one in lead if any(value is not None for value in one[1])]
    measures: list[tuple[Column, Sequence[Any]]] = [
        (Column("P", kind=VALUE, key="precision"), [of.precision for of in overall]),
        (Column("R", kind=VALUE, key="recall"), [of.recall for of in overall]),
        (f1, marked(f1, [of.f1 for of in overall], ranked)),
    ]
    bare = any(of.f1.value is not None and of.f1.low is None for of in overall)
    note = NO_INTERVAL_NOTE if bare and not published else ""
    return table_of("Overall: precision, recall and F1, %", [*known, *measures], note)


def _shares(rows: Sequence[ScoreRow], part: str, whole: str) -> list[tuple[int, int] | None]:
    pairs = [(getattr(row, part), getattr(row, whole)) for row in rows]
    return [None if None in pair else pair for pair in pairs]
