"""`capeval.bridge_collect`: random videos of every run, judged by both judges of a bridge."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from capeval.api.bridge_options import BridgeCollectOptions
from capeval.api.judging import Target, open_judging, targets_named
from capeval.api.sync_async import blocking
from capeval.errors import CapevalError, UsageError
from capeval.files.judgments import judgment_lines
from capeval.judging.estimate import JudgingEstimate
from capeval.judging.options import DEFAULT_PROMPTS, MODELS_OWN, JudgeOptions
from capeval.judging.registry import JUDGES, is_registered
from capeval.judging.run import JudgingWork
from capeval.judging.selection import OpenJudge, check_key
from capeval.options import takes
from capeval.runs.drawn_videos import DrawnVideos, is_sample
from capeval.runs.engine import Progress
from capeval.runs.folder import JudgeFolder, RunFolder
from capeval.runs.sources import Source
from capeval.runs.verdicts import JudgeIdentity, identity_of
from capeval.schema import Scored
from capeval.text import listed, shown
from capeval.trust.bridge_drawing import draw_for, with_record

Side = Literal["old", "new"]


@dataclass(frozen=True)
class CollectedRun:
    """One run and judge: `judged` of `drawn` videos have a verdict, `unscored` say why not.

    `new` were judged now; `stopped` says why judging ended early.
    """

    run: str
    judge: str
    drawn: int
    judged: int
    new: int
    unscored: Mapping[str, str] = field(default_factory=dict)
    stopped: CapevalError | None = None


@dataclass(frozen=True)
class Collected:
    """What `capeval.bridge_collect` did: the runs by judge, and what was spent in US dollars."""

    runs: tuple[CollectedRun, ...]
    spent: float

    @property
    def complete(self) -> bool:
        """Whether every drawn video has a verdict by both judges."""
        return all(one.judged == one.drawn for one in self.runs)


@dataclass(frozen=True)
class _Step:
    """One run to be judged by one judge: `todo` of the `drawn` videos have no verdict yet.

    `record` is False where the judge has judged, or is judging, the whole run.
    """

    target: Target
    folder: str
    drawn: DrawnVideos
    todo: int
    record: bool


@dataclass(frozen=True)
class Planned:
    """One judge's part of the work, before anything is called."""

    side: Side
    title: str
    price_name: str
    estimate: JudgingEstimate
    steps: tuple[_Step, ...]

    @property
    def todo(self) -> int:
        """Captions to judge."""
        return sum(step.todo for step in self.steps)


class Collection:
    """Collects the verdicts of two judges: first `plan`, then `results`."""

    def __init__(
        self, options: BridgeCollectOptions, on_notice: Callable[[str], None] | None = None
    ) -> None:
        self._options = options
        self._on_notice = on_notice or options.on_notice
        self._judges = {side: self._judge_options(side) for side in ("old", "new")}
        self.spent = 0.0

    async def plan(self) -> list[Planned]:
        """Draw the videos and return what each judge is to do; nothing is called or written.

        Raises
        ------
        InputError, UsageError
            A run, a judge or an earlier draw does not fit.
        """
        planned: list[Planned] = []
        sides: tuple[Side, ...] = ("old", "new")
        for side in sides:
            options = self._judges[side]
            names = [str(name) for name in self._options.judged_runs]
            targets = targets_named(names, options, on_notice=self._on_notice)
            async with open_judging(
                options, targets, offline=True, on_notice=self._on_notice
            ) as session:
                opened = session.opened
                total, steps = JudgingEstimate(cost=0.0), []
                for target in targets:
                    step, expected = await self._step(side, target, opened)
                    steps.append(step)
                    total += expected
                planned.append(
                    Planned(side, opened.judge.title, opened.judge.name, total, tuple(steps))
                )
        self._check_names(planned)
        return planned

    async def results(
        self, planned: Sequence[Planned], progress: Progress | None = None
    ) -> AsyncGenerator[CollectedRun]:
        """Judge what was planned and yield each run by each judge.

        Nothing is judged any more after a judge stopped; the rest is yielded as it was. Whoever
        does not take all results closes the generator, and with it the connections.

        Raises
        ------
        UsageError
            A judge has no key; nothing is paid for before both have one.
        """
        for part in planned:
            judge = self._judges[part.side].judge
            if not isinstance(judge, str) or is_registered(judge):
                continue
            if any(step.todo for step in part.steps):
                check_key(self._judges[part.side], judge, base_url=f"--{part.side}-base-url")
        reached: set[tuple[str, str]] = set()
        async with aclosing(self._until_stopped(planned, progress)) as judged:
            async for one in judged:
                reached.add((one.run, one.judge))
                yield one
        for step in (step for part in planned for step in part.steps):
            if (step.target.name, step.folder) not in reached:
                n = step.drawn.n
                yield CollectedRun(step.target.name, step.folder, n, n - step.todo, new=0)

    async def _until_stopped(
        self, planned: Sequence[Planned], progress: Progress | None
    ) -> AsyncGenerator[CollectedRun]:
        for part in planned:
            groups: dict[tuple[str, ...], list[_Step]] = {}
            for step in part.steps:
                groups.setdefault(step.drawn.indexes if step.todo else (), []).append(step)
            for step in groups.pop((), []):
                self._record(step)
                yield CollectedRun(step.target.name, step.folder, step.drawn.n, step.drawn.n, new=0)
            for indexes, steps in groups.items():
                async with aclosing(self._judge(part.side, indexes, steps, progress)) as judged:
                    async for one in judged:
                        yield one
                        if one.stopped:
                            return

    async def _judge(
        self,
        side: Side,
        indexes: Sequence[str],
        steps: Sequence[_Step],
        progress: Progress | None,
    ) -> AsyncGenerator[CollectedRun]:
        options = replace(self._judges[side], only=tuple(indexes))
        if options.max_cost is not None:
            options = replace(options, max_cost=max(0.0, options.max_cost - self.spent))
        targets = [step.target for step in steps]
        async with open_judging(options, targets, on_notice=self._on_notice) as session:
            folders: dict[str, JudgeFolder] = {}
            for step, target in zip(steps, targets, strict=True):
                run = target.load().run
                if run is not None:
                    folders[target.name] = _folder(run, session.opened)
                load = partial(_load_drawn, target, session.opened, step)
                session.targets[targets.index(target)] = replace(target, load=load)
            try:
                async for result in session.results(progress):
                    step = next(one for one in steps if one.target.name == result.name)
                    missing = len(result.unscored) + result.not_reached
                    yield CollectedRun(
                        result.name,
                        step.folder,
                        step.drawn.n,
                        step.drawn.n - missing,
                        new=step.todo - missing,
                        unscored=result.unscored,
                        stopped=result.stopped,
                    )
            finally:
                self.spent += session.opened.meter.spent

    async def _step(
        self, side: Side, target: Target, opened: OpenJudge
    ) -> tuple[_Step, JudgingEstimate]:
        o, source = self._options, target.load()
        if source.run is None:
            raise UsageError(f"{target.name}: only the captions of a run can be collected for")
        folder = _folder(source.run, opened)
        drawn = draw_for(source, folder, o.videos, o.seed)
        if folder.has_verdicts() and (folder.repeats or o.repeats) != o.repeats:
            raise UsageError(
                f"{folder.path}: its judge was asked for {folder.repeats} repeats; collect with "
                f"--repeats {folder.repeats}"
            )
        work = JudgingWork(source, opened, repeats=o.repeats, only=drawn.indexes)
        plan = work.plan()
        scored = sum(isinstance(one, Scored) for one in plan.kept.values())
        # Of a judge that judges the whole run, a part is no sample; OLD's unfinished part is.
        whole = scored >= len(source.captions) or (
            side == "new" and folder.has_verdicts() and not is_sample(folder)
        )
        step = _Step(target, folder.path.name, drawn, len(plan.todo), record=not whole)
        return step, await work.estimate(plan)

    def _record(self, step: _Step) -> None:
        """Record a draw whose videos are all judged already."""
        run = step.target.load().run
        if step.record and run is not None:
            step.drawn.write(JudgeFolder(run.path / step.folder))

    def _judge_options(self, side: Side) -> JudgeOptions:
        o = self._options
        judge = o.old if side == "old" else o.new
        prompts: str | Path = DEFAULT_PROMPTS
        reasoning: Any = o.old_reasoning if side == "old" else o.new_reasoning
        if isinstance(judge, str):
            named = _judge_named(judge, Path(o.runs), self._on_notice)
            judge, prompts, reasoning = named.judge, named.prompts, reasoning or named.reasoning
        return JudgeOptions(
            captions={},
            annotations=o.annotations,
            judge=judge,
            base_url=o.old_base_url if side == "old" else o.new_base_url,
            prompts=(o.old_prompts if side == "old" else o.new_prompts) or prompts,
            reasoning=reasoning,
            repeats=o.repeats,
            runs=o.runs,
            max_cost=o.max_cost,
            max_concurrency=o.max_concurrency,
            timeout=o.timeout,
            api_key=o.api_key,
            cache=o.cache,
            client=o.client,
        )

    def _check_names(self, planned: Sequence[Planned]) -> None:
        old, new = ({step.folder for step in part.steps} for part in planned)
        if old & new:
            raise UsageError(f"OLD and NEW are both {listed(sorted(old & new))}; name two judges")


def _folder(run: RunFolder, opened: OpenJudge) -> JudgeFolder:
    return opened.folder_in(run)


def _load_drawn(target: Target, opened: OpenJudge, step: _Step) -> Source:
    source = target.load()
    if source.run is None:
        return source
    return with_record(source, _folder(source.run, opened), step.drawn if step.record else None)


@dataclass(frozen=True)
class _Named:
    judge: str
    prompts: str = DEFAULT_PROMPTS
    reasoning: str | None = None


def _judge_named(typed: str, runs: Path, on_notice: Callable[[str], None]) -> _Named:
    """Return the judge that a name means: that of a folder that there is, or as typed.

    A name with its prompts is complete, and no beginning of another.
    """
    if is_registered(typed):
        return _Named(typed)
    judge, at, rest = typed.partition("@")
    found = {
        (made.judge, made.prompts, made.reasoning)
        for run in RunFolder.all(runs)
        for folder in run.judges(typed)
        if not at or folder.path.name == typed
        for made in [_made_by(folder)]
        if made is not None
    }
    if len(found) > 1:
        names = sorted("@".join(filter(None, one)) for one in found)
        raise UsageError(f"{shown(typed)} can mean {listed(names)}; name one of these")
    if not found:
        prompts, _, effort = rest.partition("@")
        return _Named(judge, prompts or DEFAULT_PROMPTS, effort or None)
    known, label, effort_made = found.pop()
    if label is None:
        # The name of a judge without prompts ends in its version; it is registered without.
        base = known.rpartition("-")[0]
        return _Named(base if base in JUDGES else known)
    if known != judge:
        on_notice(f"{typed} is taken for {known}, prompts {label}, which runs here have")
    return _Named(known, label.rpartition("@")[0] or label, effort_made or MODELS_OWN)


def _made_by(folder: JudgeFolder) -> JudgeIdentity | None:
    return next((identity_of(one) for one in judgment_lines(folder.judgments)), None)


@takes(BridgeCollectOptions)
async def bridge_collect_async(options: BridgeCollectOptions) -> Collected:
    """Draw random videos of every run, and have both judges judge those that they have not judged.

    The draw is recorded in the judge's folder (`anchors.json`), so that later commands know the
    videos for a random sample. A repeated call does only what is missing.

    Raises
    ------
    InputError, UsageError
        A run, a judge or an earlier draw does not fit.
    EndpointRefused, EndpointDown, BudgetReached
        Judging had to stop; what was done is kept.

    Example
    -------
    >>> import capeval
    >>> capeval.bridge_collect("lexical", "lexical", ["no-run"])
    Traceback (most recent call last):
      ...
    capeval.errors.InputError: no-run: is neither a captions file nor a run under runs/
    """
    collection = Collection(options)
    found: list[CollectedRun] = []
    planned = await collection.plan()
    async with aclosing(collection.results(planned, options.progress)) as results:
        async for one in results:
            found.append(one)
            if one.stopped:
                raise one.stopped
    return Collected(tuple(found), collection.spent)


bridge_collect = blocking(bridge_collect_async)
