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
from capeval.api.evaluate_options import EvaluateOptions
from capeval.api.generating import open_generating, run_folder, wanted_videos
from capeval.api.judging import JudgingSession, open_judging, targets_of
from capeval.api.long_work import Estimate, Left, LongWork, finished
from capeval.api.reports import report
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
from capeval.runs.concurrency import in_thread
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
    """What one run has now.

    Attributes
    ----------
    scores, file : the scores and their scores.json; None if nothing could be judged
    report : the HTML file, if there are scores
    missing : the captions and verdicts that it lacks, and why
    """

    name: str
    scores: Scores | None
    file: Path | None
    report: Path | None
    missing: Sequence[Left]


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

    `todo` are the videos to caption; `expected` is what that takes, by a model that is `priced` by
    this name.
    """

    name: str
    load: Callable[[], Source]
    model: GenerateOptions | None = None
    todo: Sequence[str] = ()
    expected: Estimate = field(default_factory=Estimate)
    priced: str = ""

    async def plan(self, entry: ModelEntry, on_notice: Notices, *, dry_run: bool) -> None:
        """Find out what is to be captioned; a model in this process is not loaded for that."""
        options = self.model
        if options is None:
            return
        if entry.reached != "endpoint" and not options.serve:
            run = run_folder(options, entry.name)
            done = {one.index for one in run.read_captions() if not one.is_empty}
            chosen = wanted_videos(options, entry.prompt).chosen()
            self.todo = [one.index for one in chosen if one.index not in done]
            is_done = not self.todo
            line = f"{self.name}: {counted(len(self.todo), 'video')} to caption"
            self.expected = Estimate(todo=[line], details={"to_caption": len(self.todo)})
        else:
            notices = on_notice if dry_run else ignore
            async with open_generating(options, on_notice=notices, dry_run=True) as asking:
                for line in (asking.title, *asking.notices):
                    on_notice(line)
                self.todo = [job.index for job in asking.plan.todo]
                self.expected, self.priced = await asking.estimate(), asking.model
                is_done = not self.todo and not asking.plan.missing
            if self.todo and not (dry_run or options.serve):
                # A missing key or server is found before another model has worked for hours.
                async with open_generating(options):
                    pass
        if is_done:
            self.model = None

    def assumed(self) -> Source:
        """Return the captions, with a stand-in for each that is not generated yet."""
        source = self.load()
        kept = [caption for caption in source.captions if caption.index not in self.todo]
        made = [Caption(index=index, caption=_STAND_IN) for index in self.todo]
        return replace(source, captions=(*kept, *made))


class EvaluatingSession(LongWork[Evaluated]):
    """One open judge, and the runs to caption, judge and report, one after the other."""

    def __init__(
        self,
        options: EvaluateOptions,
        judging: JudgeOptions,
        steps: Sequence[_Step],
        judge: JudgingSession,
        on_notice: Notices,
    ) -> None:
        self._options, self._judging, self._steps = options, judging, steps
        self._opened, self._on_notice = judge.opened, on_notice
        self.title, self.model, self.thinks = judge.title, judge.model, judge.thinks
        self.caches_replies = True
        self.meter = Meter(cap=options.max_cost)

    async def estimate(self) -> Estimate:
        """Return all that there is to do; the lengths of captions to come are assumed."""
        parts: list[tuple[str, Estimate]] = []
        for step in self._steps:
            if step.model:
                parts.append(("generate", step.expected))
            judging = self._session(step.name, step.assumed)
            parts.append(("judge", await judging.estimate()))
            run = step.load().run
            file = self._opened.folder_in(run).path / "report.html" if run else None
            lines = [f"{step.name}: report to {file}"]
            parts.append(("report", Estimate(todo=lines, details={"report": str(file)})))
        cost: float | None = sum(part.cost or 0.0 for _, part in parts)
        unpriced = [step.priced for step in self._steps if step.expected.cost is None]
        unpriced += [self.model for kind, part in parts if kind == "judge" and part.cost is None]
        if unpriced and self.meter.cap is not None:
            # What has no price cannot be capped; without a cap it is only not in the sum.
            cost, self.model = None, unpriced[0]
        return Estimate(
            sum(part.calls for _, part in parts),
            sum((part.usage for _, part in parts), Usage()),
            cost,
            [line for _, part in parts for line in _lines(part)],
            {"steps": [{"step": n, **part.details, "cost": part.cost} for n, part in parts]},
            [step.name for step in self._steps],
        )

    async def results(self, progress: Progress | None = None) -> AsyncIterator[Evaluated]:
        """Caption, judge and report run after run; the last may have been stopped."""
        try:
            for step in self._steps:
                result = await self._evaluated(step, progress)
                yield result
                if any(left.stopped for left in result.missing):
                    return
        finally:
            self.meter.include(self._opened.meter)

    async def _evaluated(self, step: _Step, progress: Progress | None) -> Evaluated:
        missing: list[Left] = []
        if step.model:
            options = replace(step.model, max_cost=self._room())
            async with open_generating(options, on_notice=self._on_notice) as asking:
                (made,) = [one async for one in asking.results(progress)]
                missing += asking.left(made)
            self.meter.include(asking.meter)
            if made.stopped or not made.captions:
                return Evaluated(step.name, None, None, None, missing)
        self._opened.meter.cap = self._room()
        judging = self._session(step.name, step.load)
        (judged,) = [one async for one in judging.results(progress)]
        if len(self._steps) > 1:
            judged = judged.without_videos()
        missing += judging.left(judged)
        written = None
        if judged.file and judged.scores.counts.scored:
            more: dict[str, Any] = {"videos": self._options.videos, "on_notice": self._on_notice}
            more |= self._options.reporting or {}
            made_report = await in_thread(partial(report, [judged.file.parent], **more))
            written = made_report.file
        return Evaluated(step.name, judged.scores, judged.file, written, missing)

    def left(self, result: Evaluated) -> Sequence[Left]:
        """Return what a run lacks."""
        return result.missing

    def written(self, result: Evaluated) -> list[str]:
        """Return nothing: the summary has the report."""
        del result
        return []

    def _room(self) -> float | None:
        """Return what may still be spent besides what models have cost."""
        cap = self.meter.cap
        return None if cap is None else max(0.0, cap - self.meter.spent)

    def _session(self, name: str, load: Callable[[], Source]) -> JudgingSession:
        return JudgingSession(self._judging, [Target(name, load)], self._opened, self._on_notice)


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
    common = {"annotations": o.annotations, "limit": o.limit, "max_cost": o.max_cost}
    common["runs"] = o.runs
    judge: dict[str, Any] = {"captions": {}, "judge": o.judge, "base_url": o.judge_url}
    judging = _with_defaults(JudgeOptions, o.judging, **common, **judge)
    steps: list[_Step] = []
    for target in o.targets:
        # A path stays one: "ours" could be the name of a model, where "/home/me/ours" cannot.
        model = target if isinstance(target, str) else str(target.absolute())
        own = {"model": model, "base_url": o.model_url, "serve": o.serve or None}
        generating = _with_defaults(GenerateOptions, o.generating, **common, **own, videos=o.videos)
        for step, entry in _steps(target, generating, judging):
            if entry:
                await step.plan(entry, once, dry_run=dry_run)
            steps.append(step)
    name, count = Counter(step.name for step in steps).most_common(1)[0]
    if count > 1:
        raise UsageError(f"{count} of the arguments are the run {name!r}")
    targets = [Target(step.name, step.assumed) for step in steps]
    async with open_judging(judging, targets, offline=dry_run, on_notice=once) as session:
        yield EvaluatingSession(o, judging, steps, session, once)


def _with_defaults(kind: Callable[..., T], more: Mapping[str, Any] | None, **own: Any) -> T:
    """Return the options of a step: those of `own` that are given, else those of `more`."""
    given = {name: value for name, value in own.items() if value is not None}
    return kind(**{**(more or {}), **given})


def _steps(
    target: FilePath, generating: GenerateOptions, judging: JudgeOptions
) -> list[tuple[_Step, ModelEntry | None]]:
    """Return what a target means, and the model that a run lacks captions of.

    It is captions if they exist; but a run that the model of that name has begun is finished.
    """
    found, entry, why = list[Target](), None, ""
    try:
        found = targets_of(judging).of(target)
    except InputError as error:
        why = str(error)
    try:
        entry = choose_model(generating)
    except UsageError as error:
        if not found:
            raise UsageError(f"{why}; nor is it a model: {error}") from None
    if entry is None or (found and not _was_made_by(entry, found[0].path)):
        return [(_Step(one.name, one.load), None) for one in found]
    run = run_folder(generating, entry.name)
    load = partial(_begun, run, str(generating.annotations or SAMPLE))
    return [(_Step(run.name, load, generating), entry)]


def _begun(run: RunFolder, annotations: str) -> Source:
    """Return the captions of a model's run, none before the first."""
    if run.exists():
        return from_run(run, annotations)
    return Source(run.name, run, annotations_of(annotations), (), annotations)


def _was_made_by(entry: ModelEntry, path: Path) -> bool:
    made = RunFolder(path).read_manifest().get("generation")
    return isinstance(made, dict) and made.get("model") == entry.name


def _lines(part: Estimate) -> list[str]:
    first, *others = part.todo
    if part.cost is None:
        first += ", at a price that is not known"
    elif part.cost:
        first += f", about {money(part.cost)}"
    return [first, *others]
