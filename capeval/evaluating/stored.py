"""`capeval runs` and `capeval cache`: what is stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import KW_ONLY
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from capeval.errors import CapevalError
from capeval.llm.cache import STATE_NAMES, CacheInfo, ReplyCache
from capeval.options import FilePath, command, declares, runs_option, takes
from capeval.runs.folder import JudgeFolder, RunFolder
from capeval.schema import Frozen
from capeval.scoring.judged_run import load_judged
from capeval.scoring.scores import Counts, Estimate
from capeval.show.numbers import file_size
from capeval.show.result import Output, Result
from capeval.show.table import INTERVAL, SHARE, Kind, Page, Table, columns
from capeval.text import counted, one_line

_DATE = Kind(lambda value: f"{value:%Y-%m-%d %H:%M}")
_SIZE = Kind(file_size)


@declares
class RunsOptions:
    """The arguments of `capeval.list_runs`."""

    _: KW_ONLY
    runs: FilePath = runs_option()


class StoredRun(Frozen):
    """One judge's verdicts on a run: the date of the newest, and the size of the judge's folder.

    For an unjudged run, they are the captions' date and the run's size. Where the scores cannot be
    computed, `problem` says why.
    """

    run: str
    judge: str | None
    counts: Counts | None
    f1: Estimate | None
    signature: str | None
    problem: str
    date: datetime
    size: int


class StoredRuns(list[StoredRun], Result):
    """The verdicts of each judge of each run in a folder."""

    def __init__(self, found: Iterable[StoredRun], folder: FilePath) -> None:
        super().__init__(found)
        self.folder = folder

    def headline(self) -> str:
        names = {one.run for one in self}
        judged = {one.run for one in self if one.judge}
        return f"{counted(len(names), 'run')} under {self.folder}/, {len(judged):,} of them judged."

    def pages(self, *, full: bool = False) -> list[Page]:
        shown = (("Scored", SHARE), ("F1 [95%]", INTERVAL), ("Date", _DATE), ("Size", _SIZE))
        table = Table("The newest first; F1 in %", columns("Run", "Judge", *shown, words=2))
        for row in self:
            counts, f1 = row.counts, row.f1
            scored = (counts.scored, counts.captioned) if counts else None
            cells = (scored, f1 if counts and counts.scored else None, row.date, row.size)
            table.rows.append([one_line(row.run), row.judge and one_line(row.judge), *cells])
        return [Page([table])] if table.rows else []

    def as_json(self) -> list[dict[str, Any]]:
        return [one.model_dump(mode="json") for one in self]

    def notices(self) -> Sequence[str]:
        return [f"no score: {one.problem}" for one in self if one.problem]


@command("runs", "as_json")
@takes(RunsOptions)
def list_runs(o: RunsOptions) -> StoredRuns:
    """List all runs with their judges, scores and sizes, the newest first.

    Runs of questions are in `capeval leaderboard --questions`.
    """
    rows = [row for run in RunFolder.all(Path(o.runs)) for row in _rows(run)]
    return StoredRuns(sorted(rows, key=lambda row: row.date, reverse=True), o.runs)


def _rows(run: RunFolder) -> list[StoredRun]:
    return [_row(run, one) for one in run.judges()] or [_row(run, None)]


def _row(run: RunFolder, judge: JudgeFolder | None) -> StoredRun:
    scores, problem = None, ""
    try:
        scores = load_judged(judge.path).scores if judge else None
    except CapevalError as error:
        problem = str(error)
    files = [judge.judgments] if judge else run.caption_files
    newest = max(file.stat().st_mtime for file in files)
    place = judge.path if judge else run.path
    return StoredRun(
        run=run.name,
        judge=judge.path.name if judge else None,
        counts=scores and scores.counts,
        f1=scores and scores.overall.all.f1,
        signature=scores and scores.signature,
        problem=problem,
        date=datetime.fromtimestamp(newest, UTC).astimezone(),
        size=_size(place),
    )


def _size(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())


def cache_info() -> CacheInfo:
    """Return the location of the cache and the number of replies in it."""
    with closing(ReplyCache()) as cache:
        return cache.info()


@declares
class CacheOptions:
    """The options of `capeval cache`: none."""


@command("cache", options=CacheOptions)
def cache_command(_: CacheOptions, output: Output) -> None:
    """Show the location and contents of the cache of models' replies."""
    found = cache_info()
    output.line(f"path     {found.path}")
    output.line(f"size     {file_size(found.bytes)}")
    output.line(f"replies  {found.entries:,}")
    for state, name in STATE_NAMES.items():
        if count := found.states.get(state):
            output.line(f"  {name}: {count:,}")
    for model, count in sorted(found.models.items()):
        output.line(f"  by {model}: {count:,}")
