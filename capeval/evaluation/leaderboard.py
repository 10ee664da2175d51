"""All judged runs side by side: their scores, checked, in sections that may be compared."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from capeval.captioners.catalogue import ModelEntry, read_catalogue
from capeval.errors import CapevalError, InputError
from capeval.evaluation.captioners import CONFIG
from capeval.evaluation.freshness import Reference, why_stale
from capeval.evaluation.places import OVERALL, Measured, Place, measured
from capeval.evaluation.published import Disagreement, disagreements, read_published
from capeval.evaluation.sources import annotations_of
from capeval.files.run_folder import JudgeFolder, RunFolder
from capeval.files.text import parse_json, read_text
from capeval.files.validation import nearest, validated
from capeval.scoring import Scores

__all__ = ["Entry", "Leaderboard", "LeftOut", "Section", "make_leaderboard"]

_COMPARED = ("capeval", "judge", "prompts", "repeats", "avg", "data")


@dataclass(frozen=True)
class Entry:
    """One run judged by one judge, or one row of the paper.

    `cells` are means by place; `low` and `high` the interval of overall F1. `rank` is None for a
    run that is of too few videos to stand among the others.
    """

    name: str
    model: str | None
    frames: str | None
    parameters: float | None
    annotated: int | None
    captioned: int | None
    scored: int | None
    cells: Mapping[Place, Measured]
    low: float | None = None
    high: float | None = None
    version: str | None = None
    base_url: str | None = None
    folder: Path | None = None
    rank: int | None = None

    @property
    def coverage(self) -> float | None:
        """Scored of annotated videos, a fraction; None where it is not known."""
        if self.scored is None or not self.annotated:
            return None
        return self.scored / self.annotated


@dataclass(frozen=True)
class Section:
    """Entries of one signature, best first; `signature` is what they share, part by part.

    Versions of capeval may differ within a section: they do not change what is measured, and the
    entries bear theirs. `doubts` are cells of published rows that disagree with others.
    """

    signature: Mapping[str, str]
    entries: tuple[Entry, ...]
    baseline: bool = False
    published: bool = False
    notes: tuple[str, ...] = ()
    doubts: tuple[Disagreement, ...] = ()
    data: str | None = None
    """SHA-256 of the annotations."""


@dataclass(frozen=True)
class LeftOut:
    """A judged run that the table cannot show; `unfinished` where nothing is wrong with it yet."""

    path: Path
    reason: str
    unfinished: bool = False


@dataclass(frozen=True)
class Leaderboard:
    """Sections, those of people's own runs first, and what was left out."""

    sections: tuple[Section, ...]
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True)
class _Read:
    entry: Entry
    signature: Mapping[str, str]
    baseline: bool
    data: str


def make_leaderboard(
    named: Sequence[str | Path] = (),
    *,
    runs: Path = Path("runs"),
    annotations: str | None = None,
    published: bool = False,
    least_coverage: float = 0.99,
) -> Leaderboard:
    """Gather every judge's scores of every run under `runs`, and of the runs named besides.

    Parameters
    ----------
    named : runs by name, folders of runs, or folders of judges
    annotations : for runs whose own annotations are not where they were
    published : add the TUNA paper's models, in a section of their own
    least_coverage : share of the videos below which a run is shown after the others, unranked

    Raises
    ------
    InputError
        A run that is named is not there or cannot be shown, or there is none at all.
    """
    asked = {folder.path.resolve(): folder for typed in named for folder in _folders(typed, runs)}
    found = {
        folder.path.resolve(): folder for run in RunFolder.all(runs) for folder in _judged_by(run)
    }
    catalogue, references = read_catalogue(CONFIG), _References(annotations)
    read: list[_Read] = []
    left: list[LeftOut] = []
    with _no_collector():
        for path, folder in (found | asked).items():
            try:
                read.append(_read(folder, references, catalogue))
            except _Unfinished as fault:
                if path in asked:
                    raise InputError(str(fault), file=folder.path) from None
                left.append(LeftOut(folder.path, str(fault), unfinished=True))
            except InputError as fault:
                # Who names a run wants that one; a search goes on past what it cannot show.
                if path in asked:
                    raise
                left.append(LeftOut(folder.path, str(fault)))
    sections = _sections(read, least_coverage)
    if published:
        sections.append(_published(sections, catalogue))
    if not sections and not left:
        raise InputError("holds no judged run; judge one with `capeval judge`", file=runs)
    return Leaderboard(tuple(sections), tuple(left))


@contextmanager
def _no_collector() -> Iterator[None]:
    """Put off the search for cycles: files of numbers have none, and it takes a third of the time
    that many large ones need to be read.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Unfinished(CapevalError):
    """Judged, or being judged, but not scored yet."""


def _judged_by(run: RunFolder) -> list[JudgeFolder]:
    found = (JudgeFolder(entry) for entry in sorted(run.path.iterdir()) if entry.is_dir())
    return [one for one in found if one.judgments.is_file() or one.scores.is_file()]


def _folders(typed: str | Path, runs: Path) -> list[JudgeFolder]:
    path = Path(typed)
    if not path.exists() and (runs / path).is_dir():
        path = runs / path
    if not path.is_dir():
        names = [run.name for run in RunFolder.all(runs)]
        raise InputError(
            f"is neither a folder nor a run under {runs}/{nearest(str(typed), names)}", file=typed
        )
    alone = JudgeFolder(path)
    if alone.judgments.is_file() or alone.scores.is_file():
        return [alone]
    judges = _judged_by(RunFolder(path))
    if not judges:
        raise InputError("holds no judgments.jsonl; judge it first", file=path)
    return judges


def _read(
    folder: JudgeFolder, references: _References, catalogue: Mapping[str, ModelEntry]
) -> _Read:
    if not folder.scores.is_file():
        raise _Unfinished("is not scored yet; finish it with `capeval judge`")
    if not folder.judgments.is_file():
        raise InputError(
            "has no judgments.jsonl beside it, so that nothing explains it", file=folder.scores
        )
    scores = _scores(folder.scores)
    signature = _parts(scores.signature, folder.scores)
    run = RunFolder(folder.path.absolute().parent)
    manifest = run.read_manifest() if run.exists() else {}
    stale = why_stale(scores, folder.judgments, references.of(run, folder, scores))
    if stale:
        raise InputError(
            f"does not belong to the verdicts beside it: {stale}; "
            "run `capeval judge` again, or `capeval score` with --out",
            file=folder.scores,
        )
    model, frames = _made_by(run, manifest)
    counts, f1 = scores.counts, scores.overall.all.f1
    entry = Entry(
        name=run.name if run.exists() else folder.path.absolute().name,
        model=model,
        frames=frames,
        parameters=_parameters(model, catalogue),
        annotated=counts.annotated,
        captioned=counts.captioned,
        scored=counts.scored,
        cells=measured(scores),
        low=f1.low,
        high=f1.high,
        version=signature.get("v"),
        base_url=_text(scores.settings.get("base_url")),
        folder=folder.path,
    )
    shared = {key: signature[key] for key in _COMPARED}
    baseline = scores.settings.get("baseline") is True
    return _Read(entry, shared, baseline, str(scores.settings.get("data")))


def _scores(path: Path) -> Scores:
    text = read_text(path)
    try:
        scores = Scores.model_validate_json(text)
    except ValidationError:
        # Slower, but it names the line or the field.
        scores = validated(Scores, parse_json(text, file=path), file=path, where="")
    counts, f1 = scores.counts, scores.overall.all.f1
    if not 0 <= counts.scored <= counts.captioned <= counts.annotated:
        raise InputError("do not fit one another", file=path, field="counts")
    if not (f1.low is None and f1.high is None):
        low, high = (-1.0 if end is None else end for end in (f1.low, f1.high))
        if not 0 <= low <= high <= 1:
            raise InputError("is no interval of fractions", file=path, field="overall.all.f1")
    return scores


def _parts(signature: str, path: Path) -> dict[str, str]:
    parts = {}
    for part in signature.split("|"):
        key, _, value = part.partition(":")
        parts[key] = value
    for key in _COMPARED:
        if not parts.get(key):
            raise InputError(f"names no {key}; score it again", file=path, field="signature")
    return parts


class _References:
    """The annotations of runs, each set loaded once."""

    def __init__(self, fallback: str | None) -> None:
        self._fallback = fallback
        self._loaded: dict[str, Reference | InputError] = {}

    def of(self, run: RunFolder, folder: JudgeFolder, scores: Scores) -> Reference:
        """Return a run's own annotations, or those named for runs that have lost theirs.

        Raises
        ------
        InputError
            There are none.
        """
        own = run.annotations_path() if run.exists() else None
        found = self._load(own) if own else None
        if isinstance(found, Reference):
            return found
        if self._fallback:
            named = self._load(self._fallback)
            if isinstance(named, InputError):
                raise named
            if named.sha256 == scores.settings.get("data"):
                return named
        why = f" ({found})" if found else ""
        raise InputError(
            f"cannot be checked without its annotations{why}; name them with --annotations",
            file=folder.path,
        )

    def _load(self, path: str) -> Reference | InputError:
        if path not in self._loaded:
            try:
                self._loaded[path] = Reference(annotations_of(path))
            except InputError as fault:
                self._loaded[path] = fault
        return self._loaded[path]


def _made_by(run: RunFolder, manifest: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the model and the sampling policy, from the manifest or the captions' own lines."""
    generation = manifest.get("generation")
    if isinstance(generation, Mapping):
        return _text(generation.get("model")), _text(generation.get("frames"))
    if not run.exists():
        return None, None
    models, frames = set(), set()
    for text in read_text(run.captions).split("\n"):
        try:
            line = from_json(text)
        except ValueError:  # blank, or torn while captions are still written
            continue
        if isinstance(line, dict):
            made = line.get("frames")
            models.add(_text(line.get("model")))
            frames.add(_text(made.get("policy")) if isinstance(made, dict) else None)
    return (
        models.pop() if len(models) == 1 else None,
        frames.pop() if len(frames) == 1 else None,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _parameters(model: str | None, catalogue: Mapping[str, ModelEntry]) -> float | None:
    if model is None:
        return None
    wanted = model.removeprefix("hf:")
    if wanted in catalogue:
        return catalogue[wanted].parameters
    hubs = (entry for entry in catalogue.values() if entry.hub)
    return next((e.parameters for e in hubs if str(e.hub).lower() == wanted.lower()), None)


def _sections(read: Sequence[_Read], least_coverage: float) -> list[Section]:
    # The signature shortens the data's hash: sets that only share its beginning are not one.
    groups: dict[tuple[tuple[str, ...], str, bool], list[_Read]] = {}
    for one in read:
        key = (tuple(one.signature[part] for part in _COMPARED), one.data, one.baseline)
        groups.setdefault(key, []).append(one)
    sections = []
    for (_, data, baseline), members in groups.items():
        entries = _ranked(_told_apart([one.entry for one in members]), least_coverage)
        sections.append(
            Section(
                signature=members[0].signature,
                entries=tuple(entries),
                baseline=baseline,
                notes=tuple(_notes(entries, least_coverage)),
                data=data,
            )
        )
    sections.sort(key=lambda s: (s.baseline, -len(s.entries), tuple(s.signature.values()), s.data))
    return sections


def _told_apart(entries: Sequence[Entry]) -> list[Entry]:
    names = Counter(entry.name for entry in entries)
    return [
        entry if names[entry.name] == 1 else replace(entry, name=f"{entry.name} ({entry.folder})")
        for entry in entries
    ]


def _ranked(entries: Sequence[Entry], least_coverage: float) -> list[Entry]:
    """Best first, equals with one rank; those of too few videos after them, without a rank."""
    whole = sorted((e for e in entries if not _is_part(e, least_coverage)), key=_order)
    part = sorted((e for e in entries if _is_part(e, least_coverage)), key=_order)
    values = [_order(entry)[:2] for entry in whole]
    ranked = [
        replace(entry, rank=values.index(value) + 1)
        for entry, value in zip(whole, values, strict=True)
    ]
    return [*ranked, *part]


def _order(entry: Entry) -> tuple[float, float, str]:
    overall = entry.cells.get(OVERALL, Measured(None, None, None))
    missing = float("inf")
    return (
        missing if overall.f1 is None else -overall.f1,
        missing if overall.recall is None else -overall.recall,
        entry.name,
    )


def _is_part(entry: Entry, least_coverage: float) -> bool:
    return entry.coverage is not None and entry.coverage < least_coverage


def _notes(entries: Sequence[Entry], least_coverage: float) -> list[str]:
    notes = []
    part = [entry for entry in entries if entry.rank is None]
    if part:
        notes.append(
            f"– of less than {100 * least_coverage:g}% of the videos, and so not ranked: "
            + ", ".join(
                f"{entry.name} (captioned {entry.captioned}, scored {entry.scored} "
                f"of {entry.annotated})"
                for entry in part
            )
        )
    versions = sorted({entry.version for entry in entries if entry.version})
    if len(versions) > 1:
        notes.append(f"scored by capeval {', '.join(versions)}")
    addresses = sorted({entry.base_url or "the judge's own endpoint" for entry in entries})
    if len(addresses) > 1:
        notes.append(f"judged at several endpoints: {', '.join(addresses)}")
    return notes


def _published(own: Sequence[Section], catalogue: Mapping[str, ModelEntry]) -> Section:
    paper = read_published()
    entries = [
        Entry(
            name=row.model,
            model=row.catalogue,
            frames=row.frames,
            parameters=_parameters(row.catalogue, catalogue),
            annotated=paper.videos,
            captioned=None,
            scored=None,
            cells=row.cells,
        )
        for row in paper.rows
    ]
    notes = [
        f"† published, not computed here: {paper.citation}, tables 8 to 10, frames of table 7",
        (
            "the paper's judge is GPT-4o; parameters are of capeval's catalogue; fewer than 5 "
            "videos that a Gemini model did not answer are left out of its row"
        ),
    ]
    alike = [
        number
        for number, section in enumerate(own, start=1)
        if section.signature["judge"] == paper.judge
        and section.signature["repeats"] == "1"
        and section.signature["data"].endswith(f"@{paper.videos}")
    ]
    if alike:
        told = " and ".join(str(number) for number in alike)
        notes.append(
            f"section {told} has the same judge and as many videos: its numbers may be read beside "
            "these, but prompts and annotations are not known to be the same"
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
        doubts=disagreements(paper),
    )
