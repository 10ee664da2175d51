"""Leaderboards: sections of ranked entries that may be compared, graded runs, published rows."""

from __future__ import annotations

import hashlib
import math
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from capeval.errors import CapevalError, InputError
from capeval.files.jsonl import dumps, read_text
from capeval.mcq.grades import GradedRun, Group, all_grades, read_graded_run, shown_by
from capeval.mcq.tags import MAIN_WAYS, ORDERS, benchmark_name, way_name
from capeval.runs.resolve import RUNS, readable, why_left_out
from capeval.scoring.scores import OVERALL, VIEWS, Place, ScoreRow, about_rows, highest_of
from capeval.show.numbers import NOTHING, hundredths, percent, thousands, whole_percent
from capeval.show.result import Format, Result, csv_text
from capeval.show.table import (
    Column,
    Kind,
    Page,
    Table,
    interval_kind,
    marked,
    natural_widths,
    one_screen,
    print_pages,
    table_of,
    with_more,
)
from capeval.text import Loss, counted, cut, one_line

if TYPE_CHECKING:
    from rich.console import Console

LEAST_SCORED = 0.99
"""A run with fewer of its videos or questions scored has no rank: the others may be harder."""

VIEWS_OF: dict[str, tuple[str, ...]] = {
    "overall": ("overall",),
    "types": ("overall", "type"),
    "characteristics": ("overall", "visual_characteristic"),
    "domain": ("overall", "domain"),
    "complexity": ("overall", "events", "elements"),
    "all": VIEWS,
}
"""The tables of judged runs by the value of --by."""

Unread = tuple[Path, CapevalError]
"""A file or folder that cannot be shown, and why."""

# Up to F1, which is the sixth; long names are broken to make room.
_FEWEST_COLUMNS = 6
_PUBLISHED = Path(__file__).with_name("published")


@dataclass(frozen=True)
class GroupAccuracy:
    """The accuracy of a group of questions with its 95% interval, and the baselines' accuracy."""

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    baselines: Mapping[str, float | None] = field(default_factory=dict)


T = TypeVar("T")


@dataclass(frozen=True)
class Section:
    """Entries that may be compared, best first.

    Attributes
    ----------
    tables : of all entries, by view
    page : the title, notes and warnings, without tables
    shared : fields that the records of all entries share
    headline : the best entry in a sentence without its end; empty where none has a value
    """

    entries: Sequence[ScoreRow]
    tables: Mapping[str, Table]
    page: Page
    shared: Mapping[str, Any]
    headline: str = ""
    published: bool = False

    def shown(self, by: str) -> list[Table]:
        return [table for view, table in self.tables.items() if view in VIEWS_OF[by]]

    def records(self, by: str = "all") -> list[dict[str, Any]]:
        """Return a flat record of each entry with its values in these tables, nothing rounded."""
        found = []
        of_tables = [table.records() for table in self.shown(by)]
        for number, (entry, *parts) in enumerate(zip(self.entries, *of_tables, strict=True)):
            record: dict[str, Any] = {**self.shared, "published": self.published}
            for part in parts:
                record |= part
            record |= {"model": entry.model, "path": entry.path and str(entry.path)}
            found.append(record | {"remark": self.page.remarks.get(number)})
        return found


@dataclass(frozen=True)
class Leaderboard(Result):
    """Sections: first the user's own runs, then published rows.

    Attributes
    ----------
    left_out : files and folders that cannot be shown, with the reasons
    about_runs : notices on runs that are shown
    by : which tables are shown; JSON has all
    """

    sections: tuple[Section, ...]
    left_out: tuple[Unread, ...] = ()
    about_runs: tuple[str, ...] = ()
    by: str = "overall"

    # Each section has a title, notes and a signature of its own.
    screen: ClassVar = 20

    def headline(self) -> str:
        several = len(self.sections) > 1
        for number, section in enumerate(self.sections, start=1):
            if section.headline:
                of = f" (section {number} of {len(self.sections)})" if several else ""
                return f"{section.headline}{of}."
        shown = sum(len(section.entries) for section in self.sections)
        if not shown:
            return f"No run can be shown: {thousands(len(self.left_out))} left out."
        return f"No run has a score: {counted(shown, 'run')}."

    def pages(self, *, full: bool = False) -> list[Page]:
        several = len(self.sections) > 1
        return [
            replace(
                section.page,
                title=(f"{number}. " if several else "") + section.page.title,
                tables=section.shown(self.by),
            )
            for number, section in enumerate(self.sections, start=1)
        ]

    def records(self) -> list[dict[str, Any]]:
        return self._records("all")

    def _records(self, by: str) -> list[dict[str, Any]]:
        return [
            {"section": number, **record}
            for number, section in enumerate(self.sections, start=1)
            for record in section.records(by)
        ]

    def notices(self) -> list[str]:
        left_out = [Loss(why_left_out(path, reason)) for path, reason in self.left_out]
        return [*self.about_runs, *left_out]

    def exit_code(self) -> int:
        return 3 if self.left_out else 0

    def show(self, console: Console, *, full: bool = False) -> None:
        pages = self.pages(full=full)
        if not full:
            for page in pages:
                page.tables = [_in_width(table, console.width) for table in page.tables]
            pages = one_screen(pages, lines=self.screen)
        print_pages(pages, console, headline=self.headline())

    def rendered(self, form: Format) -> str:
        return csv_text(self._records(self.by)) if form == "csv" else super().rendered(form)


def _in_width(table: Table, width: int) -> Table:
    """Return a table with the columns that fit unbroken, and the number of those left out."""
    ends = accumulate(natural_widths(table), lambda end, column: end + 1 + column)
    fitting = sum(end <= width for end in ends)
    left = len(table.columns) - max(fitting, _FEWEST_COLUMNS)
    if left <= 0:
        return table
    part = table.only(range(len(table.columns) - left))
    return replace(part, note=with_more(table.note, f"{counted(left, 'more column')}: --full"))


# ---- What both kinds of sections need -----------------------------------------------------------


def read_runs(
    load: Callable[[Path], T], named: Iterable[Path], found: Iterable[Path], left: list[Unread]
) -> list[T]:
    """Return the runs that can be read; a named run must be readable, `left` gets the others."""
    unique = {path.resolve(): path for path in named}.values()
    return [*map(load, unique), *readable(load, found, left)]


def with_ranks(
    entries: Iterable[ScoreRow],
    order: Callable[[ScoreRow], tuple[float, ...]],
    is_whole: Callable[[ScoreRow], bool] = lambda _: True,
) -> list[ScoreRow]:
    """Return entries best first; ties share a rank; incomplete entries come last, without one."""
    ordered = sorted(entries, key=lambda entry: (*order(entry), entry.name))
    whole = [entry for entry in ordered if is_whole(entry)]
    values = [order(entry) for entry in whole]
    first = [replace(entry, rank=values.index(order(entry)) + 1) for entry in whole]
    return [*first, *(entry for entry in ordered if not is_whole(entry))]


def downwards(value: float | None) -> float:
    """Return a number that sorts values from the highest, and missing values last."""
    return math.inf if value is None else -value


def not_ranked(what: str, names: Sequence[str]) -> list[str]:
    """Return a warning that names incomplete runs, if there are any."""
    least = whole_percent(LEAST_SCORED)
    line = f"Not ranked, fewer than {least} of the {what} are scored: {', '.join(names)}"
    return [line] if names else []


def standing(rows: Sequence[ScoreRow]) -> str:
    """Return the place of the first row among those with a rank, to follow its value."""
    ranks = [row.rank for row in rows if row.rank is not None]
    return highest_of(len(ranks), ranks.count(ranks[0]) - 1) if len(ranks) > 1 else ""


def read_published(name: Literal["captions", "questions"]) -> dict[str, Any]:
    """Return published numbers, as printed: `captions`, or the tables of `questions`."""
    return tomllib.loads(read_text(_PUBLISHED / f"{name}.toml"))


def fraction(printed: float | None) -> float | None:
    """Return a printed percentage as the decimal it is: 58.5 is 0.585, not 0.5850000000000001."""
    return None if printed is None else round(printed / 100, 6)


def published_page(title: str, source: Mapping[str, Any], rows: Sequence[ScoreRow]) -> Page:
    """Return the title, source and remarks of published rows; a remark belongs to one row."""
    known = source.get("remarks", {})
    return Page(
        [],
        title=title,
        about=source["about"],
        remarks={
            at: f"{row.name}: {known[row.name]}" for at, row in enumerate(rows) if row.name in known
        },
        warnings=[f"† published, not computed here: {source['citation']}"],
    )


# ---- The leaderboard of graded runs, and published tables of questions ---------------------------

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

# Published rows and baselines have no baselines of their own and no interval.
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
    """Rank graded runs by accuracy; the groups of the tag `by` are columns."""
    left: list[Unread] = []
    read = read_runs(read_graded_run, named, () if named else all_grades(runs), left)
    groups: dict[tuple[str, ...], list[GradedRun]] = {}
    for run in read:
        how = {name: value for name, value in run.settings.items() if name not in _OWN}
        ids = sorted(f"{one.benchmark}\t{one.id}" for one in run.items)
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
    benchmark, questions = runs[0].benchmark, len(runs[0].items)
    way = by or _COLUMNS.get(benchmark) or next(iter(runs[0].by), "")
    order = {name: at for at, name in enumerate(ORDERS.get(way, ()))}
    names = dict.fromkeys(name for run in runs for name in run.by.get(way, {}))
    groups = sorted(names, key=lambda name: order.get(name, len(order)))
    repeated = Counter(run.name for run in runs)
    rows = with_ranks(
        [_question_row(run, way, repeated[run.name] > 1) for run in runs],
        lambda row: (row.group != "", _accuracy(row)),
        lambda row: (
            not row.group
            and _accuracy(row) < math.inf
            and (row.scored or 0) >= LEAST_SCORED * (row.captioned or 0)
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
        warnings=[
            *not_ranked("questions", unranked),
            *(line for run in runs for line in run.warnings),
        ],
    )
    best, name = _overall(rows[0]), one_line(rows[0].name, 120)
    value = f"{percent(best.value)}%{_ACCURACY.after(best)}" if best else NOTHING
    lowered = way_name(way)[:1].lower() + way_name(way)[1:] if way else ""
    heading = f"Accuracy{f' by {lowered}' if groups else ''}, in percent"
    entries = [*rows, *_baselines(runs, way, groups)]
    under = [*next(iter(counts))] if len(counts) == 1 else []
    table = _question_table(heading, entries, [(way, name) for name in groups], under, _TENTHS)
    return Section(
        entries=entries,
        tables={"overall": table},
        page=page,
        shared={"benchmark": benchmark, "read_by": runs[0].read_by, "by": way if groups else None},
        headline=f"{name}: accuracy {value} on {one_line(title)}{standing(rows)}",
    )


def _overall(row: ScoreRow) -> GroupAccuracy | None:
    return row.cells.get(OVERALL)


def _accuracy(row: ScoreRow) -> float:
    overall = _overall(row)
    return downwards(None if overall is None else overall.value)


def _question_row(run: GradedRun, way: str, repeated: bool) -> ScoreRow:
    shown = {s for one in run.items if (s := shown_by(one.frames))}
    labels = sorted({one.label for one in shown})
    less = bool(shown) and all(one.role != "multi" for one in shown)
    asked = len(run.items) + run.counts.missing
    return ScoreRow(
        name=f"{run.name} ({run.path})" if repeated else run.name,
        cells={(way, name): _of_group(group) for name, group in run.by.get(way, {}).items()}
        | {OVERALL: _of_group(run.overall)},
        frames=(" and ".join(labels) if len(labels) < 3 else "several") or None,
        scored=sum(one.correct is not None for one in run.items),
        annotated=asked,
        captioned=asked,
        model=run.model,
        path=run.path,
        group="diagnostic" if less else "",
    )


def _baselines(runs: Sequence[GradedRun], way: str, groups: Sequence[str]) -> list[ScoreRow]:
    widest = max(runs, key=lambda run: run.overall.n)
    of = {name: group for name, group in widest.by.get(way, {}).items() if name in groups}
    return [
        ScoreRow(
            name="frequent choice" if name == "frequent" else name,
            cells={
                (way, g): GroupAccuracy(group.baselines.get(name), n=group.n)
                for g, group in of.items()
            }
            | {OVERALL: GroupAccuracy(value, n=widest.overall.n)},
            group="baseline",
        )
        for name, value in widest.overall.baselines.items()
        if value is not None
    ]


def _of_group(group: Group) -> GroupAccuracy:
    one = group.accuracy
    return GroupAccuracy(one.value, one.low, one.high, group.n, group.baselines)


def _question_table(
    title: str,
    entries: Sequence[ScoreRow],
    places: Sequence[Place],
    questions: Sequence[int],
    kind: Kind,
    *,
    published: bool = False,
) -> Table:
    """Return the table of a section; `questions` are those of each place, if all have the same."""
    ranked = [entry.rank is not None for entry in entries]
    overall = Column("Accuracy" if published else "Accuracy [95%]", kind=_ACCURACY, key="accuracy")
    found = about_rows(entries, published=published)
    found.append((overall, marked(overall, list(map(_overall, entries)), ranked)))
    for place, n in zip_longest(places, questions):
        under, name = "" if n is None else thousands(n), place[1]
        column = Column(cut(one_line(name), 30), under=under, kind=kind, key=name)
        found.append((column, marked(column, [one.cells.get(place) for one in entries], ranked)))
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
    def rows_of(kind: str) -> list[ScoreRow]:
        return [_published_row(table, name, kind) for name in table.get(kind, {})]

    models = rows_of("rows")
    # Without an overall accuracy there is nothing to rank by: the order is the source's.
    if "questions" in table:
        models = with_ranks(models, lambda row: (_accuracy(row),))
    entries = [*models, *rows_of("baselines")]
    counts, way = "counts" in table, table["by"]
    kind = _COUNTS if counts else _HUNDREDTHS if table.get("decimals") == 2 else _TENTHS
    best = _overall(models[0])
    return Section(
        entries=entries,
        tables={
            "overall": _question_table(
                "Replies" if counts else "Accuracy, in percent",
                *(
                    entries,
                    [(way, name) for name in table["columns"]],
                    table.get("questions", []),
                    kind,
                ),
                published=True,
            )
        },
        page=published_page(f"Published: {table['title']}", table, entries),
        shared={"benchmark": table["benchmark"], "read_by": table["about"], "by": table["by"]},
        headline=f"{models[0].name}: accuracy {percent(best.value)}% on "
        f"{benchmark_name(table['benchmark'])}, the highest of {len(models)} published models"
        if best
        else "",
        published=True,
    )


def _published_row(table: Mapping[str, Any], name: str, kind: str) -> ScoreRow:
    total = table["overall_questions"]
    numbers = [v if "counts" in table else fraction(v) for v in table[kind][name]]
    cells = {}
    if "questions" in table:
        cells[OVERALL] = GroupAccuracy(numbers.pop(), n=total)
    each = table.get("questions", [total] * len(numbers))
    for column, value, n in zip(table["columns"], numbers, each, strict=True):
        cells[table["by"], column] = GroupAccuracy(value, n=n)
    frames = table.get("frames", {}).get(name, table.get("usual_frames"))
    return ScoreRow(
        name=name,
        cells=cells,
        frames=frames,
        model=name,
        group="baseline" if kind == "baselines" else "",
    )
