"""`capeval.evaluate`: from models or captions to reports. `capeval eval` runs the same session."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from capeval.api import FilePath, Notices, ignore
from capeval.api.generating import open_generating, run_folder, wanted_videos
from capeval.api.judging import JudgingSession, open_judging, targets_of
from capeval.api.long_work import Estimate, Left, LongWork, finished
from capeval.api.reports import report
from capeval.api.run_options import EvaluateOptions
from capeval.api.sync_async import blocking
from capeval.api.targets import Target
from capeval.captioners.catalogue import ModelEntry
from capeval.captioners.options import GenerateOptions
from capeval.captioners.selection import choose_model
from capeval.errors import InputError, UsageError
from capeval.judging.options import JudgeOptions
from capeval.llm.meter import Meter
from capeval.options import takes
from capeval.reporting.numbers import money
from capeval.runs.concurrency import in_thread, in_turn
from capeval.runs.engine import Progress
from capeval.runs.folder import RunFolder
from capeval.runs.sources import SAMPLE, Source, annotations_of, from_run
from capeval.schema import Caption, Usage
from capeval.scoring import Scores
from capeval.text import counted

T = TypeVar("T")

# About 300 tokens: a dense caption of a short clip, as the estimate of generating assumes.
_STAND_IN = "A man walks. " * 92


@dataclass(frozen=True)
class Evaluated:
    """What one run has now, and the captions and verdicts that are `missing`.

    `scores`, their `file` and the `report` are None if nothing could be judged.
    """

    name: str
    missing: Sequence[Left]
    scores: Scores | None = None
    file: Path | None = None
    report: Path | None = None


@takes(EvaluateOptions)
async def evaluate_async(options: EvaluateOptions) -> list[Evaluated]:
    """Do what models or captions lack until there is a report: generate, judge, score, report.

    Raises
    ------
    InputError, UsageError
        The inputs or options are not right.
    EndpointRefused, EndpointDown, BudgetReached
        The work had to stop; what was done is kept.
    """
    opening = open_evaluating(options, on_notice=options.on_notice)
    return await finished(opening, options.progress)


evaluate = blocking(evaluate_async)


@dataclass
class _Step:
    """One run: how its captions are read, and the model that writes those it lacks, if any.

    `todo` are the videos to caption; `expected` is what that takes, by a model `priced` so.
    """

    name: str
    load: Callable[[], Source]
    model: GenerateOptions | None = None
    todo: Sequence[str] = ()
    expected: Estimate = field(default_factory=Estimate)
    priced: str = ""

    async def plan(
        self, model: GenerateOptions, entry: ModelEntry, on_notice: Notices, *, dry_run: bool
    ) -> None:
        """Find out what is to be captioned; a model in this process is not loaded for that."""
        missing: Mapping[str, str] = {}
        if entry.reached != "endpoint" and not model.serve:
            captions = run_folder(model, entry.name).read_captions()
            done = {one.index for one in captions if not one.is_empty}
            wanted = wanted_videos(model, entry.prompt).chosen()
            self.todo = [one.index for one in wanted if one.index not in done]
            line = f"{self.name}: {counted(len(self.todo), 'video')} to caption"
            self.expected = Estimate(todo=[line], details={"to_caption": len(self.todo)})
        else:
            notices = on_notice if dry_run else ignore
            async with open_generating(model, on_notice=notices, dry_run=True) as asking:
                for line in (asking.title, *asking.notices):
                    on_notice(line)
                missing, self.todo = asking.plan.missing, [job.index for job in asking.plan.todo]
                self.expected, self.priced = await asking.estimate(), asking.model
            if self.todo and not (dry_run or model.serve):
                # A missing key or server is found before another model has worked for hours.
                async with open_generating(model):
                    pass
        if self.todo or missing:
            self.model = model

    def assumed(self) -> Source:
        """Return the captions, with a stand-in for each that is not generated yet."""
        source = self.load()
        kept = [caption for caption in source.captions if caption.index not in self.todo]
        made = [Caption(index=index, caption=_STAND_IN) for index in self.todo]
        return replace(source, captions=(*kept, *made), is_assumed=bool(made))


class EvaluatingSession(LongWork[Evaluated]):
    """One open judge, and the runs to caption, judge and report."""

    caches_replies = True

    def __init__(
        self, o: EvaluateOptions, steps: Sequence[_Step], judge: JudgingSession, notify: Notices
    ) -> None:
        self._options, self._steps, self._judge, self._notify = o, steps, judge, notify
        self.title, self.model, self.thinks = judge.title, judge.model, judge.thinks
        self.meter = Meter(cap=o.max_cost)

    async def estimate(self) -> Estimate:
        """Return all that there is to do; the lengths of captions to come are assumed."""
        parts: list[tuple[str, str, Estimate]] = []
        for step in self._steps:
            if step.model:
                parts.append(("generate", step.priced, step.expected))
            judging = await self._session(step.name, step.assumed).estimate()
            parts.append(("judge", self.model, judging))
            parts.append(("report", "", Estimate(todo=[f"{step.name}: to report"])))
        estimates = [part for _, _, part in parts]
        known = sum(part.cost or 0.0 for part in estimates)
        unpriced = dict.fromkeys(model for _, model, part in parts if part.cost is None)
        return Estimate(
            sum(part.calls for part in estimates),
            sum((part.usage for part in estimates), Usage()),
            None if unpriced else known,
            [line for part in estimates for line in _lines(part)],
            {"steps": [{"step": n, **part.details, "cost": part.cost} for n, _, part in parts]},
            [step.name for step in self._steps],
            [*unpriced],
            known,
        )

    async def results(self, progress: Progress | None = None) -> AsyncIterator[Evaluated]:
        """Caption, judge and report run after run; the last two may have been stopped."""

        def is_stopped(result: Evaluated) -> bool:
            return any(left.stopped for left in result.missing)

        try:
            work = partial(self._evaluated, progress)
            async for result in in_turn(self._steps, work, is_last=is_stopped):
                yield result
        finally:
            self.meter.include(self._judge.meter)

    async def _evaluated(
        self, progress: Progress | None, step: _Step, none_left: Callable[[], None]
    ) -> Evaluated:
        missing: list[Left] = []
        if step.model:
            room = self._room()
            if room is not None:  # what the judge has spent is counted at the end
                room = max(0.0, room - self._judge.meter.spent)
            model = replace(step.model, max_cost=room)
            async with open_generating(model, on_notice=self._notify) as asking:
                (made,) = [one async for one in asking.results(progress)]
                missing += asking.left(made)
            self.meter.include(asking.meter)
            if made.stopped or not made.captions:
                return Evaluated(step.name, missing)
        self._judge.meter.cap = self._room()
        # What a model may cost depends on what the judge has spent.
        alone = self.meter.cap is not None and any(one.model for one in self._steps)
        go_on = (lambda: None) if alone else none_left
        judged = await self._judge.judged(progress, Target(step.name, step.load), go_on)
        missing += self._judge.left(judged)
        file, scores = judged.file, judged.scores
        if len(self._steps) > 1:
            scores = judged.without_videos().scores
        if file is None or not scores.counts.scored:
            return Evaluated(step.name, missing, scores, file)
        o = self._options
        typed = {"videos": o.videos, "annotations": o.annotations, "runs": o.runs}
        more: dict[str, Any] = _with_defaults(dict, o.reporting, **typed)
        work = partial(report, [file.parent], on_notice=self._notify, **more)
        written = await in_thread(work)
        return Evaluated(step.name, missing, scores, file, written.file)

    def left(self, result: Evaluated) -> Sequence[Left]:
        """Return what a run lacks."""
        return result.missing

    def written(self, result: Evaluated) -> list[str]:  # noqa: ARG002
        """Return nothing: the table of results has the reports."""
        return []

    def _room(self) -> float | None:
        """Return what may still be spent besides what models have cost."""
        cap = self.meter.cap
        return None if cap is None else max(0.0, cap - self.meter.spent)

    def _session(self, name: str, load: Callable[[], Source]) -> JudgingSession:
        return self._judge.of([Target(name, load)])


@asynccontextmanager
async def open_evaluating(
    options: EvaluateOptions, *, on_notice: Notices = ignore, dry_run: bool = False
) -> AsyncIterator[EvaluatingSession]:
    """Check all inputs, find out what is left to do, and open the judge.

    With `dry_run`, no key is needed and nothing is called.
    """
    shown: set[str] = set()

    def once(notice: str) -> None:
        # A run is planned, captioned and judged, and each says so.
        if notice not in shown:
            shown.add(notice)
            on_notice(notice)

    o = options
    if not o.targets:
        raise UsageError("name a model, a run or a captions file")
    common = {"annotations": o.annotations, "limit": o.limit, "max_cost": o.max_cost}
    judge: dict[str, Any] = {"captions": {}, "judge": o.judge, "base_url": o.judge_url}
    judge |= {"columns": o.columns}
    judging = _with_defaults(JudgeOptions, o.judging, **common, **judge, runs=o.runs)
    model = {"base_url": o.model_url, "serve": o.serve or None, "videos": o.videos}
    generating = _with_defaults(GenerateOptions, o.generating, **common, **model, runs=o.runs)
    steps: list[_Step] = []
    for target in o.targets:
        steps += await _steps(target, generating, judging, once, dry_run=dry_run)
    name, count = Counter(step.name for step in steps).most_common(1)[0]
    if count > 1:
        raise UsageError(f"{count} of the arguments are the run {name!r}")
    targets = [Target(step.name, step.assumed) for step in steps]
    async with open_judging(judging, targets, offline=dry_run, on_notice=once) as session:
        yield EvaluatingSession(o, steps, session, once)


def _with_defaults(kind: Callable[..., T], more: Mapping[str, Any] | None, **own: Any) -> T:
    """Return the options of a step: those of `own` that are given, else those of `more`."""
    given = {name: value for name, value in own.items() if value is not None}
    return kind(**{**(more or {}), **given})


async def _steps(
    target: FilePath,
    generating: GenerateOptions,
    judging: JudgeOptions,
    on_notice: Notices,
    *,
    dry_run: bool,
) -> list[_Step]:
    """Return what a target means: captions if they exist, else a model that writes them.

    A run that the model of its name has begun is finished by that model.
    """
    # A path stays one: "ours" could be the name of a model, where "/home/me/ours" cannot.
    name = target if isinstance(target, str) else str(target.absolute())
    model, entry = replace(generating, model=name), None
    found, why = list[Target](), ""
    try:
        found = targets_of(judging).of(target)
    except InputError as error:
        why = str(error)
    try:
        entry = choose_model(model)
    except UsageError as error:
        if not found:
            raise UsageError(f"{why}; nor is it a model: {error}") from None
    made = RunFolder(found[0].path).read_manifest().get("generation") if found else None
    writer = made.get("model") if isinstance(made, dict) else None
    if entry is None or (found and writer != entry.name):
        return [_Step(one.name, one.load) for one in found]
    run, annotations = run_folder(model, entry.name), str(model.annotations or SAMPLE)

    def load() -> Source:
        if run.exists():
            return from_run(run, annotations)
        return Source(run.name, run, annotations_of(annotations), (), annotations)

    step = _Step(run.name, load)
    await step.plan(model, entry, on_notice, dry_run=dry_run)
    return [step]


def _lines(part: Estimate) -> list[str]:
    first, *others = part.todo
    if part.cost is None:
        first += ", at a price that is not known"
    elif part.cost:
        first += f", about {money(part.cost)}"
    return [first, *others]
