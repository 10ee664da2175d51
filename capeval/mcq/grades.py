"""Graded responses: `grades.json`, its tables, and how later steps read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from capeval.errors import InputError
from capeval.files.jsonl import parse_json, read_text, validated
from capeval.mcq.responses import RESPONSES, question_runs
from capeval.mcq.tags import benchmark_name, way_name
from capeval.runs.resolve import RUNS, locate
from capeval.runs.sources import tested_model_warnings
from capeval.schema import Frozen, Tag
from capeval.show.numbers import percent, place_name, points, share, thousands
from capeval.show.result import Result
from capeval.show.table import (
    COUNT,
    INTERVAL,
    PERCENT,
    SHARE,
    Column,
    Kind,
    Page,
    Row,
    Table,
    interval_kind,
)
from capeval.stats.values import Coefficient
from capeval.text import counted, cut, listed, one_line

GRADES = "grades.json"


class Group(Frozen):
    """The result of a group of questions; a reply without an answer is wrong.

    `n` replies count; `accuracy_answered` is over the replies with an answer. `baselines` are the
    accuracies of chance and of always choosing the most common letter.
    """

    accuracy: Coefficient
    n: int
    correct: int
    answered: int
    accuracy_answered: float | None
    by_chance: int
    videos: int
    baselines: dict[str, float | None]


class ReplyCounts(Frozen):
    """The numbers of responses of each kind.

    `missing` questions have no response; `failed` responses, such as failed calls, are not graded,
    and all others are `scored`. A convention may leave out some of them, so that fewer are
    `counted`. `unlike_exact` are read differently by `exact`.
    """

    questions: int
    responses: int
    missing: int
    failed: int
    scored: int
    empty: int
    answered: int
    no_answer: int
    by_chance: int
    counted: int
    unlike_exact: int


@dataclass(slots=True)
class GradedItem:
    """One response and how it was graded; `correct` is None if it is not counted.

    The temporal diagnostics compare runs by `frames` and `tags`, which come from the response.
    """

    id: str
    benchmark: str
    video: str
    answer: str
    choice: str | None
    correct: bool | None
    rule: str
    by_chance: bool
    exact: str | None
    reply: str | None
    reason: str | None
    frames: Mapping[str, Any]
    tags: Mapping[str, Tag]


class Grades(Result, Frozen):
    """The accuracy of one model's responses: `grades.json`.

    `changes` maps a flag to the accuracy where it is true divided by that where false, minus 1;
    `decided_by` the number of replies by rule; `strategies` the grades by every strategy with
    `--select all`.
    """

    screen: ClassVar = 40

    signature: str
    settings: dict[str, Any]
    counts: ReplyCounts
    overall: Group
    by: dict[str, dict[str, Group]]
    changes: dict[str, Coefficient] = Field(default_factory=dict)
    decided_by: dict[str, int]
    baselines: dict[str, Any]
    strategies: list[Grades] = Field(default_factory=list)
    items: list[GradedItem]

    def __repr__(self) -> str:
        # The items of a benchmark would fill megabytes.
        return f"Grades({self.signature!r})"

    def headline(self) -> str:
        counts, overall, how = self.counts, self.overall, self.settings["strategy"]
        what = ", ".join(map(benchmark_name, sorted({item.benchmark for item in self.items})))
        what = what[:1].upper() + what[1:]
        if not overall.n:
            why = f"{thousands(counts.failed)} unscored, {thousands(counts.scored)} unread"
            of = thousands(counts.responses)
            return f"{what}: no accuracy ({how}): of {of} responses, {why}."
        parts = {
            f"{thousands(counts.no_answer)} without an answer": counts.no_answer,
            f"{thousands(counts.by_chance)} by chance": counts.by_chance,
            f"{counted(counts.failed, 'response')} unscored": counts.failed,
            f"{counted(counts.missing, 'question')} without a response": counts.missing,
        }
        there = ", ".join(text for text, count in parts.items() if count)
        found = overall.accuracy
        ends = "" if found.low is None else f" [{percent(found.low)}, {percent(found.high)}]"
        right = f"{share(overall.correct, overall.n)} replies"
        if counts.counted < counts.scored:
            right += " that are read"
        rest = f"; {there}" if there else ""
        return f"{what}: accuracy {percent(found.value)}%{ends}, {right} ({how}){rest}."

    def pages(self, *, full: bool = False) -> list[Page]:
        tables = [_strategies(self)] if self.strategies else []
        tables.append(_groups(self, [way for way in self.by if full or _divides(self, way)]))
        if self.changes:
            tables.append(_changes(self))
        reasons = Counter(item.reason for item in self.items if item.reason)
        warnings = [
            f"Unscored: {counted(number, 'response')}: {one_line(reason, 200)}"
            for reason, number in reasons.most_common(3)
        ]
        return [Page(tables, notes=_notes(self), warnings=warnings, signatures=[self.signature])]


class GradedRun(Grades):
    """The grades of one run as later steps read them; `path` is their file."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.parent.name if self.path.name == GRADES else self.path.stem

    @property
    def model(self) -> str | None:
        return self.settings.get("model")

    @property
    def warnings(self) -> list[str]:
        tags = (one.tags for one in self.items)
        return tested_model_warnings(self.name, "questions", tags, [self.model])

    @property
    def read_by(self) -> str:
        """How the replies became answers: the strategy, and the benchmark's convention."""
        strategy, convention = self.settings.get("strategy"), self.settings.get("as")
        return f"{strategy}, as {convention}" if convention else str(strategy)

    @property
    def benchmark(self) -> str:
        return "+".join(dict.fromkeys(one.benchmark for one in self.items))


def read_graded_run(path: Path) -> GradedRun:
    """Read one grades.json; InputError if it is not one."""
    if path.suffix == ".jsonl":
        how = f"capeval mcq grade {path} --out grades.json"
        raise InputError(f"has responses, not grades; to grade them: {how}", file=path)
    found = validated(Grades, parse_json(read_text(path), file=path), file=path, where="")
    return GradedRun.model_construct(path=path, **dict(found))


def find_grades(name_or_path: str | Path, runs: Path = RUNS) -> Path:
    """Return the grades.json of a name or a path; there must be one."""
    path = locate(
        name_or_path,
        runs,
        lambda place: bool(_grades_in(place)),
        "a graded run",
        folders=question_runs(runs),
    )
    if not path.is_dir():
        return path
    found = _grades_in(path)
    if not found:
        how = f"write it with `capeval mcq grade {path}`"
        raise InputError(f"has no {GRADES}; {how}", file=path)
    if len(found) > 1:
        raise InputError(f"has several graded runs; name one of {listed(found)}", file=path)
    return found[0]


def all_grades(runs: Path = RUNS) -> list[Path]:
    if not runs.is_dir():
        return []
    places = [*question_runs(runs), *(place for place in runs.iterdir() if place.is_dir())]
    return sorted({file for place in places for file in _grades_in(place)})


def grades_file(responses: Path) -> Path | None:
    """Return the file for the grades of a run's responses; None for other responses."""
    return responses.with_name(GRADES) if responses.name == RESPONSES else None


def _grades_in(place: Path) -> list[Path]:
    return [place / GRADES] if (place / GRADES).is_file() else sorted(place.glob(f"*/{GRADES}"))


class Seen(NamedTuple):
    """The view of a video that a model had, and its name in tables."""

    role: Literal["multi", "single", "picked", "shuffled", "blind"]
    label: str


def shown_by(frames: Mapping[str, Any]) -> Seen | None:
    """Return the view that the recorded frames of a response show; None if they show none.

    >>> shown_by({"policy": "16", "order": "shuffled", "indices": [9, 0, 18]})
    Seen(role='shuffled', label='16 shuffled')
    >>> shown_by({"policy": "single column:best", "single": "column:best", "indices": [9]})
    Seen(role='picked', label='picked frame')
    """
    policy, single = frames.get("policy"), frames.get("single")
    if not isinstance(policy, str):
        return None
    if policy == "none":
        return Seen("blind", "no frame")
    if isinstance(single, str):
        if single.startswith("column:"):
            return Seen("picked", "picked frame")
        return Seen("single", f"{single} frame")
    if policy == "1":
        return Seen("single", "middle frame")
    if frames.get("order") == "shuffled":
        return Seen("shuffled", f"{policy} shuffled")
    return Seen("multi", counted(int(policy), "frame") if policy.isdecimal() else cut(policy, 20))


# ---- The tables ----------------------------------------------------------------------------------

_QUESTIONS = Column("Questions", words=True)
_ACCURACY = Column("Accuracy [95% CI]", kind=INTERVAL)
_STRATEGIES = [
    Column("Strategy", words=True),
    _ACCURACY,
    Column("Answered", kind=SHARE),
    Column("Of answered", kind=PERCENT),
    *(Column(name, kind=COUNT) for name in ("Guessed", "Unscored", "≠ exact")),
]
_GROUPS = [
    _QUESTIONS,
    Column("Right", kind=SHARE),
    _ACCURACY,
    *(Column(name, kind=PERCENT) for name in ("Of answered", "Chance", "Frequent")),
]
# A relative change without an interval is of too few videos, which the accuracies show.
_CHANGE = Kind(
    lambda of: points(of.value),
    after=lambda of: "" if of.low is None else interval_kind(points).after(of),
    parts=INTERVAL.parts,
)
_CHANGES = [
    _QUESTIONS,
    *(Column(name, kind=PERCENT) for name in ("False", "True")),
    Column("Change in %", kind=_CHANGE),
]


def _divides(found: Grades, way: str) -> bool:
    groups = [*found.by[way].values()]
    return len(groups) > 1 or groups[0].n < found.overall.n


def _strategies(found: Grades) -> Table:
    rows: list[Row] = []
    for published in (False, True):
        sides = [one for one in found.strategies if one.settings["published"] is published]
        if published and sides:
            rows.append(["published readers"])
        rows += [
            [
                one.settings["strategy"],
                one.overall.accuracy,
                (one.overall.answered, one.overall.n),
                one.overall.accuracy_answered,
                one.overall.by_chance,
                one.counts.failed,
                one.counts.unlike_exact,
            ]
            for one in sides
        ]
    note = (
        "Accuracy in percent, over all replies. Guessed: chosen at random. ≠ exact: replies that "
        "exact reads differently."
    )
    return Table("Strategies", _STRATEGIES, rows, note)


def _groups(found: Grades, ways: Sequence[str]) -> Table:
    rows = [_row("all", found.overall)]
    for way in ways:
        groups = found.by[way]
        rows.append([way_name(way)])
        rows += [_row(name, group) for name, group in groups.items()]
    without = found.overall.accuracy.reason
    intervals = f"no intervals: {without}" if without else "intervals by bootstrap over videos"
    frequent = f"always {found.baselines['frequent']['letter']}, the most common right answer"
    note = f"Accuracy in percent; {intervals}. Frequent: {frequent}."
    return Table("Accuracy", _GROUPS, rows, note)


def _row(name: str, group: Group) -> Row:
    baselines = (group.baselines[one] for one in ("chance", "frequent"))
    right = (group.correct, group.n)
    return [place_name(name, 60), right, group.accuracy, group.accuracy_answered, *baselines]


def _changes(found: Grades) -> Table:
    rows: list[Row] = []
    for flag, change in found.changes.items():
        sides = (found.by[flag][side].accuracy.value for side in ("false", "true"))
        rows.append([way_name(flag), *sides, change])
    note = "Change: true divided by false, minus 1. False: all other questions of the set."
    return Table("Relative change", _CHANGES, rows, note)


def _notes(found: Grades) -> list[str]:
    counts = found.counts
    rules = ", ".join(f"{name} {thousands(number)}" for name, number in found.decided_by.items())
    scored = counted(counts.scored, "reply", "replies")
    unread = f"No answer: {thousands(counts.no_answer)} of {scored}."
    notes = [
        f"Decided by: {rules}. By chance: {thousands(counts.by_chance)}.",
        f"{unread} Empty replies: {thousands(counts.empty)}.",
    ]
    if found.settings["published"]:
        notes.append(
            f"{found.settings['strategy']} and exact read "
            f"{counted(counts.unlike_exact, 'reply', 'replies')} differently."
        )
    return notes
