"""Ask a model about videos and store its replies: captions, or answers to questions.

A process appends to the run's files, or as a shard to its own; all of them are read. The whole run,
or the last shard to finish, writes one file of each name, in order, and removes the shards' files.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar
from uuid import uuid4

from capeval.captioners.catalogue import OpenCaptioner
from capeval.captioners.pipeline import Job, caption_videos, estimate_generation
from capeval.captioners.protocol import Captioned, Outcome
from capeval.errors import BudgetReached, EndpointDown, InputError, RunLocked, VideoError
from capeval.files.annotations import VideoFolder, none_found
from capeval.files.jsonl import dumps, numbered_lines, short_hash, write_jsonl
from capeval.runs.engine import (
    Done,
    Finished,
    Labels,
    Left,
    Locks,
    LongWork,
    Plan,
    Progress,
    ResumableTask,
    Spent,
    Stored,
    WorkEstimate,
    execute,
)
from capeval.runs.folder import RunFolder, Shard, file_of, shards_in
from capeval.schema import Usage
from capeval.show.result import Result
from capeval.text import Loss, counted, cut, listed, one_line, shown
from capeval.version import __version__
from capeval.video import FrameReader
from capeval.video.decoding import file_size

_WAIT_FOR_OTHERS = 60.0
"""Seconds that a shard waits for others to write the manifest or the whole run."""

ValueT = TypeVar("ValueT")


@dataclass(frozen=True)
class StoredPlan(Plan[Stored[ValueT]]):
    """The stored replies, and the items left to ask.

    `run_id` identifies this run, whatever its name, so that no other run gets its cached replies.
    `outdated` replies are about an earlier state of their items; `missing` says by item why its
    video was not found.
    """

    settings: Mapping[str, Any]
    run_id: str
    outdated: Mapping[str, Stored[ValueT]]
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StoredResult(Result):
    """The replies of a run or shard.

    A subclass sets the words for one reply and for several, the name of the finished file, the
    reason of an item that a stopped run did not reach, the next command, and the field that only it
    shows in JSON. `left` says why some of the `asked` items have no reply; `new` replies were added
    by this call. The `cost` is None for a model in this process.
    """

    labels: ClassVar[Labels]
    replies: ClassVar[tuple[str, str]]
    name: ClassVar[str]
    not_reached: ClassVar[str]
    then: ClassVar[str]
    detail: ClassVar[str]

    run: RunFolder
    shown_run: str
    shard: Shard | None
    asked: int
    left: Mapping[str, str]
    new: int
    usage: Usage
    stopped: BudgetReached | EndpointDown | None
    cost: float | None = field(default=None, kw_only=True)

    @property
    @abstractmethod
    def calls(self) -> Iterable[Mapping[str, Any]]:
        """The record of each reply: its model, its warnings."""

    @property
    def file(self) -> Path:
        return self.run.path / f"{self.name}.jsonl"

    @property
    def warnings(self) -> dict[str, int]:
        """The number of replies with each warning, the most common first."""
        found = (text for record in self.calls for text in record.get("warnings") or ())
        return dict(Counter(found).most_common())

    @property
    def revisions(self) -> list[str]:
        return sorted({str(r) for record in self.calls if (r := record.get("revision"))})

    @property
    def lacks(self) -> Left:
        failed = {index: why for index, why in self.left.items() if why != self.not_reached}
        missing = len(self.left) - len(failed)
        return Left(self.run.name, self.labels, failed, self.asked, missing, self.stopped)

    @property
    def files(self) -> list[str]:
        if self.shard:
            last = f"The last shard to finish writes {self.file}"
            return [f"{last}; the same command without --shard does so too"]
        return [str(self.file), f"{self.then} {self.shown_run}"] if self.file.exists() else []

    def headline(self) -> str:
        run, labels, usage = self.run.name, self.labels, self.usage
        shard = f" (shard {self.shard})" if self.shard else ""
        done = self.asked - len(self.left)
        new = f", {self.new:,} of them new" if self.new < done else ""
        lines = [f"{run}{shard}: {labels.done} {done:,}/{self.asked:,}{new}"]
        for warning, count in list(self.warnings.items())[:5]:
            lines.append(f"{run}: {counted(count, *self.replies)} with a warning: {warning}")
        if len(self.revisions) > 1:
            lines.append(f"{run}: written by {' and '.join(self.revisions[:5])}")
        if self.cost is None and usage.output_tokens:
            lines.append(f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out")
        return "\n".join(one_line(line, 600) for line in lines)

    def as_json(self) -> dict[str, Any]:
        return {
            "run": self.shown_run,
            self.name: str(self.file) if self.file.exists() else None,
            "shard": str(self.shard) if self.shard else None,
            "asked": self.asked,
            self.labels.done: self.asked - len(self.left),
            "new": self.new,
            self.labels.failed: dict(self.left),
            "warnings": self.warnings,
            "revisions": self.revisions,
            "usage": self.usage.model_dump(),
            "cost": self.cost,
            "stopped": str(self.stopped) if self.stopped else None,
            self.detail: getattr(self, self.detail),
        }


ResultT = TypeVar("ResultT", bound=StoredResult)


@dataclass
class StoredWork(
    LongWork[ResultT],
    ResumableTask[StoredPlan[ValueT], Stored[ValueT]],
    Generic[ValueT, ResultT],
):
    """Asks a model about the items of a run that have no reply.

    A subclass sets the title and the fields that the constructor does not take.

    Attributes
    ----------
    names : the files, without their endings; the last one has the failures
    to_do : the verb of the work, such as "caption"
    outdated : the notice about items whose stored reply is no longer valid
    tokens : the expected tokens of a reply; None for those of a caption
    videos : None if the model sees none
    items : the video of each item, in order
    selected : the items that filters leave, for all shards
    settings : all that affects replies; a run has one set of them
    """

    names: ClassVar[tuple[str, ...]]
    to_do: ClassVar[str]
    outdated: ClassVar[str]
    tokens: ClassVar[int | None] = None

    run: RunFolder
    opened: OpenCaptioner
    reader: FrameReader
    usage: Usage = field(default_factory=Usage)
    shard: Shard | None = field(default=None, kw_only=True)
    videos: VideoFolder | None = field(init=False)
    items: Mapping[str, str] = field(init=False)
    selected: Sequence[str] = field(init=False)
    settings: Mapping[str, Any] = field(init=False)
    about: Mapping[str, Any] = field(init=False)
    planned: StoredPlan[ValueT] = field(init=False)

    def __post_init__(self) -> None:
        opened = self.opened
        self.captioner, self.meter = opened.captioner, opened.meter
        self.model = opened.priced if opened.base_url else ""

    @property
    def shown_run(self) -> str:
        return self.run.name

    @abstractmethod
    def read(self, value: Any, expected: str) -> Stored[ValueT]:
        """Return the outcome in a line; raises `InputError` if its settings are not `expected`."""

    def check(self, stored: Sequence[Stored[ValueT]]) -> None:
        """Raise `InputError` if the stored replies are about other items."""

    @abstractmethod
    def fits(self, stored: Stored[ValueT], video: Mapping[str, Any] | None) -> bool:
        """Return whether a stored reply is still valid: its prompt and video are the same.

        `video` is None if the file no longer exists: the stored reply stays valid.
        """

    @abstractmethod
    def job(self, index: str, path: Path, video: Mapping[str, Any]) -> Job:
        """Return the job that asks about an item."""

    @abstractmethod
    def stored(
        self, job: Job, outcome: Outcome, frames: Mapping[str, Any], settings: Mapping[str, Any]
    ) -> Stored[ValueT]:
        """Return an outcome as it is stored."""

    @abstractmethod
    def failed(self, index: str, reason: str) -> Stored[ValueT]:
        """Return the stored outcome of an item whose video was not found."""

    @abstractmethod
    def json(self, value: ValueT) -> Mapping[str, Any]:
        """Return the line of a value."""

    def remains(self, stored: Stored[ValueT]) -> bool:
        """Return whether an outdated reply is kept until there is a new one."""
        return False

    @abstractmethod
    def result(self, finished: Finished[Stored[ValueT]]) -> ResultT:
        """Return the result of this run or shard."""

    def file(self, name: str) -> Path:
        """Return a file that this process appends to."""
        return file_of(self.run.path, name, self.shard)

    def _name(self, stored: Stored[ValueT]) -> str:
        return self.names[0 if stored.reason is None else -1]

    def locked(self, *, wait: float = 0.0) -> AbstractContextManager[None]:
        """Lock the shard, or the run if none of its shards is running."""
        if self.shard:
            return self.run.locked(part=self.shard.label, wait=wait)
        return self.run.locked_whole(wait=wait)

    def kept(self) -> StoredPlan[ValueT]:
        settings = same_settings(self.run, self.settings)
        expected = short_hash(settings)
        stored: list[Stored[ValueT]] = []
        for name in self.names:
            for shard in (None, *shards_in(self.run.path)):
                file = file_of(self.run.path, name, shard)
                for where, value in numbered_lines(file):
                    try:
                        stored.append(self.read(value, expected))
                    except InputError as error:
                        raise InputError(
                            error.message, file=file, where=where, field=error.field
                        ) from None
        self.check(stored)
        made: dict[str, Stored[ValueT]] = {}
        failed: dict[str, Stored[ValueT]] = {}
        outdated: dict[str, Stored[ValueT]] = {}
        for one in stored:
            video, is_asked = None, one.index in self.items
            with suppress(VideoError):
                video = self.found(one.index)[1] if is_asked else None
            if is_asked and self.fits(one, video):
                (made if one.reason is None else failed)[one.index] = one
            elif one.reason is None:
                outdated[one.index] = one
        return StoredPlan(
            name=f"{self.run.name} (shard {self.shard})" if self.shard else self.run.name,
            kept=failed | made,
            todo=(),
            settings=settings,
            run_id=self.run.read_manifest().get("id") or uuid4().hex,
            outdated={index: one for index, one in outdated.items() if index not in made},
        )

    def found(self, index: str) -> tuple[Path, dict[str, Any]]:
        """Return the path of an item's video, and the record of it; raises `VideoError`."""
        if self.videos is None:
            return Path(), {}
        path = self.videos.find(self.items[index])
        name = path.relative_to(self.videos.path).as_posix()
        return path, {"file": name, "bytes": file_size(path)}

    def plan(self) -> StoredPlan[ValueT]:
        plan = self.kept()
        kept = dict(plan.kept)
        todo: list[Job] = []
        missing: dict[str, str] = {}
        absent: dict[str, str] = {}  # the same by video
        for index in self.chosen:
            if index in kept and kept[index].reason is None:
                continue
            try:
                todo.append(self.job(index, *self.found(index)))
            except VideoError as error:
                missing[index] = absent[self.items[index]] = str(error)
                kept[index] = self.failed(index, str(error))
        is_empty = not todo and all(one.reason is not None for one in kept.values())
        if self.videos and absent and is_empty:
            raise InputError(
                f"{none_found(absent)}; name the folder of the videos with --videos",
                file=self.videos.path,
            )
        # A video is decoded once for several questions about it. Items that failed before come
        # last: one that breaks the model does not keep it from others.
        first = {path: n for n, path in enumerate(dict.fromkeys(job.path for job in todo))}
        todo.sort(key=lambda job: (job.index in kept, first[job.path]))
        return replace(plan, kept=kept, todo=tuple(todo), missing=missing)

    def create(self, plan: StoredPlan[ValueT]) -> None:
        with ExitStack() as stack:
            if self.shard:  # shards start together, and each writes the same
                stack.enter_context(self.run.locked(wait=_WAIT_FOR_OTHERS))
                same_settings(self.run, plan.settings)
            manifest = {"id": plan.run_id} | self.run.read_manifest() | dict(self.about)
            manifest["generation"] = dict(plan.settings)
            manifest["capeval"] = __version__
            self.run.write_manifest(manifest)

    async def perform(
        self, plan: StoredPlan[ValueT], record: Callable[[Stored[ValueT]], None]
    ) -> None:
        def keep(job: Job, outcome: Outcome, frames: Mapping[str, Any]) -> None:
            if isinstance(outcome, Captioned):
                self.usage += outcome.usage
                if outcome.model == self.captioner.name:  # the folder may have been renamed
                    outcome = replace(outcome, model=plan.settings["model"])
            record(self.stored(job, outcome, frames, plan.settings))

        jobs = [replace(job, run=plan.run_id) for job in plan.todo]
        # A pool of workers reads the videos where its models are.
        ask = getattr(self.captioner, "caption_videos", caption_videos)
        await ask(jobs, self.reader, self.captioner, keep)

    def line(self, outcome: Stored[ValueT]) -> tuple[Path, Mapping[str, Any]]:
        return self.file(self._name(outcome)), self.json(outcome.value)

    def finish(self, plan: StoredPlan[ValueT], done: Mapping[str, Stored[ValueT]]) -> None:
        """Write all in order; a whole run merges its shards."""
        self.write(plan, done)
        # If killed before this line, the next run does this again.
        for shard in () if self.shard else shards_in(self.run.path):
            for name in self.names:
                file_of(self.run.path, name, shard).unlink(missing_ok=True)
            (self.run.path / f".lock.{shard.label}").unlink(missing_ok=True)

    def write(self, plan: StoredPlan[ValueT], done: Mapping[str, Stored[ValueT]]) -> None:
        """Write the files of this process, atomically and in order."""
        remaining = {
            index: one
            for index, one in plan.outdated.items()
            if self.remains(one) and (index not in done or done[index].reason is not None)
        }
        for name in self.names:
            file = self.file(name)
            lines = [
                self.json(one.value)
                for index in self.mine()
                for one in (remaining.get(index), done.get(index))
                if one is not None and self._name(one) == name
            ]
            if lines or (name == self.names[0] and file.exists()):
                write_jsonl(file, lines)
            else:
                file.unlink(missing_ok=True)

    @property
    def chosen(self) -> list[str]:
        mine = {*self.mine()}
        return [index for index in self.selected if index in mine]

    def mine(self) -> list[str]:
        shard = self.shard
        return [i for n, i in enumerate(self.items) if shard is None or shard.holds(n)]

    def spent(self) -> Spent:
        return Spent(self.usage, self.meter.spent)

    def common(self, finished: Finished[Stored[ValueT]], not_reached: str) -> dict[str, Any]:
        done = finished.done
        made = {index: one for index, one in done.items() if one.reason is None}
        return {
            "run": self.run,
            "shown_run": self.shown_run,
            "shard": self.shard,
            "asked": len(self.chosen),
            "left": {
                index: (done[index].reason if index in done else None) or not_reached
                for index in self.chosen
                if index not in made
            },
            "new": len(finished.new & made.keys()),
            "usage": self.usage,
            "stopped": finished.stopped,
            "cost": self.meter.spent if self.model else None,
        }

    async def prepare(self, locks: Locks) -> WorkEstimate:
        """Lock and plan the run; reads up to three videos and calls nothing."""
        plan, self._lock = locks.begin(self)
        self.planned, run = plan, self.shown_run
        if count := len(plan.outdated):
            again = f"{counted(count, self.labels.item)} will be {self.outdated}"
            self.notices = [Loss(f"{self.run.name}: {again}")]
        asked, todo, missing = len(self.chosen), len(plan.todo), plan.missing
        expected = estimate_generation(plan.todo, self.reader, self.opened, self.tokens)
        frames, usage = await expected
        lines = [f"{run}: {counted(todo, self.labels.item)} to {self.to_do}"]
        if missing:
            index, reason = next(iter(missing.items()))
            more = f", and {len(missing) - 1:,} more" if len(missing) > 1 else ""
            lines.append(f"{run}: no video for {index}{more}: {reason}")
        if usage.calls:
            lines.append(
                f"  about {frames} frames each, {usage.input_tokens:,} tokens in, "
                f"{usage.output_tokens:,} out; cached replies cost nothing"
            )
        details = {
            "run": run,
            "asked": asked,
            "done": asked - todo - len(missing),
            f"to_{self.to_do}": todo,
            "missing": dict(missing),
            "settings": plan.settings,
        }
        return self.estimate(usage, lines, details)

    async def results(self, progress: Progress | None = None) -> AsyncIterator[Done[ResultT]]:
        """Complete the run or shard; the last shard to finish merges all."""
        async with self.opened.running(bool(self.planned.todo)):
            with self._lock:
                finished = await execute(self, self.planned, progress)
            found = self._merged(finished)
        yield Done(found, [found.lacks], found.files)

    def _merged(self, finished: Finished[Stored[ValueT]]) -> ResultT:
        if self.shard and not finished.stopped:
            whole = replace(self, shard=None)
            with suppress(RunLocked), whole.locked(wait=_WAIT_FOR_OTHERS):
                plan = whole.kept()
                if plan.kept.keys() >= {*whole.selected}:
                    whole.finish(plan, plan.kept)
                    return whole.result(replace(finished, done=plan.kept))
        return self.result(finished)


# ---- The settings of a run, which all of its replies share ---------------------------------------

_HASH = "generation.weights.sha256"
# The most differing settings that an error names.
_NAMED = 3


def same_settings(run: RunFolder, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings to continue a run with; raises `InputError` if it has others.

    A model in a folder keeps the name that the run began with: a folder can be renamed, and a hash
    identifies its weights.
    """
    manifest = run.read_manifest()
    before = manifest.get("generation")
    if before is None:
        if run.captions.exists():
            raise InputError(
                "has captions that were not generated here; choose another --run", file=run.path
            )
        return settings
    now, then = _flat(settings), _flat(before if isinstance(before, dict) else {})
    if _HASH in now and now[_HASH] == then.get(_HASH):
        settings = {**settings, "model": then.get("model")}
        now["model"] = settings["model"]
    different = [key for key in {**then, **now} if dumps(then.get(key)) != dumps(now.get(key))]
    if different:
        changes = (f"{k} {_short(then.get(k))} (now {_short(now.get(k))})" for k in different)
        raise InputError(
            "was generated with other settings, which cannot be mixed; choose another --run, or go "
            f"back to {listed(changes, _NAMED)}",
            file=run.path,
        )
    return settings


def _short(value: Any) -> str:
    # The message is cut at 300 characters.
    return cut(shown(value), 26)


def _flat(settings: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            flat |= _flat(value, f"{before}{key}.")
        else:
            flat[f"{before}{key}"] = value
    return flat
