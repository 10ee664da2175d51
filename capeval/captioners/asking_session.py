"""A model and the run that it writes: captions, or answers to questions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from capeval.captioners.catalogue import OpenCaptioner
from capeval.captioners.options import CaptionerOptions
from capeval.captioners.selection import estimate_generation, open_captioner
from capeval.captioners.stored_work import StoredPlan, StoredResult, StoredWork, complete
from capeval.runs.engine import Progress
from capeval.runs.folder import RunFolder
from capeval.runs.long_work import Estimate, Left, LongWork
from capeval.text import Loss, counted

ValueT = TypeVar("ValueT")
ResultT = TypeVar("ResultT", bound=StoredResult)


@dataclass(frozen=True)
class Phrases:
    """How one of the two commands names what it does.

    Attributes
    ----------
    to_do : what is done to an item, such as "caption"
    replies : one reply, and several
    outdated : what is done to items whose stored reply no longer holds, and why
    then : the command that takes the finished run
    detail : the field of the result that only this command shows in JSON
    tokens : how many tokens a reply has; None if as many as a caption
    by_path : whether the next command takes the run's path, and not its name
    """

    to_do: str
    replies: tuple[str, str]
    outdated: str
    then: str
    detail: str
    tokens: int | None = None
    by_path: bool = False

    def run(self, run: RunFolder) -> str:
        """Return a run as the next command takes it."""
        return str(run) if self.by_path else run.name


class AskingSession(LongWork[ResultT], Generic[ValueT, ResultT]):
    """One opened model and its work; `plan` is what the run lacks, `seen` what the model sees."""

    def __init__(
        self,
        work: StoredWork[ValueT, ResultT],
        opened: OpenCaptioner,
        phrases: Phrases,
        seen: str,
    ) -> None:
        self.work, self.opened, self.phrases, self.meter = work, opened, phrases, opened.meter
        self.plan: StoredPlan[ValueT] = work.plan()
        where = f" at {opened.base_url}" if opened.base_url else ""
        self.title = f"Model: {opened.captioner.name}{where}, {seen}"
        self.model = opened.priced if opened.base_url else ""
        self.notices = [
            Loss(f"{work.run.name}: {counted(count, work.labels.item)} will be {phrases.outdated}")
            for count in (len(self.plan.outdated),)
            if count
        ]

    async def estimate(self) -> Estimate:
        """Return what there is to do; reads up to three videos and calls nothing."""
        plan, phrases, run = self.plan, self.phrases, self.phrases.run(self.work.run)
        todo, missing = len(plan.todo), plan.missing
        expected = await estimate_generation(
            plan.todo, self.work.reader, self.opened, phrases.tokens
        )
        usage = expected.usage
        lines = [f"{run}: {counted(todo, self.work.labels.item)} to {phrases.to_do}"]
        if missing:
            index, reason = next(iter(missing.items()))
            more = f", and {len(missing) - 1:,} more" if len(missing) > 1 else ""
            lines.append(f"{run}: no video for {index}{more}: {reason}")
        if usage.calls:
            lines.append(
                f"  about {expected.frames} frames each, {usage.input_tokens:,} tokens in, "
                f"{usage.output_tokens:,} out; what is in the cache costs nothing"
            )
        details = {
            "run": run,
            "asked": plan.asked,
            "done": plan.asked - todo - len(missing),
            f"to_{phrases.to_do}": todo,
            "missing": dict(missing),
            "settings": plan.settings,
        }
        return Estimate(todo if self.model else 0, usage, expected.cost, lines, details)

    async def results(self, progress: Progress | None = None) -> AsyncIterator[ResultT]:
        """Ask what is left; the last shard to finish merges all."""
        yield await complete(self.work, progress)

    def left(self, result: ResultT) -> list[Left]:
        """Return the items without a reply."""
        not_reached = self.work.not_reached
        failed = {index: why for index, why in result.left.items() if why != not_reached}
        missing = len(result.left) - len(failed)
        run, labels = result.run.name, self.work.labels
        return [Left(run, labels, failed, result.asked, missing, result.stopped)]

    def written(self, result: ResultT) -> list[str]:
        """Return the run's file and the command that takes it."""
        if result.shard:
            last = f"The last shard to finish writes {result.file}"
            return [f"{last}; the same command without --shard does so too"]
        if not result.file.exists():
            return []
        return [str(result.file), f"{self.phrases.then} {self.phrases.run(result.run)}"]


@asynccontextmanager
async def open_session(
    options: CaptionerOptions,
    run: RunFolder | None,
    session: Callable[[OpenCaptioner], AskingSession[ValueT, ResultT]],
    *,
    on_notice: Callable[[str], None],
    dry_run: bool,
) -> AsyncIterator[AskingSession[ValueT, ResultT]]:
    """Open the captioner for a session with it; `run` is None where only the server names it.

    A server takes minutes to start: what needs none is done without, and what is wrong is found
    before.
    """
    if options.serve and not dry_run:
        async with open_captioner(options, dry_run=run) as opened:
            found = session(opened)
            with found.work.locked():
                is_done = not found.plan.todo
            if is_done:
                yield found
                return
    async with open_captioner(
        options, on_notice=on_notice, dry_run=run if dry_run else None
    ) as opened:
        yield session(opened)
