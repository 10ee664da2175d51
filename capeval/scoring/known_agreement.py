"""What is known of a judge: how far it agrees with human raters, as `agreement.json` stores it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, Field

from capeval.errors import CapevalError
from capeval.files.jsonl import dumps, json_records, validated, write_atomic
from capeval.options import Notices
from capeval.runs.folder import JudgeFolder
from capeval.runs.resolve import readable, why_left_out
from capeval.schema import Frozen
from capeval.show.numbers import bounded
from capeval.stats.values import GroupingName
from capeval.text import Loss, counted, listed, one_line

HUMAN_WORDS = {"f1": "F1", "covered": "coverage"}
"""Names of human scores in messages, where they differ from those in files."""

_UNKNOWN = (
    "No agreement with human raters is known for this judge and these prompts; docs/trusting.md "
    "shows how to measure it with 40 videos"
)

_WAIT = 10.0
"""Seconds, far more than another command takes to add its own entry."""


class Agreement(Frozen):
    """How far a judge agrees with human raters: one entry of `agreement.json`.

    A correlation is that of the judge's F1 with the `human` score of captions, kappa that of its
    verdicts with human "labels" of elements, in `file`; `sha256` and `annotations` are hashes.
    """

    statistic: Literal["kendall_b", "spearman", "pearson", "kappa"]
    grouping: GroupingName | None = None
    human: str
    value: float
    low: float | None
    high: float | None
    videos: int
    raters: int
    file: str
    sha256: str
    annotations: str
    date: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))

    def __str__(self) -> str:
        from capeval.stats.correlation import STATISTICS  # most runs have no agreement

        known = STATISTICS.get(self.statistic)
        way = f", {self.grouping}" if self.grouping else ""
        return (
            f"{known.words if known else 'kappa'} {bounded(self)} with human "
            f"{one_line(HUMAN_WORDS.get(self.human, self.human))} over "
            f"{counted(self.videos, 'video')} by {counted(self.raters, 'rater')}{way} "
            f"({one_line(Path(self.file).name)}, {self.date:%Y-%m-%d})"
        )


def agreement_line(known: Agreement | None, *, baseline: bool) -> str:
    """Return a judge's known agreement in one line; empty for a baseline without any."""
    if known is None:
        return "" if baseline else _UNKNOWN
    return f"Agreement with human raters: {known}"


def known_agreement(folder: JudgeFolder, on_notice: Notices) -> Agreement | None:
    """Return the agreement of a run's judge, from all runs beside it: the newest correlation.

    Without any correlation, the newest kappa, which is of the captions of one run.
    """
    run = folder.run
    files = sorted(run.path.parent.glob("*/*/agreement.json")) if run else []
    faults: list[tuple[Path, CapevalError]] = []

    def own(file: Path) -> list[Agreement]:
        return _entries(file) if JudgeFolder(file.parent).owner() == folder.owner() else []

    found = [one for entries in readable(own, files, faults) for one in entries]
    for file, fault in faults:
        on_notice(why_left_out(file, fault))
    return max(found, key=lambda one: (one.statistic != "kappa", one.date), default=None)


def store_agreement(sources: Iterable[str | Path], new: Agreement, on_notice: Notices) -> None:
    """Add an entry to the folders of the verdicts, if all are from one judge.

    It replaces an earlier one of the same statistic, raters and annotations. Agreement with
    the known verdicts of probes is not stored.
    """
    paths = dict.fromkeys(Path(one) for one in sources)
    folders = [JudgeFolder(path if path.is_dir() else path.parent) for path in paths]
    try:
        runs = [folder.run for folder in folders if folder.run]
        owners = {folder.owner() for folder in folders}
        if len(runs) < len(folders) or any(run.known_verdicts.exists() for run in runs):
            return
        if len(owners) > 1 or owners & {None, "unknown"}:
            return
        for folder, run in zip(folders, runs, strict=True):
            with run.locked(part="agreement", wait=_WAIT):
                kept = [one for one in _entries(folder.agreement) if _key(one) != _key(new)]
                values = [one.model_dump(mode="json") for one in (*kept, new)]
                write_atomic(folder.agreement, dumps(values, indent=1) + "\n")
    except (CapevalError, OSError) as fault:
        on_notice(Loss(f"agreement with human raters is not stored: {fault}"))
    else:
        on_notice(f"Written: {listed(folder.agreement for folder in folders)} ({new})")


def _key(one: Agreement) -> tuple[object, ...]:
    return one.statistic, one.grouping, one.human, one.sha256, one.annotations


def _entries(file: Path) -> list[Agreement]:
    if not file.exists():
        return []
    return [validated(Agreement, one, file=file, where=place) for place, one in json_records(file)]
