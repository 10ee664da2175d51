"""Runs that two judges have judged: which folders are meant, and the measures of every video."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from capeval.errors import InputError, UsageError
from capeval.files.annotations import annotations_hash
from capeval.runs.drawn_videos import DrawnVideos, read_drawn
from capeval.runs.folder import JudgeFolder, RunFolder
from capeval.runs.judged_run import JudgedRun, load_judged
from capeval.runs.resolve import attempt
from capeval.runs.stored_scores import verdicts_hash
from capeval.runs.verdicts import JudgeIdentity, judged_by
from capeval.scoring import GROUPS, MEASURES, AnnotationArrays, measures
from capeval.stats.values import Floats, Mask
from capeval.text import listed, nearest, shown


@dataclass(frozen=True)
class JudgeNames:
    """The folders of the old and the new judge: `JUDGE@PROMPTS`, as in a run."""

    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.old}<-{self.new}"


@dataclass(frozen=True)
class JudgedVideos:
    """What one judge made of one run.

    `values` are (videos, 5 groups, 3 measures) in the order of the annotations, NaN where a video
    is not scored or has no element of the type; `digest` is the SHA-256 of the verdicts' file.
    """

    judged: JudgedRun
    folder: JudgeFolder
    digest: str
    identity: JudgeIdentity
    models: tuple[str, ...]
    values: Floats

    @property
    def scored(self) -> Mask:
        """Which videos are scored, (videos,)."""
        found: Mask = np.isfinite(self.values[:, 0, 2])
        return found


@dataclass(frozen=True)
class RunPair:
    """One run by both judges; `old` is None where the old judge has judged none of its videos.

    `drawn` are the videos that were drawn at random for the old judge, None if it was to judge all.
    """

    run: RunFolder
    data: str
    reference: AnnotationArrays
    new: JudgedVideos
    old: JudgedVideos | None
    drawn: DrawnVideos | None

    @property
    def both(self) -> Mask:
        """Which videos both judges have scored, (videos,); of drawn ones only these count."""
        if self.old is None:
            return np.zeros(len(self.reference.annotations), dtype=bool)
        both: Mask = self.new.scored & self.old.scored
        if self.drawn is not None and not self.is_whole:
            chosen = {*self.drawn.indexes}
            both &= np.array([one.index in chosen for one in self.reference.annotations])
        return both

    @property
    def is_whole(self) -> bool:
        """Whether the old judge has scored every video that the new one has."""
        return self.old is not None and bool((self.old.scored | ~self.new.scored).all())


@dataclass
class PairLoader:
    """Loads runs by both judges; annotations that runs share are prepared once."""

    names: JudgeNames
    annotations: str | Path | None = None
    _arrays: dict[str, AnnotationArrays] = field(default_factory=dict)
    _digests: dict[int, tuple[object, str]] = field(default_factory=dict)

    def load(self, run: RunFolder) -> RunPair:
        """Return a run by both judges.

        Raises
        ------
        InputError, UsageError
            The new judge has not judged it, or its files cannot be read.
        """
        (new_folder,) = judges_called(run, self.names.new) or (None,)
        if new_folder is None:
            raise InputError(
                f"was not judged by {self.names.new}; judge it first with `capeval judge`",
                file=run,
            )
        (old_folder,) = judges_called(run, self.names.old) or (None,)
        new, data, reference = self._side(new_folder)
        old = drawn = None
        if old_folder is not None:
            old, other, _ = self._side(old_folder)
            if other != data:
                raise InputError("was judged with two sets of annotations", file=run)
            drawn = read_drawn(old_folder)
        return RunPair(run, data, reference, new, old, drawn)

    def _side(self, folder: JudgeFolder) -> tuple[JudgedVideos, str, AnnotationArrays]:
        digest = verdicts_hash(folder)
        judged = load_judged(folder.path, annotations=self.annotations)
        data = self._data(judged.annotations)
        reference = self._arrays.setdefault(data, AnnotationArrays(judged.annotations))
        return judged_videos(judged, folder, digest, reference), data, reference

    def _data(self, annotations: Sequence[object]) -> str:
        # Runs of one file share its annotations, and hashing them takes longer than a line's fit.
        if id(annotations) not in self._digests:
            self._digests[id(annotations)] = annotations, annotations_hash(annotations)  # type: ignore[arg-type]
        return self._digests[id(annotations)][1]


def judged_videos(
    judged: JudgedRun, folder: JudgeFolder, digest: str, reference: AnnotationArrays
) -> JudgedVideos:
    """Return the measures of every video of a judged run."""
    identity, models = judged_by(list(judged.judgments.values()))
    scored = judged.scored
    rows = [reference.rows[index] for index in scored]
    values = np.full((len(reference.annotations), len(GROUPS), len(MEASURES)), np.nan)
    if rows:
        relations = [verdict.relations for verdict in scored.values()]
        values[rows] = measures(reference.counts(rows, relations))
    return JudgedVideos(judged, folder, digest, identity, tuple(models), values)


def find_judge_names(
    old: str, new: str, among: Iterable[RunFolder], runs: Path, advice: str = ""
) -> JudgeNames:
    """Return the folders of two judges, by their names or the beginnings of these.

    Parameters
    ----------
    advice : what to do if no run was judged by one of them

    Raises
    ------
    InputError, UsageError
        A name means no judge, several, or the same as the other.
    """
    folders = list(among)
    names = JudgeNames(_name(old, folders, runs, advice), _name(new, folders, runs, advice))
    if names.old == names.new:
        raise UsageError(f"{old} and {new} both mean {names.old}; name two judges")
    return names


def _name(typed: str, among: Sequence[RunFolder], runs: Path, advice: str) -> str:
    found = {judge.path.name for run in among for judge in run.judges(typed)}
    if typed in found:
        return typed
    if len(found) == 1:
        return found.pop()
    if found:
        raise UsageError(f"{shown(typed)} can mean {listed(sorted(found))}; name one of these")
    known = sorted({judge.path.name for run in among for judge in run.judges()})
    raise InputError(
        f"no run under {runs}/ was judged by {shown(typed)}{nearest(typed, known)}"
        + (f"; the judges there are {listed(known)}" if known else "")
        + (f"; {advice}" if advice else "")
    )


def judges_called(run: RunFolder, name: str) -> list[JudgeFolder]:
    """Return the folder of exactly this name in a run, if it holds verdicts."""
    return [one for one in run.judges(name) if one.path.name == name]


def load_pairs(
    among: Iterable[RunFolder], loader: PairLoader, on_notice: Callable[[str], None]
) -> list[RunPair]:
    """Return the runs that the new judge has judged; one that cannot be read is left out."""
    judged = [run for run in among if judges_called(run, loader.names.new)]
    return attempt(loader.load, judged, on_notice)


def one_data_set(pairs: Sequence[RunPair]) -> tuple[list[RunPair], list[RunPair]]:
    """Return the runs that share the most frequent annotations, and the others.

    Among equals, the annotations of the first run count.
    """
    with_both = [pair.data for pair in pairs if pair.both.any()]
    counts = Counter(with_both or [pair.data for pair in pairs])
    if not counts:
        return [], []
    data = counts.most_common(1)[0][0]
    return [p for p in pairs if p.data == data], [p for p in pairs if p.data != data]


def check_identities(pairs: Sequence[RunPair]) -> None:
    """Raise `InputError` if a judge's verdicts in two runs are not of one judge.

    A bridge is between prompts, repeats and endpoints as much as between models.
    """
    for of in ("old", "new"):
        first: JudgedVideos | None = None
        for pair in pairs:
            side: JudgedVideos | None = getattr(pair, of)
            if side is None:
                continue
            first = first or side
            if side.identity != first.identity:
                raise InputError(
                    f"holds verdicts of another judge ({side.identity}) than "
                    f"{first.folder.path} ({first.identity}); a bridge is of one judge each",
                    file=side.folder.path,
                )
