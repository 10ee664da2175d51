"""What an argument means: which run, judge's folder, file of verdicts, scores or captions.

All commands and public functions resolve names here, by the same rule:

- Text with a path separator, `.`, `..` and every `Path` object is a path and nothing else.
- Any other text is a name: the run of that name in the folder of runs (`runs/`), or the file or
  folder of that name in the working folder, whichever the command can use. A folder that only
  shares the name of a run never gets in its way.
- If both can serve, the name is ambiguous: the error shows both as paths, and either path can be
  typed instead. A file of that name can always serve.

A folder is a run if it holds `captions.jsonl` or judges' folders. A folder without verdicts is not
a judge's folder. `sample` stands for the bundled sample unless the user has a run or file of that
name.

Without a match, or with several, `InputError` or `UsageError` is raised.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from capeval.errors import CapevalError, InputError, UsageError
from capeval.files.jsonl import reading
from capeval.options import FilePath, Notices
from capeval.runs.folder import JudgeFolder, RunFolder
from capeval.runs.sources import (
    SAMPLE,
    Source,
    distinct_names,
    from_file,
    from_run,
    is_bundled,
    run_name,
    sample_captions,
)
from capeval.text import Loss, cut, listed, nearest


class _Placed(Protocol):
    @property
    def path(self) -> Path: ...


T = TypeVar("T")
PlacedT = TypeVar("PlacedT", bound=_Placed)
R = TypeVar("R")

RUNS = Path("runs")
"""The folder of runs, unless a command names another with `--runs`."""


def find_captions(name_or_path: str | Path, runs: Path = RUNS) -> RunFolder | Path:
    """Return the run, or the captions file, that a name or a path means.

    The `captions.jsonl` of a run means that run.
    """
    path = locate(name_or_path, runs, _is_run, "a captions file")
    if path.is_dir():
        if not RunFolder(path).exists():
            what = "is neither a captions file nor a run: it has no captions.jsonl"
            if "generation" in RunFolder(path).read_manifest():
                what = "no video has a caption yet; repeat its `capeval generate` command"
            raise InputError(what, file=path)
        return RunFolder(path)
    run = RunFolder(path.parent)
    return run if path.name == run.captions.name and run.manifest.is_file() else path


def find_judgments(name_or_path: str | Path, runs: Path = RUNS, judge: str | None = None) -> Path:
    """Return the verdicts of a judged run or a judge's folder, or the file that a path means.

    `judge` selects one of a run's judges: its folder's name, or the beginning of it.
    """
    path = locate(name_or_path, runs, _is_judged, "a file")
    return _verdicts_in(path, judge) if path.is_dir() else path


def find_judges(name_or_path: str | Path, runs: Path = RUNS) -> list[JudgeFolder]:
    """Return the judges' folders, with verdicts, that a run or one such folder means."""
    path = locate(name_or_path, runs, _is_judged, "a folder", files=False)
    if not path.is_dir():
        raise InputError(f"is neither a folder nor a run under {runs}/", file=path)
    found = _judges_in(path)
    if not found:
        raise InputError(_why_not_judged(path), file=path)
    return found


def readable(
    work: Callable[[T], R], found: Iterable[T], faults: list[tuple[T, CapevalError]]
) -> Iterator[R]:
    """Yield the result of `work` for each readable one; errors of the others go to `faults`."""
    for one in found:
        try:
            with reading():
                result = work(one)
        except CapevalError as fault:
            faults.append((one, fault))
        else:
            yield result


def attempt(
    work: Callable[[PlacedT], R], found: Iterable[PlacedT], on_notice: Notices
) -> Iterator[R]:
    """Yield the results of `work` for runs that the user did not name.

    One that cannot be read is left out with a notice; if none can, the first error is raised.
    """
    faults: list[tuple[PlacedT, CapevalError]] = []
    is_empty = True
    for result in readable(work, found, faults):
        is_empty = False
        yield result
    if faults and is_empty:
        raise faults[0][1]
    for one, fault in faults:
        on_notice(Loss(why_left_out(one.path, fault)))


def why_left_out(run: Path | str, fault: CapevalError | str) -> str:
    """Return the notice on a run that is left out; it names the run."""
    message = str(fault)
    return f"left out: {message if str(run) in message else f'{run}: {message}'}"


def is_taken(name: str, runs: Path = RUNS) -> bool:
    """Return whether a name of the bundled sample, or of its runs, is the user's own."""
    return any(_is_run(place) or place.is_file() for place in (runs / name, Path(name)))


def locate(
    name_or_path: str | Path,
    runs: Path,
    serves: Callable[[Path], bool],
    what: str,
    *,
    files: bool = True,
    folders: Collection[Path] | None = None,
) -> Path:
    """Return an existing path for the typed text; the caller checks its content.

    `serves` says whether a folder has what the command needs, which messages call `what`; `files`
    can serve too. A name is looked for in the `folders` of runs, by default `runs`.
    """
    text = str(name_or_path)
    label = cut(text, 120)
    places = folders or [runs]
    if not text.strip():
        raise UsageError(f"the name of a run is empty; name a run under {runs}/, or a path")
    if isinstance(name_or_path, Path) or _has_separator(text):
        path = Path(name_or_path)
        # RUN/JUDGE, as `capeval runs` lists them.
        if _has_separator(text) and not (path.is_absolute() or _is_there(path)):
            for folder in (place / path for place in places):
                if _is_there(folder) and JudgeFolder(folder).has_verdicts():
                    return folder
        if not _is_there(path):
            raise InputError(
                f"does not exist{nearest(path.name, _names_in(path.parent))}", file=label
            )
        return path
    # Of a name that no file can have (with a NUL, or too long) none exists either.
    existing = [
        place for place in (*(one / text for one in places), Path(text)) if _is_there(place)
    ]
    fitting = [place for place in existing if serves(place) or (files and place.is_file())]
    if any(not fitting[0].samefile(other) for other in fitting[1:]):
        can = [str(one) if one.parent.parts else f".{os.sep}{one}" for one in fitting]
        raise InputError(
            f"can mean {', '.join(can[:-1])} or {can[-1]}; name one of these paths", file=label
        )
    if existing:
        return (fitting or existing)[0]
    names = [name for one in (*places, Path()) for name in _names_in(one)]
    hint = nearest(text, names)
    if text == SAMPLE:
        hint = f"; `capeval judge sample` makes the runs of the sample, named {SAMPLE}-NAME"
    raise InputError(f"is neither {what} nor a run under {runs}/{hint}", file=label)


def _is_there(path: Path) -> bool:
    try:
        path.lstat()
    except PermissionError:
        return True  # its reader says so
    except (OSError, ValueError):
        return False
    return True


def _has_separator(text: str) -> bool:
    return text in (".", "..") or any(mark in text for mark in (os.sep, os.altsep) if mark)


def _names_in(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except (OSError, ValueError):
        return []


def _verdicts_in(folder: Path, judge: str | None) -> Path:
    if JudgeFolder(folder).has_verdicts():
        return JudgeFolder(folder).judgments
    run = RunFolder(folder)
    if not run.judges():
        raise InputError(_why_not_judged(folder), file=folder)
    chosen = run.judges(judge)
    if not chosen:
        names = ", ".join(one.path.name for one in run.judges())
        raise InputError(f"was not judged by {judge}, but by {names}", file=folder)
    if len(chosen) > 1:
        raise InputError(
            "was judged by several judges; choose one with --judge, or name its folder: "
            f"{listed(one.path for one in chosen)}",
            file=folder,
        )
    return chosen[0].judgments


def _why_not_judged(folder: Path) -> str:
    if RunFolder(folder).exists():
        return f"is a run that is not judged; run `capeval judge {folder}` first"
    return "is neither a judged run nor a judge's folder: it has no verdicts (judgments.jsonl)"


def _is_run(folder: Path) -> bool:
    return RunFolder(folder).exists()


def _is_judged(folder: Path) -> bool:
    return bool(_judges_in(folder))


def _judges_in(folder: Path) -> list[JudgeFolder]:
    alone = JudgeFolder(folder)
    return RunFolder(folder).judges() or ([alone] if alone.has_verdicts() else [])


# ---- What a command works on ---------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """Captions to work on, loaded when they are needed: hundreds of runs may not fit in memory.

    `run` is where results are stored; None keeps them in memory. `path` is the folder or file of
    the captions. A run that the user did not name is left out if it cannot be read.
    """

    name: str
    load: Callable[[], Source]
    run: RunFolder | None = None
    path: Path = Path()
    is_named: bool = True
    is_sample: bool = False


def work_on(
    targets: Sequence[Target], work: Callable[[Target], R], on_notice: Notices
) -> Iterator[R]:
    """Yield the result of `work` for each target; see `attempt` for targets without a name."""
    if not all(one.is_named for one in targets):
        yield from attempt(work, targets, on_notice)
        return
    for one in targets:
        with reading():
            result = work(one)
        yield result


@dataclass(frozen=True)
class Targets:
    """Finds targets by what the user names; the fields are options of the command."""

    runs: Path
    annotations: str | None
    ignore_unknown: bool
    run: str | None = None
    columns: Mapping[str, str] | None = None
    replaces: bool = False

    def named(self, names: Sequence[FilePath], doing: str, on_notice: Notices) -> list[Target]:
        """Return the named targets; by default every run, or the sample."""
        if self.run is not None and len(names) != 1:
            raise UsageError("--run names the run of one captions file; name that file alone")
        targets = [target for name in names for target in self.of(name)]
        if not names:
            every = RunFolder.all(self.runs)
            mine = [run for run in every if not is_bundled(run.name)]
            targets = [self._folder(run, is_named=False) for run in mine]
        if not targets:
            if self.annotations not in (None, SAMPLE):
                raise UsageError("name the captions that --annotations are for")
            none = f"You have no run of your own under {self.runs}/"
            on_notice(f"{none}: {doing} the bundled sample.")
            targets = self._sample()
        distinct = distinct_names([(target.name, target.path) for target in targets])
        targets = [
            target if target.name == name else self._file(target.path, self.annotations, name)
            for target, name in zip(targets, distinct, strict=True)
        ]
        name, count = Counter(distinct).most_common(1)[0]
        if count > 1:
            what = f"{count} arguments name the run {name!r}"
            raise UsageError(f"{what}; name each once, and judge files of the same name separately")
        return targets

    def of(self, name_or_path: FilePath) -> list[Target]:
        """Return the captions of a run or a file, or those of the sample or of one of its runs."""
        bundled = [one for one in self._sample() if name_or_path in (SAMPLE, one.name)]
        if bundled and not is_taken(str(name_or_path), self.runs):
            if self.annotations not in (None, SAMPLE):
                raise UsageError("the sample has its own annotations; omit --annotations")
            return bundled
        found = find_captions(name_or_path, self.runs)
        if isinstance(found, Path):
            name = found.stem if self.run is None else self.run
            return [self._file(found, self.annotations, name)]
        if self.run and self.run != found.name:
            raise InputError("is already a run; --run is for captions files", file=name_or_path)
        return [self._folder(found)]

    def _file(self, path: Path, annotations: str | None, name: str) -> Target:
        if is_bundled(name) and annotations != SAMPLE:
            raise UsageError(
                f"{path}: run names that begin with {SAMPLE}- are the bundled sample's; "
                "choose another with --run"
            )
        load = partial(
            from_file,
            *(path, annotations),
            runs=self.runs,
            name=name,
            ignore_unknown=self.ignore_unknown,
            columns=self.columns,
            replaces=self.replaces,
        )
        return self._target(RunFolder(self.runs / run_name(name)), path, load)

    def _folder(self, run: RunFolder, *, is_named: bool = True) -> Target:
        if self.replaces:
            raise UsageError(f"{run} is a run; --replace-captions needs the file of its captions")
        load = partial(from_run, run, self.annotations, ignore_unknown=self.ignore_unknown)
        return self._target(run, run.path, load, is_named=is_named)

    def _target(
        self, run: RunFolder, path: Path, load: Callable[[], Source], *, is_named: bool = True
    ) -> Target:
        is_sample = run.name in sample_captions() and self.annotations in (None, SAMPLE)
        return Target(run.name, load, run, path, is_named, is_sample)

    def _sample(self) -> list[Target]:
        return [self._file(path, SAMPLE, name) for name, path in sample_captions().items()]
