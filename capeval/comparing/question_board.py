"""The leaderboard of graded runs, ranked by accuracy, and published tables."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any

from capeval.comparing.sections import (
    LEAST_SCORED,
    GroupAccuracy,
    Leaderboard,
    Section,
    Unread,
    downwards,
    fraction,
    not_ranked,
    published_page,
    read_published,
    read_runs,
    standing,
    with_ranks,
)
from capeval.errors import InputError
from capeval.files.jsonl import dumps
from capeval.mcq.grades import GradedRun, Group, all_grades, read_graded_run, shown_by
from capeval.mcq.tags import MAIN_WAYS, ORDERS, benchmark_name, way_name
from capeval.runs.resolve import RUNS
from capeval.scoring.scores import OVERALL, Place, ScoreRow, about_rows
from capeval.show.numbers import NOTHING, hundredths, percent, thousands
from capeval.show.table import Column, Kind, Page, Table, interval_kind, marked, table_of
from capeval.text import counted, cut, one_line

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
    """Return a row: one number for each column, then the overall accuracy if there is one."""
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
