"""Leaderboards: sections of ranked entries that may be compared, and published rows after them."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from capeval.errors import CapevalError
from capeval.files.jsonl import read_text
from capeval.runs.resolve import readable, why_left_out
from capeval.scoring.scores import VIEWS, ScoreRow, highest_of
from capeval.show.numbers import thousands, whole_percent
from capeval.show.result import Format, Result, csv_text
from capeval.show.table import Page, Table, natural_widths, one_screen, print_pages, with_more
from capeval.text import Loss, counted

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

# The rank, the run and its main number.
_FEWEST_COLUMNS = 4
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
        """Return the tables of one value of --by."""
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
        """Return the values of all tables, each record with the number of its section."""
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
