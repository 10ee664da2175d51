"""Graded runs in sections that may be compared, and published tables after them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from capeval.errors import CapevalError, InputError
from capeval.files.jsonl import dumps
from capeval.mcq.breakdown import MAIN_WAYS, ORDERS
from capeval.mcq.find_run import all_grades
from capeval.mcq.graded_run import GradedRun, GroupAccuracy, read_graded_run, shown_by
from capeval.reporting.mcq_leaderboard.published import (
    PublishedNote,
    PublishedTable,
    read_published_accuracies,
)
from capeval.reporting.mcq_names import benchmark_name
from capeval.text import counted, listed

LEAST_SCORED = 0.99
"""Runs with fewer of their questions scored have no rank, as in `capeval leaderboard`: the others
may be the harder ones."""


@dataclass(frozen=True)
class McqEntry:
    """A run, a published row or a baseline.

    Attributes
    ----------
    cells : accuracies by the section's columns
    overall : None where there is none, as in the study of answer selection
    scored, asked : numbers of questions; None where they are not known
    """

    name: str
    model: str | None
    frames: str
    path: Path | None
    overall: GroupAccuracy | None
    cells: Mapping[str, GroupAccuracy]
    scored: int | None = None
    asked: int | None = None
    rank: int | None = None
    diagnostic: bool = False
    """Whether it saw less than the video: one frame, shuffled frames or none. It has no rank."""


@dataclass(frozen=True)
class McqSection:
    """Entries over the same questions, best first.

    Attributes
    ----------
    by : the tag whose groups are the columns
    about : how the replies were read, or where the numbers are from
    questions : of each column, where all entries have the same
    baselines : rows that are no model
    counts : whether the cells are numbers of replies
    decimals : of percentages, as printed at the source
    """

    benchmark: str
    title: str
    about: str
    by: str | None
    columns: tuple[str, ...]
    questions: tuple[int, ...]
    entries: tuple[McqEntry, ...]
    baselines: tuple[McqEntry, ...] = ()
    published: bool = False
    counts: bool = False
    decimals: int = 1
    footnotes: tuple[PublishedNote, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class McqLeftOut:
    """A grades.json that is not shown."""

    path: Path
    reason: str


@dataclass(frozen=True)
class McqLeaderboard:
    """Sections, those of the user's own runs first, and files that were left out."""

    sections: tuple[McqSection, ...]
    left_out: tuple[McqLeftOut, ...]


def make_mcq_leaderboard(
    named: Sequence[Path] = (),
    *,
    runs: Path,
    by: str | None = None,
    published: bool = False,
) -> McqLeaderboard:
    """Gather the graded runs under `runs`, and those in `named`.

    Raises
    ------
    InputError
        A run in `named` cannot be read, or there is nothing to show.
    """
    asked = {path.resolve() for path in named}
    found: list[GradedRun] = []
    left: list[McqLeftOut] = []
    for path in {file.resolve(): file for file in (*named, *all_grades(runs))}.values():
        try:
            found.append(read_graded_run(path))
        except CapevalError as fault:
            if path.resolve() in asked:
                raise
            left.append(McqLeftOut(path, str(fault)))
    sections = _sections(found, by)
    if published:
        sections += [_published(table) for table in read_published_accuracies()]
    if not sections and not left:
        raise InputError("has no graded run; grade one with `capeval mcq grade`", file=runs)
    return McqLeaderboard(tuple(sections), tuple(left))


# ---- The user's own runs ---------------------------------------------------------------------

_BASELINES = {"frequent": "frequent choice"}
_COLUMNS = {**MAIN_WAYS, "video-mme": "duration"}
# Settings that may differ within a section. `select` is "all" where strategies were compared, and
# `strategy` then says which of them the accuracy is of.
_OWN = {"model", "resamples", "seed", "select"}


def _sections(runs: Sequence[GradedRun], by: str | None) -> list[McqSection]:
    groups: dict[tuple[str, str, str], list[GradedRun]] = {}
    for run in runs:
        how = {name: value for name, value in run.settings.items() if name not in _OWN}
        ids = sorted(f"{one.benchmark}\t{one.id}" for one in run.answers)
        key = (run.benchmark, dumps(how), hashlib.sha256("\n".join(ids).encode()).hexdigest())
        groups.setdefault(key, []).append(run)
    found = [_section(members, by) for members in groups.values()]
    return sorted(found, key=lambda s: (s.benchmark, -len(s.entries), s.about))


def _section(runs: Sequence[GradedRun], by: str | None) -> McqSection:
    benchmark = runs[0].benchmark
    way = by or _COLUMNS.get(benchmark) or next(iter(runs[0].by), None)
    names = dict.fromkeys(name for run in runs for name in run.by.get(str(way), {}))
    order = {name: at for at, name in enumerate(ORDERS.get(str(way), ()))}
    columns = tuple(sorted(names, key=lambda name: order.get(name, len(order))))
    repeated = Counter(run.name for run in runs)
    entries = [_entry(run, str(way), repeated[run.name] > 1) for run in runs]
    ranked = _ranked(entries)
    notes = []
    if unranked := [one.name for one in ranked if one.rank is None and not one.diagnostic]:
        notes.append(f"Not ranked, fewer than 99% of the questions are scored: {listed(unranked)}")
    if by and not columns:
        notes.append(f"no run is broken down by {by}; grade with `capeval mcq grade --by {by}`")
    counts = [
        tuple(run.by[str(way)][c].n if c in run.by.get(str(way), {}) else 0 for c in columns)
        for run in runs
    ]
    return McqSection(
        benchmark=benchmark,
        title=_title(benchmark, len(runs[0].answers)),
        about=f"replies read by {runs[0].read_by}",
        by=way if columns else None,
        columns=columns,
        questions=counts[0] if len({*counts}) == 1 else (),
        entries=tuple(ranked),
        baselines=tuple(_baselines(runs, str(way), columns)),
        notes=tuple(notes),
    )


def _title(benchmark: str, questions: int) -> str:
    if benchmark in ("", "own"):
        return counted(questions, "own question" if benchmark else "question")
    return f"{benchmark_name(benchmark)}, {counted(questions, 'question')}"


def _entry(run: GradedRun, way: str, repeated: bool) -> McqEntry:
    shown = {s for one in run.answers if (s := shown_by(one.frames))}
    labels = sorted({one.label for one in shown})
    return McqEntry(
        name=f"{run.name} ({run.path})" if repeated else run.name,
        model=run.model,
        frames=" and ".join(labels) if len(labels) < 3 else "several",
        path=run.path,
        overall=run.overall,
        cells=run.by.get(way, {}),
        scored=sum(one.correct is not None for one in run.answers),
        asked=len(run.answers),
        diagnostic=bool(shown) and all(one.role != "multi" for one in shown),
    )


def _baselines(runs: Sequence[GradedRun], way: str, columns: Sequence[str]) -> list[McqEntry]:
    """Return the baselines over the same questions, such as chance."""
    widest = max(runs, key=lambda run: run.overall.n)
    of = widest.by.get(way, {})
    found = []
    for name, value in widest.overall.baselines.items():
        if value is None:
            continue
        cells = {
            column: _plain(of[column].baselines.get(name), of[column].n)
            for column in columns
            if column in of
        }
        overall = _plain(value, widest.overall.n)
        found.append(McqEntry(_BASELINES.get(name, name), None, "", None, overall, cells))
    return found


def _ranked(entries: Sequence[McqEntry]) -> list[McqEntry]:
    """Return entries best first; ties share a rank; those with few questions scored come last."""
    whole: list[McqEntry] = []
    part: list[McqEntry] = []
    for one in sorted(entries, key=lambda e: (e.diagnostic, -_value(e), e.name)):
        few = one.asked is not None and (one.scored or 0) < LEAST_SCORED * one.asked
        without = one.overall is None or one.overall.value is None
        (part if few or without or one.diagnostic else whole).append(one)
    values = [_value(one) for one in whole]
    return [
        *(replace(one, rank=values.index(_value(one)) + 1) for one in whole),
        *(replace(one, rank=None) for one in part),
    ]


def _value(entry: McqEntry) -> float:
    if entry.overall is None or entry.overall.value is None:
        return -1.0
    return entry.overall.value


# ---- Published tables ------------------------------------------------------------------------


def _published(table: PublishedTable) -> McqSection:
    rows = [
        (
            row.baseline,
            McqEntry(
                name=row.model,
                model=row.model,
                frames=row.frames,
                path=None,
                overall=None
                if row.overall is None
                else _plain(row.overall, table.overall_questions),
                cells={
                    column: _plain(cell, n)
                    for column, cell, n in zip(
                        table.columns,
                        row.cells,
                        table.questions or [table.overall_questions] * len(table.columns),
                        strict=True,
                    )
                },
            ),
        )
        for row in table.rows
    ]
    models = [row for is_baseline, row in rows if not is_baseline]
    return McqSection(
        benchmark=table.benchmark,
        title=f"Published: {table.title}",
        about=table.about,
        by=table.by,
        columns=table.columns,
        questions=table.questions,
        # Without an overall accuracy there is nothing to rank by: the order is the source's.
        entries=tuple(_ranked(models) if table.questions else models),
        baselines=tuple(row for is_baseline, row in rows if is_baseline),
        published=True,
        counts=table.counts,
        decimals=table.decimals,
        footnotes=table.footnotes,
        notes=(f"† published, not computed here: {table.citation}",),
    )


def _plain(value: float | None, n: int) -> GroupAccuracy:
    return GroupAccuracy(value, None, None, n, {})
