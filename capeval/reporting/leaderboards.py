"""Leaderboards: judged runs by F1 or graded runs by accuracy, and published rows after them.

A board has sections of entries that may be compared. A section is tables of its ranked entries and
a page of what is said about them; every format is made of these (see `capeval.reporting.table`).
"""

from __future__ import annotations

import hashlib
import math
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any, Literal, TypeVar

from rich.console import Console

from capeval.captioners.catalogue import ModelEntry, read_catalogue
from capeval.config import CONFIG
from capeval.errors import CapevalError, InputError, UsageError
from capeval.files.annotations import annotations_hash
from capeval.files.jsonl import dumps
from capeval.files.reading import read_text, reading
from capeval.mcq.breakdown import MAIN_WAYS, ORDERS
from capeval.mcq.find_run import all_grades
from capeval.mcq.graded_run import GradedRun, GroupAccuracy, read_graded_run, shown_by
from capeval.reporting.calibrated_tables import with_calibrated
from capeval.reporting.formats import Format, csv_text, rendered
from capeval.reporting.mcq_names import benchmark_name, way_name
from capeval.reporting.numbers import (
    NOTHING,
    hundredths,
    interval,
    percent,
    share,
    thousands,
    whole_percent,
)
from capeval.reporting.score_tables import (
    BASELINE_NOTE,
    CHARACTERISTIC_PLACES,
    ELEMENT_PLACES,
    EVENT_PLACES,
    NAMES,
    OVERALL,
    TYPE_PLACES,
    VIEWS,
    Place,
    ScoreRow,
    View,
    means_of,
    over_videos,
    score_tables,
)
from capeval.reporting.table import (
    COUNT,
    SHARE,
    Column,
    Kind,
    Page,
    Table,
    interval_kind,
    marked,
    table_of,
    with_more,
)
from capeval.reporting.terminal import one_screen, print_pages
from capeval.runs.folder import RunFolder
from capeval.runs.judged_run import JudgedRun, load_judged
from capeval.runs.resolve import RUNS, find_judges
from capeval.runs.sources import annotations_file, annotations_named_by, annotations_of, run_around
from capeval.runs.verdicts import snapshots_notice, summarise
from capeval.scoring import AnnotationArrays, Estimate, Signature, TypeScores
from capeval.text import counted, cut, one_line

LEAST_SCORED = 0.99
"""A run with fewer of its videos or questions scored has no rank: the others may be harder."""

_VIEWS: dict[str, tuple[View, ...]] = {
    "overall": ("overall",),
    "types": ("overall", "types"),
    "characteristics": ("overall", "characteristics"),
    "domain": ("overall", "domain"),
    "complexity": ("overall", "events", "elements"),
    "all": VIEWS,
}
_PUBLISHED = Path(__file__).with_name("published")


@dataclass(frozen=True)
class QuestionRow:
    """A graded run, a published row or a baseline.

    Attributes
    ----------
    overall : the accuracy; None where there is none, as in the study of answer selection
    cells : accuracies by the section's columns
    scored, asked : numbers of questions; None where they are not known
    group : "diagnostic" if it saw less than the video: one frame, shuffled frames or none;
        "baseline" if it is no model. Neither has a rank.
    """

    name: str
    overall: GroupAccuracy | None
    cells: Mapping[str, GroupAccuracy]
    frames: str | None = None
    scored: int | None = None
    asked: int | None = None
    rank: int | None = None
    model: str | None = None
    path: Path | None = None
    group: Literal["", "diagnostic", "baseline"] = ""


Entry = ScoreRow | QuestionRow
EntryT = TypeVar("EntryT", bound=Entry)
T = TypeVar("T")


@dataclass(frozen=True)
class Section:
    """Entries that may be compared, best first.

    Attributes
    ----------
    tables : of all entries, by what they show
    page : what is said about the tables; it has none itself
    shared : fields that the records of all entries share
    headline : the best entry in a sentence without its end; empty where none has a value
    """

    entries: tuple[Entry, ...]
    tables: Mapping[str, Table]
    page: Page
    shared: Mapping[str, Any]
    headline: str = ""
    published: bool = False

    def records(self) -> list[dict[str, Any]]:
        """Return a flat record of everything known of each entry, fractions in full precision."""
        found = []
        of_tables = [table.records() for table in self.tables.values()]
        for number, (entry, *parts) in enumerate(zip(self.entries, *of_tables, strict=True)):
            record: dict[str, Any] = {**self.shared, "published": self.published}
            for part in parts:
                record |= part
            record |= {"model": entry.model, "path": entry.path and str(entry.path)}
            found.append(record | {"remark": self.page.remarks.get(number)})
        return found


@dataclass(frozen=True)
class Leaderboard:
    """Sections, those of the user's own runs first.

    Attributes
    ----------
    left_out : files and folders that cannot be shown, with the reasons
    notices : about runs that are shown
    """

    sections: tuple[Section, ...]
    left_out: tuple[tuple[Path, str], ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """The best entry of the first section that has a value, in a sentence."""
        several = len(self.sections) > 1
        for number, section in enumerate(self.sections, start=1):
            if section.headline:
                of = f" (section {number} of {len(self.sections)})" if several else ""
                return f"{section.headline}{of}."
        shown = sum(len(section.entries) for section in self.sections)
        if not shown:
            return f"No run can be shown: {thousands(len(self.left_out))} left out."
        return f"No run has a score: {counted(shown, 'run')}."

    def pages(self, by: str = "overall") -> list[Page]:
        """Return the sections as pages, numbered if there are several."""
        several = len(self.sections) > 1
        return [
            replace(
                section.page,
                title=(f"{number}. " if several else "") + section.page.title,
                tables=[table for view, table in section.tables.items() if view in _VIEWS[by]],
            )
            for number, section in enumerate(self.sections, start=1)
        ]

    def records(self) -> list[dict[str, Any]]:
        """Return the records of all sections, each with the number of its section."""
        return [
            {"section": number, **record}
            for number, section in enumerate(self.sections, start=1)
            for record in section.records()
        ]


def check_view(by: str) -> str:
    """Return what tables of judged runs are named by; UsageError if there are none."""
    if by not in _VIEWS:
        raise UsageError(f"--by: {by!r} must be one of {', '.join(_VIEWS)}")
    return by


def print_leaderboard(
    board: Leaderboard, console: Console, *, by: str = "overall", full: bool = False
) -> None:
    """Print a headline and the sections, each with its tables, notes and signature.

    Parameters
    ----------
    full : all rows and columns; otherwise as many as fill a screen
    """
    pages = board.pages(by)
    if not full:
        pages = [
            replace(page, tables=[_in_width(table, console.width) for table in page.tables])
            for page in pages
        ]
        pages = one_screen(pages, console.width, headline=board.headline)
    print_pages(pages, console, headline=board.headline)


def rendered_leaderboard(board: Leaderboard, form: Format, *, by: str = "overall") -> str:
    """Return the leaderboard as text; CSV and JSON have every number, whatever `by` is."""
    if form == "csv":
        return csv_text(board.records())
    if form == "json":
        return dumps(board.records(), indent=1)
    return rendered(board.pages(by), form, headline=board.headline)


def _in_width(table: Table, width: int) -> Table:
    """Return a table of questions with the columns that fit, and the number of those left out."""
    part, *rest = table.split(width, 1)
    if not rest or not any(column.kind in _QUESTION_KINDS for column in table.columns):
        return table
    more = f"{counted(len(table.columns) - len(part.columns), 'more column')}: --full"
    return replace(part, note=with_more(table.note, more))


def _read(
    load: Callable[[Path], T], named: Iterable[Path], found: Iterable[Path]
) -> tuple[list[T], list[tuple[Path, str]]]:
    """Return what was read and what was left out; what the user named must be readable."""
    read, left = [load(one) for one in {path.resolve(): path for path in named}.values()], []
    for one in found:
        try:
            with reading():
                read.append(load(one))
        except CapevalError as fault:
            left.append((one, str(fault)))
    return read, left


def _ranked(
    entries: Iterable[EntryT],
    order: Callable[[EntryT], tuple[float, ...]],
    is_whole: Callable[[EntryT], bool],
) -> list[EntryT]:
    """Return entries best first; ties share a rank; those of a part come last, without one."""
    ordered = sorted(entries, key=lambda entry: (*order(entry), entry.name))
    whole = [entry for entry in ordered if is_whole(entry)]
    values = [order(entry) for entry in whole]
    ranked = [replace(entry, rank=values.index(order(entry)) + 1) for entry in whole]
    return [*ranked, *(entry for entry in ordered if not is_whole(entry))]


def _downwards(value: float | None) -> float:
    """Return a number that sorts values from the highest, and those that are missing last."""
    return math.inf if value is None else -value


def _not_ranked(what: str, names: Sequence[str]) -> list[str]:
    least = whole_percent(LEAST_SCORED)
    line = f"Not ranked, fewer than {least} of the {what} are scored: {', '.join(names)}"
    return [line] if names else []


# ---- Judged runs -----------------------------------------------------------------------------

_COMPARED = ("capeval", "judge", "prompts", "reasoning", "repeats", "avg", "data")


@dataclass(frozen=True)
class _Judged:
    """A judged run as a row, and what decides its section: all of its annotations, not only the
    beginning of their hash that is in the signature.
    """

    row: ScoreRow
    signature: Mapping[str, str]
    baseline: bool
    data: str
    address: str
    notice: str | None


def caption_board(
    named: Sequence[str | Path] = (),
    *,
    runs: Path = RUNS,
    annotations: str | Path | None = None,
    published: bool = False,
) -> Leaderboard:
    """Rank judged runs by overall F1: those named, or every judge's scores of every run.

    Parameters
    ----------
    named : names of runs, folders of runs, or folders of judges
    annotations : for runs whose own annotations have been moved
    published : add the TUNA paper's models, in a section of their own

    Raises
    ------
    InputError
        A run in `named` does not exist or cannot be shown, or there is no run at all.
    """
    known: _References = {}
    load = partial(
        _judged, fallback=annotations, catalogue=read_catalogue(CONFIG), references=known
    )
    asked = [folder.path for name in named for folder in find_judges(name, runs)]
    found: list[Path] = []
    left: list[tuple[Path, str]] = []
    for run in () if named else RunFolder.all(runs):
        try:
            found += [folder.path for folder in run.judges()]
        except InputError as fault:
            left.append((run.path, str(fault)))
    read, unread = _read(load, asked, found)
    groups: dict[tuple[Any, ...], list[_Judged]] = {}
    for one in read:
        groups.setdefault((*one.signature.items(), one.data, one.baseline), []).append(one)
    sections = [_caption_section(members) for members in groups.values()]
    sections.sort(
        key=lambda s: (not s.headline, s.shared["baseline"], -len(s.entries), s.page.signatures)
    )
    if published:
        sections.append(_published_captions(sections))
    if not sections and not left and not unread:
        raise InputError("has no judged run; judge one with `capeval judge`", file=runs)
    notices = tuple(one.notice for one in read if one.notice)
    return Leaderboard(tuple(sections), (*left, *unread), notices)


_References = dict[int, tuple[AnnotationArrays, str]]
"""Annotations with their SHA-256, by the identity of what was loaded."""


def _judged(
    path: Path,
    *,
    fallback: str | Path | None,
    catalogue: Mapping[str, ModelEntry],
    references: _References,
) -> _Judged:
    run = load_judged(path, annotations=_annotations(path, fallback))
    # A hundred runs against one set of annotations: it is prepared once, and stays in memory.
    if id(run.annotations) not in references:
        prepared = AnnotationArrays(run.annotations), annotations_hash(run.annotations)
        references[id(run.annotations)] = prepared
    reference, data = references[id(run.annotations)]
    judgments = list(run.judgments.values())
    scores = summarise(reference, judgments, captioned=run.captioned, data=data, labels=run.labels)
    parts = dict(Signature.parse(scores.signature).parts)
    counts, settings = scores.counts, scores.settings
    row = ScoreRow(
        name=run.name if run.run else path.absolute().name,
        cells=means_of(scores),
        annotated=counts.annotated,
        captioned=counts.captioned,
        empty=counts.empty,
        scored=counts.scored,
        model=run.model,
        frames=run.frames or _policy(run),
        parameters=_parameters(run.model, catalogue),
        calibrated=scores.calibrated,
        path=path,
    )
    return _Judged(
        row=row,
        signature={name: parts[name] for name in _COMPARED if name in parts},
        baseline=settings["baseline"] is True,
        data=data,
        address=settings["base_url"] or "the judge's own endpoint",
        notice=snapshots_notice(row.name, settings["models"]),
    )


def _annotations(path: Path, fallback: str | Path | None) -> str | Path | None:
    """Return the annotations given for a run that has lost its own, if they are the same."""
    own, run = annotations_named_by(path), run_around(path)
    if fallback is None or (own is not None and annotations_file(own).exists()):
        return None
    known = run.read_manifest().get("annotations", {}).get("sha256") if run else None
    if known not in (None, annotations_hash(annotations_of(fallback))):
        raise InputError(f"was not judged against {fallback}", file=path)
    return fallback


def _policy(run: JudgedRun) -> str | None:
    """Return the sampling policy in the captions' own lines, if it is the same in all."""
    frames = [(caption.model_extra or {}).get("frames") for caption in run.captions.values()]
    policies = {one.get("policy") if isinstance(one, dict) else None for one in frames}
    policy = policies.pop() if len(policies) == 1 else None
    return policy if isinstance(policy, str) else None


def _parameters(model: str | None, catalogue: Mapping[str, ModelEntry]) -> float | None:
    """Return the billions of parameters of a model, by its name or hub id; None if not known."""
    wanted = (model or "").removeprefix("hf:")
    if wanted in catalogue:
        return catalogue[wanted].parameters
    hubs = (entry for entry in catalogue.values() if entry.hub)
    return next((e.parameters for e in hubs if str(e.hub).lower() == wanted.lower()), None)


def _order(row: ScoreRow) -> tuple[float, float]:
    return _downwards(row.overall.f1.value), _downwards(row.overall.recall.value)


def _is_whole(row: ScoreRow) -> bool:
    return row.scored is None or row.scored >= LEAST_SCORED * (row.annotated or 0)


def _caption_section(members: Sequence[_Judged]) -> Section:
    shared = {name: one_line(part) for name, part in members[0].signature.items()}
    baseline = members[0].baseline
    names = Counter(one.row.name for one in members)
    rows = _ranked(
        (
            replace(row, name=f"{row.name} ({row.path})") if names[row.name] > 1 else row
            for row in (one.row for one in members)
        ),
        _order,
        _is_whole,
    )
    parts = [
        f"{one_line(row.name)} (captioned {share(row.captioned, row.annotated)}, "
        f"scored {share(row.scored, row.captioned)})"
        for row in rows
        if row.rank is None
    ]
    addresses = sorted({one.address for one in members})
    effort = f", reasoning {shared['reasoning']}" if "reasoning" in shared else ""
    judge = ("the baseline " if baseline else "") + shared["judge"]
    page = Page(
        [],
        title=f"Runs judged by {judge}{effort}",
        about=", ".join(
            f"{key} {shared[key]}"
            for key in ("judge", "prompts", "reasoning", "repeats", "data")
            if key in shared
        ),
        notes=[f"judged at several endpoints: {', '.join(addresses)}"] if addresses[1:] else [],
        warnings=[*([BASELINE_NOTE] if baseline else []), *_not_ranked("videos", parts)],
        signatures=["|".join(f"{key}:{value}" for key, value in members[0].signature.items())],
    )
    best = rows[0]
    highest = f", the highest of {thousands(len(rows))} runs" if len(rows) > 1 else ""
    over = over_videos(best.scored or 0, best.annotated or 0, best.captioned or 0)
    headline = (
        f"{one_line(best.name)}: F1 {interval(best.overall.f1)} {over}{highest}, judged by {judge}"
    )
    return Section(
        entries=tuple(rows),
        tables=_score_tables(rows),
        page=with_calibrated(page, {row.name: row.calibrated for row in rows if row.calibrated}),
        shared={**shared, "sha256": members[0].data, "baseline": baseline},
        headline="" if best.overall.f1.value is None else headline,
    )


def _score_tables(rows: Sequence[ScoreRow], *, published: bool = False) -> dict[str, Table]:
    return {
        view: table for view in VIEWS for table in score_tables(view, rows, published=published)
    }


def _published_captions(own: Sequence[Section]) -> Section:
    paper = read_published("captions")
    rows = [
        ScoreRow(name, _paper_cells(paper, name), annotated=paper["videos"], frames=frames)
        for name, frames in paper["frames"].items()
    ]
    rows = _ranked(rows, _order, _is_whole)
    alike = [
        str(number)
        for number, section in enumerate(own, start=1)
        if (section.shared["judge"], section.shared["repeats"]) == (paper["judge"], "1")
        and "reasoning" not in section.shared
        and section.shared["data"].endswith(f"@{paper['videos']}")
    ]
    same = (
        f"section {' and '.join(alike)} has the same judge and as many videos; whether its prompts "
        "and annotations are the same as the paper's is not known"
    )
    page = Page(
        [],
        title="Published",
        about=paper["about"],
        remarks=_remarks(rows, paper),
        notes=[paper["note"], *([same] if alike else [])],
        warnings=[f"† published, not computed here: {paper['citation']}"],
    )
    f1 = percent(rows[0].overall.f1.value)
    return Section(
        entries=tuple(rows),
        tables=_score_tables(rows, published=True),
        page=page,
        shared={"judge": paper["judge"], "data": f"TUNA-1K@{paper['videos']}", "baseline": False},
        headline=f"{rows[0].name}: F1 {f1}, the highest of {len(rows)} published models; "
        "published, not computed here",
        published=True,
    )


def _paper_cells(paper: Mapping[str, Any], name: str) -> dict[Place, TypeScores]:
    # Tables 8 and 9 end with Overall, which is the same.
    places = (*TYPE_PLACES, OVERALL, *CHARACTERISTIC_PLACES, OVERALL)
    numbers = iter([*paper["table8"][name], *paper["table9"][name]])
    cells = {
        place: _means(*triple)
        for place, triple in zip(places, zip(numbers, numbers, numbers, strict=True), strict=True)
    }
    *f1, _ = paper["table10"][name]
    return cells | {
        place: _means(None, None, value)
        for place, value in zip((*EVENT_PLACES, *ELEMENT_PLACES), f1, strict=True)
    }


def _means(*printed: float | None) -> TypeScores:
    precision, recall, f1 = (Estimate(value=_fraction(v), low=None, high=None) for v in printed)
    return TypeScores(precision=precision, recall=recall, f1=f1, n=0)


def read_published(name: Literal["captions", "questions"]) -> dict[str, Any]:
    """Return what papers published, as printed: `captions`, or the tables of `questions`."""
    return tomllib.loads(read_text(_PUBLISHED / f"{name}.toml"))


def _fraction(printed: float | None) -> float | None:
    # The decimal that was printed: 58.5 is 0.585, not 0.5850000000000001.
    return None if printed is None else round(printed / 100, 6)


def _remarks(rows: Sequence[Entry], published: Mapping[str, Any]) -> dict[int, str]:
    known = published.get("remarks", {})
    return {
        at: f"{row.name}: {known[row.name]}" for at, row in enumerate(rows) if row.name in known
    }


# ---- Graded runs -----------------------------------------------------------------------------

_COLUMNS = {**MAIN_WAYS, "video-mme": "duration"}
_GROUPS = {"diagnostic": "One frame, shuffled frames or none", "baseline": "Baselines"}
# Settings that may differ within a section. `select` is "all" where strategies were compared, and
# `strategy` then says which of them the accuracy is of.
_OWN = {"model", "resamples", "seed", "select"}


def _accuracy_kind(number: Callable[[float], str]) -> Kind:
    return Kind(
        lambda of: NOTHING if of.value is None else number(of.value),
        parts=lambda of: {"": of.value, "_low": of.low, "_high": of.high, "_n": of.n},
    )


_TENTHS, _HUNDREDTHS = _accuracy_kind(percent), _accuracy_kind(hundredths)
_COUNTS = _accuracy_kind(thousands)
_QUESTION_KINDS = (_TENTHS, _HUNDREDTHS, _COUNTS)
# What is published, or a baseline, has no baselines of its own and no interval.
_ACCURACY = replace(
    _TENTHS, after=lambda of: interval_kind(percent).after(of) if of.baselines else ""
)


def question_board(
    named: Sequence[Path] = (),
    *,
    runs: Path = RUNS,
    by: str | None = None,
    published: bool = False,
) -> Leaderboard:
    """Rank graded runs by accuracy: those in `named`, or all under `runs`.

    Parameters
    ----------
    by : the tag whose groups are the columns

    Raises
    ------
    InputError
        A run in `named` cannot be read, or there is nothing to show.
    """

    read, left = _read(read_graded_run, named, () if named else all_grades(runs))
    groups: dict[tuple[str, ...], list[GradedRun]] = {}
    for run in read:
        how = {name: value for name, value in run.settings.items() if name not in _OWN}
        ids = sorted(f"{one.benchmark}\t{one.id}" for one in run.answers)
        key = (run.benchmark, dumps(how), hashlib.sha256("\n".join(ids).encode()).hexdigest())
        groups.setdefault(key, []).append(run)
    sections = [_question_section(members, by) for members in groups.values()]
    sections.sort(key=lambda s: (s.shared["benchmark"], -len(s.entries), s.page.about))
    if published:
        sections += map(_published_questions, read_published("questions")["tables"])
    if not sections and not left:
        raise InputError("has no graded run; grade one with `capeval mcq grade`", file=runs)
    return Leaderboard(tuple(sections), tuple(left))


def _question_section(runs: Sequence[GradedRun], by: str | None) -> Section:
    benchmark, questions = runs[0].benchmark, len(runs[0].answers)
    way = by or _COLUMNS.get(benchmark) or next(iter(runs[0].by), "")
    order = {name: at for at, name in enumerate(ORDERS.get(way, ()))}
    names = dict.fromkeys(name for run in runs for name in run.by.get(way, {}))
    groups = sorted(names, key=lambda name: order.get(name, len(order)))
    repeated = Counter(run.name for run in runs)
    rows = _ranked(
        [_question_row(run, way, repeated[run.name] > 1) for run in runs],
        lambda row: (row.group != "", _accuracy(row)),
        lambda row: (
            row.group == ""
            and row.overall is not None
            and row.overall.value is not None
            and (row.scored or 0) >= LEAST_SCORED * (row.asked or 0)
        ),
    )
    counts = {
        tuple(run.by[way][g].n if g in run.by.get(way, {}) else 0 for g in groups) for run in runs
    }
    own = benchmark in ("", "own")
    title = counted(questions, "own question" if benchmark else "question")
    title = title if own else f"{benchmark_name(benchmark)}, {counted(questions, 'question')}"
    missing = f"no run is broken down by {by}; grade with `capeval mcq grade --by {by}`"
    unranked = [one_line(row.name) for row in rows if row.rank is None and not row.group]
    page = Page(
        [],
        title=one_line(title),
        about=one_line(f"replies read by {runs[0].read_by}"),
        notes=[missing] if by and not groups else [],
        warnings=_not_ranked("questions", unranked),
    )
    ranked = sum(row.rank is not None for row in rows)
    highest = f", the highest of {thousands(ranked)} runs" if ranked > 1 else ""
    best = rows[0].overall
    value = f"{percent(best.value)}%{_ACCURACY.after(best)}" if best else NOTHING
    lowered = way_name(way)[:1].lower() + way_name(way)[1:] if way else ""
    heading = f"Accuracy{f' by {lowered}' if groups else ''}, in percent"
    entries = [*rows, *_baselines(runs, way, groups)]
    under = [*next(iter(counts))] if len(counts) == 1 else []
    table = _question_table(heading, entries, groups, under, _TENTHS)
    return Section(
        entries=tuple(entries),
        tables={"overall": table},
        page=page,
        shared={"benchmark": benchmark, "read_by": runs[0].read_by, "by": way if groups else None},
        headline=f"{one_line(rows[0].name, 120)}: accuracy {value} on {one_line(title)}{highest}",
    )


def _accuracy(row: QuestionRow) -> float:
    return _downwards(None if row.overall is None else row.overall.value)


def _question_row(run: GradedRun, way: str, repeated: bool) -> QuestionRow:
    shown = {s for one in run.answers if (s := shown_by(one.frames))}
    labels = sorted({one.label for one in shown})
    less = bool(shown) and all(one.role != "multi" for one in shown)
    return QuestionRow(
        name=f"{run.name} ({run.path})" if repeated else run.name,
        overall=run.overall,
        cells=run.by.get(way, {}),
        frames=(" and ".join(labels) if len(labels) < 3 else "several") or None,
        scored=sum(one.correct is not None for one in run.answers),
        asked=len(run.answers),
        model=run.model,
        path=run.path,
        group="diagnostic" if less else "",
    )


def _baselines(runs: Sequence[GradedRun], way: str, groups: Sequence[str]) -> list[QuestionRow]:
    """Return the baselines over the same questions, such as chance."""
    widest = max(runs, key=lambda run: run.overall.n)
    of = {name: group for name, group in widest.by.get(way, {}).items() if name in groups}
    return [
        QuestionRow(
            name="frequent choice" if name == "frequent" else name,
            overall=_plain(value, widest.overall.n),
            cells={g: _plain(group.baselines.get(name), group.n) for g, group in of.items()},
            group="baseline",
        )
        for name, value in widest.overall.baselines.items()
        if value is not None
    ]


def _plain(value: float | None, n: int) -> GroupAccuracy:
    return GroupAccuracy(value, None, None, n, {})


def _question_table(
    title: str,
    entries: Sequence[QuestionRow],
    groups: Sequence[str],
    questions: Sequence[int],
    kind: Kind,
    *,
    published: bool = False,
) -> Table:
    """Return the table of a section; `questions` are those of each group, if all have the same."""
    ranked = [entry.rank is not None for entry in entries]
    overall = Column("Accuracy" if published else "Accuracy [95%]", kind=_ACCURACY, key="accuracy")
    shares = [None if one.asked is None else (one.scored, one.asked) for one in entries]
    frames = Column("Frames", words=True, kind=Kind(lambda name: one_line(name, 40)), key="frames")
    run = Column("Run", words=True, kind=NAMES[published], key="run")
    found: list[tuple[Column, Sequence[Any]]] = [
        (Column("#", kind=COUNT, key="rank"), [one.rank for one in entries]),
        (run, [one.name for one in entries]),
        (frames, [one.frames for one in entries]),
        (Column("Scored", kind=SHARE, key="scored"), shares),
        (overall, marked(overall, [one.overall for one in entries], ranked)),
    ]
    for group, n in zip_longest(groups, questions):
        under = "" if n is None else thousands(n)
        column = Column(cut(one_line(group), 30), under=under, kind=kind, key=group)
        found.append((column, marked(column, [one.cells.get(group) for one in entries], ranked)))
    # Published tables do not say how many are scored, and some have no overall accuracy.
    table = table_of(title, found).known()
    parts = groupby(zip(entries, table.rows, strict=True), key=lambda pair: pair[0].group)
    table.rows = [
        row
        for part, pairs in parts
        for row in ([[_GROUPS[part]]] if part else []) + [row for _, row in pairs]
    ]
    return table


def _published_questions(table: Mapping[str, Any]) -> Section:
    def rows_of(kind: str) -> list[QuestionRow]:
        return [_published_row(table, name, kind) for name in table.get(kind, {})]

    models = rows_of("rows")
    # Without an overall accuracy there is nothing to rank by: the order is the source's.
    if "questions" in table:
        models = _ranked(models, lambda row: (_accuracy(row),), lambda _: True)
    entries = [*models, *rows_of("baselines")]
    counts = "counts" in table
    kind = _COUNTS if counts else _HUNDREDTHS if table.get("decimals") == 2 else _TENTHS
    best = models[0].overall
    return Section(
        entries=tuple(entries),
        tables={
            "overall": _question_table(
                "Replies" if counts else "Accuracy, in percent",
                *(entries, table["columns"], table.get("questions", []), kind),
                published=True,
            )
        },
        page=Page(
            [],
            title=f"Published: {table['title']}",
            about=table["about"],
            remarks=_remarks(entries, table),
            warnings=[f"† published, not computed here: {table['citation']}"],
        ),
        shared={"benchmark": table["benchmark"], "read_by": table["about"], "by": table["by"]},
        headline=f"{models[0].name}: accuracy {percent(best.value)}% on "
        f"{benchmark_name(table['benchmark'])}, the highest of {len(models)} published models"
        if best
        else "",
        published=True,
    )


def _published_row(table: Mapping[str, Any], name: str, kind: str) -> QuestionRow:
    """Return a row: one number for each column, then the overall accuracy if there is one."""
    total = table["overall_questions"]
    numbers = [v if "counts" in table else _fraction(v) for v in table[kind][name]]
    overall = _plain(numbers.pop(), total) if "questions" in table else None
    each = table.get("questions", [total] * len(numbers))
    frames = table.get("frames", {}).get(name, table.get("usual_frames"))
    return QuestionRow(
        name=name,
        overall=overall,
        cells=dict(zip(table["columns"], map(_plain, numbers, each), strict=True)),
        frames=frames,
        model=name,
        group="baseline" if kind == "baselines" else "",
    )
