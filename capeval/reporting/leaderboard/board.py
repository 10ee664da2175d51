"""The scores of all judged runs, checked, in sections of runs that may be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from capeval.captioners.catalogue import ModelEntry, read_catalogue
from capeval.config import CONFIG
from capeval.errors import CapevalError, InputError
from capeval.files.reading import reading
from capeval.reporting.leaderboard.published import Footnote, read_published
from capeval.reporting.leaderboard.stored import (
    COMPARED,
    Entry,
    References,
    StoredScores,
    parameters_of,
    read_stored,
)
from capeval.reporting.numbers import plain_number, share
from capeval.reporting.score_tables import OVERALL, Means
from capeval.runs.folder import JudgeFolder, RunFolder
from capeval.runs.resolve import RUNS, find_judges
from capeval.runs.sources import files_read
from capeval.runs.verdicts import snapshots_notice


@dataclass(frozen=True)
class Section:
    """Entries of one signature, best first; `signature` has the parts that they share.

    Versions of capeval may differ within a section: they do not change what is measured, and each
    entry has its own. `footnotes` are about cells of published rows that disagree with others.
    """

    signature: Mapping[str, str]
    entries: tuple[Entry, ...]
    baseline: bool = False
    published: bool = False
    notes: tuple[str, ...] = ()
    footnotes: tuple[Footnote, ...] = ()
    data: str | None = None
    """SHA-256 of the annotations."""

    @property
    def has_no_f1(self) -> bool:
        """Whether none of the entries has an overall F1."""
        return self.entries[0].at(OVERALL).f1 is None


@dataclass(frozen=True)
class LeftOutRun:
    """A judged run that is not in the table."""

    path: Path
    reason: str


@dataclass(frozen=True)
class Leaderboard:
    """Sections, those of the user's own runs first, and the runs that were left out.

    `notices` are about runs that are shown.
    """

    sections: tuple[Section, ...]
    left_out: tuple[LeftOutRun, ...]
    notices: tuple[str, ...] = ()


def make_leaderboard(
    named: Sequence[str | Path] = (),
    *,
    runs: Path = RUNS,
    annotations: str | Path | None = None,
    published: bool = False,
    least_coverage: float = 0.99,
) -> Leaderboard:
    """Gather every judge's scores of every run under `runs`, and of the runs in `named`.

    Parameters
    ----------
    named : names of runs, folders of runs, or folders of judges
    annotations : for runs whose own annotations have been moved
    published : add the TUNA paper's models, in a section of their own
    least_coverage : share of the videos below which a run comes after the others, unranked

    Raises
    ------
    InputError
        A run in `named` does not exist or cannot be shown, or there is no run at all.
    """
    named_folders = [folder for name in named for folder in find_judges(name, runs)]
    asked = {folder.path.resolve(): folder for folder in named_folders}
    searched, left = _all_judges(runs)
    found = {folder.path.resolve(): folder for folder in searched}
    catalogue, references = read_catalogue(CONFIG), References(annotations)
    read: list[StoredScores] = []
    for path, folder in (found | asked).items():
        try:
            with reading():
                read.append(read_stored(folder, references, catalogue))
        except CapevalError as fault:
            # A run that the user named must be shown; a search skips what it cannot show.
            if path in asked:
                raise
            left.append(LeftOutRun(folder.path, str(fault)))
    sections = _sections(read, least_coverage)
    if published:
        sections.append(_published(sections, catalogue))
    if not sections and not left:
        raise InputError("has no judged run; judge one with `capeval judge`", file=runs)
    notices = [
        notice
        for entry in (one.entry for one in read)
        if (
            notice := snapshots_notice(
                entry.name, entry.scores.settings["models"] if entry.scores else ()
            )
        )
    ]
    return Leaderboard(tuple(sections), tuple(left), tuple(notices))


def files_of(
    named: Sequence[str | Path] = (), *, runs: Path = RUNS, annotations: str | Path | None = None
) -> list[Path]:
    """Return every file that `make_leaderboard` would read.

    Raises
    ------
    InputError
        A run in `named` does not exist.
    """
    folders = [folder.path for name in named for folder in find_judges(name, runs)]
    return files_read(folders, annotations, runs)


def _all_judges(runs: Path) -> tuple[list[JudgeFolder], list[LeftOutRun]]:
    """Return the folders of all judges, and the runs that cannot be read."""
    found: list[JudgeFolder] = []
    left: list[LeftOutRun] = []
    for run in RunFolder.all(runs):
        try:
            found += run.judges()
        except InputError as fault:
            left.append(LeftOutRun(run.path, str(fault)))
    return found, left


def _sections(read: Sequence[StoredScores], least_coverage: float) -> list[Section]:
    # The signature has only the beginning of the data's hash; sets are compared by the whole.
    groups: dict[tuple[tuple[str, ...], str, bool], list[StoredScores]] = {}
    for one in read:
        parts = tuple(one.signature.get(part, "") for part in COMPARED)
        key = (parts, one.data, one.baseline)
        groups.setdefault(key, []).append(one)
    sections = []
    for (_, data, baseline), members in groups.items():
        names = Counter(one.entry.name for one in members)
        distinct = [
            replace(e, name=f"{e.name} ({e.folder})") if names[e.name] > 1 else e
            for e in (one.entry for one in members)
        ]
        entries = _ranked(distinct, least_coverage)
        sections.append(
            Section(
                signature=members[0].signature,
                entries=tuple(entries),
                baseline=baseline,
                notes=(*_notes(entries, least_coverage),),
                data=data,
            )
        )
    sections.sort(
        key=lambda s: (
            *(s.has_no_f1, s.baseline, -len(s.entries)),
            *(tuple(s.signature.values()), s.data),
        )
    )
    return sections


def _ranked(entries: Sequence[Entry], least_coverage: float) -> list[Entry]:
    """Return entries best first; ties share a rank; those of too few videos come last."""
    whole: list[Entry] = []
    part: list[Entry] = []
    for entry in sorted(entries, key=_order):
        few = entry.coverage is not None and entry.coverage < least_coverage
        (part if few else whole).append(entry)
    values = [_order(entry)[:2] for entry in whole]
    ranked = [
        replace(entry, rank=values.index(value) + 1)
        for entry, value in zip(whole, values, strict=True)
    ]
    return [*ranked, *part]


def _order(entry: Entry) -> tuple[float, float, str]:
    overall = entry.cells.get(OVERALL, Means(None, None, None))
    missing = float("inf")
    return (
        missing if overall.f1 is None else -overall.f1,
        missing if overall.recall is None else -overall.recall,
        entry.name,
    )


def _notes(entries: Sequence[Entry], least_coverage: float) -> list[str]:
    notes = []
    part = [entry for entry in entries if entry.rank is None]
    if part:
        least = f"{plain_number(100 * least_coverage)}%"
        notes.append(
            f"Not ranked, fewer than {least} of the videos are scored: "
            + ", ".join(
                f"{entry.name} (captioned {share(entry.captioned, entry.annotated)}, "
                f"scored {share(entry.scored, entry.captioned)})"
                for entry in part
            )
        )
    addresses = sorted({entry.base_url or "the judge's own endpoint" for entry in entries})
    if len(addresses) > 1:
        notes.append(f"judged at several endpoints: {', '.join(addresses)}")
    return notes


def _published(own: Sequence[Section], catalogue: Mapping[str, ModelEntry]) -> Section:
    paper = read_published()
    entries = [replace(row, parameters=parameters_of(row.model, catalogue)) for row in paper.rows]
    notes = [
        f"† published, not computed here: {paper.citation}, tables 8 to 10, frames of table 7",
        (
            "the paper's judge is GPT-4o; parameters are from capeval's catalogue; fewer than 5 "
            "videos that a Gemini model did not answer are left out of its row"
        ),
    ]
    alike = [
        number
        for number, section in enumerate(own, start=1)
        if section.signature["judge"] == paper.judge
        and section.signature["repeats"] == "1"
        and "reasoning" not in section.signature
        and section.signature["data"].endswith(f"@{paper.videos}")
    ]
    if alike:
        numbers = " and ".join(map(str, alike))
        notes.append(
            f"section {numbers} has the same judge and as many videos; whether its prompts and "
            "annotations are the same as the paper's is not known"
        )
    return Section(
        signature={
            "capeval": "tuna-cap",
            "judge": paper.judge,
            "prompts": "the paper's",
            "repeats": "1",
            "avg": "macro",
            "data": f"TUNA-1K@{paper.videos}",
        },
        entries=tuple(_ranked(entries, 0.0)),
        published=True,
        notes=tuple(notes),
        footnotes=paper.footnotes,
    )
