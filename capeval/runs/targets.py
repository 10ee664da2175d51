"""The runs and captions files that a command works on, each loaded when it is needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from capeval.errors import UsageError
from capeval.files.jsonl import reading
from capeval.options import FilePath, Notices
from capeval.runs.folder import RunFolder
from capeval.runs.resolve import attempt, find_captions, is_taken
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

R = TypeVar("R")


@dataclass(frozen=True)
class Target:
    """Captions to work on, loaded when they are needed: hundreds of runs may not fit in memory.

    `named` is False for a run that the user did not name: if it cannot be read, it is left out.
    `path` is its folder or file, if it has one.
    """

    name: str
    load: Callable[[], Source]
    named: bool = True
    path: Path = Path()


def work_on(
    targets: Sequence[Target], work: Callable[[Target], R], on_notice: Notices
) -> Iterator[R]:
    """Yield what some work makes of each target; see `attempt` for targets that nobody named."""
    for one in targets:
        if one.named:
            with reading():
                result = work(one)
            yield result
    yield from attempt(work, [one for one in targets if not one.named], on_notice)


@dataclass(frozen=True)
class Targets:
    """Finds targets by what the user names; the fields are options of the command."""

    runs: Path
    annotations: str | None
    ignore_unknown: bool
    run: str | None = None
    columns: Mapping[str, str] | None = None

    def named(self, names: Sequence[FilePath], doing: str, on_notice: Notices) -> list[Target]:
        """Return what is named; without a name every run, or the sample."""
        if self.run is not None and len(names) != 1:
            raise UsageError("--run names the run of one captions file; name that file alone")
        targets = [target for name in names for target in self.of(name)]
        if not names:
            every = RunFolder.all(self.runs)
            mine = [run for run in every if not is_bundled(run.name)]
            targets = [self._folder(run, named=False) for run in mine]
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
            what = f"{count} of the arguments are the run {name!r}"
            raise UsageError(f"{what}; name each once, and files of one name apart")
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
            raise UsageError(f"{name_or_path} is a run already; --run names that of a file")
        return [self._folder(found)]

    def _file(self, path: Path, annotations: str | None, name: str) -> Target:
        if is_bundled(name) and annotations != SAMPLE:
            raise UsageError(
                f"{path}: run names that begin with {SAMPLE}- are the bundled sample's; "
                "choose another with --run"
            )
        ignore = self.ignore_unknown
        load = partial(
            from_file, runs=self.runs, name=name, ignore_unknown=ignore, columns=self.columns
        )
        return Target(run_name(name), partial(load, path, annotations), path=path)

    def _folder(self, run: RunFolder, *, named: bool = True) -> Target:
        load = partial(from_run, run, self.annotations, ignore_unknown=self.ignore_unknown)
        return Target(run.name, load, named, run.path)

    def _sample(self) -> list[Target]:
        return [self._file(path, SAMPLE, name) for name, path in sample_captions().items()]
