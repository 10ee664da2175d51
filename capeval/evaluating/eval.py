"""`capeval eval`: from models or captions to reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from capeval.captioners.catalogue import ModelEntry
from capeval.captioners.generate import GenerateOptions, open_generating, run_folder, wanted_videos
from capeval.captioners.opening import choose_model
from capeval.errors import InputError, UsageError
from capeval.judging.judge import JudgingSession, PlannedRun, open_judging, targets_of
from capeval.judging.protocol import RunOptions
from capeval.llm.money import Meter
from capeval.options import (
    INPUTS,
    JUDGE,
    LIMITS,
    MODEL,
    FilePath,
    Notices,
    Rule,
    columns_option,
    command,
    declares,
    frames_option,
    ignore,
    option,
    prompts_option,
    python_only,
    repeats_option,
    required,
    runs_option,
)
from capeval.reporting.report import report
from capeval.runs.concurrency import in_thread, in_turn
from capeval.runs.engine import Done, Left, Locks, LongWork, Progress, WorkEstimate, functions
from capeval.runs.folder import RunFolder
from capeval.runs.resolve import Target
from capeval.runs.sources import SAMPLE, Source, annotations_of, from_run
from capeval.schema import Caption, Usage
from capeval.scoring.scores import BASELINE_NOTE, WORDS, Scores, scores_headline
from capeval.show.numbers import money
from capeval.show.result import Result
from capeval.show.table import INTERVAL, SHARE, Page, Table, columns
from capeval.text import counted, one_line
from capeval.video import FrameReader

T = TypeVar("T")

# About 300 tokens: a dense caption of a short clip, as the estimate of generating assumes.
_STAND_IN = "A man in a dark coat walks slowly along the wet street past some parked cars. " * 15


@declares
class EvaluateOptions:
    """The arguments of `capeval.evaluate`.

    Parameters
    ----------
    targets : Models as `capeval generate --model` takes them, runs, or captions files.
    annotations : Annotations: a file, 'tuna' or 'sample'; a captions file needs them. By default
        the run's own; for a model, the sample.
    videos : The folder of the videos. By default videos/ next to the annotations.
    columns : Columns that are not called index, caption and model: index=clip,caption=text.
    limit : Only the first N videos.
    run : The name of the run, if there is one target. By default the target's name.
    model_url : The models' OpenAI-compatible server.
    serve : Start a server for each model, and stop it when the model is done.
    judge : As in `capeval judge`.
    judge_url : The judge's OpenAI-compatible server.
    judge_serve : Start the judge's server after captioning, then stop it.
    max_cost : Spend at most this in all, without asking.
    generating : Further arguments of `capeval.generate`.
    judging : Further arguments of `capeval.judge`.
    reporting : Further arguments of `capeval.report`.
    progress : Receives the status after every video.
    on_notice : Called with one line for each notice.
    """

    rules: ClassVar = (
        Rule("serve", "model_url", "--serve starts a server of its own: omit --model-url"),
        Rule("judge_serve", "judge_url", "--judge-serve starts a server: omit --judge-url"),
    )
    targets: Sequence[FilePath] = required(positional=True, metavar="MODEL")
    annotations: FilePath | None = option(None, panel=INPUTS, metavar="FILE")
    _: KW_ONLY
    videos: FilePath | None = option(None, panel=INPUTS, metavar="DIR")
    columns: Mapping[str, str] | None = columns_option(panel=INPUTS)
    limit: int | None = option(None, panel=INPUTS, metavar="N", min=1)
    run: str | None = option(None, panel=INPUTS, metavar="NAME")
    model_url: str | None = option(None, panel=MODEL, metavar="URL")
    serve: bool = option(False, panel=MODEL)
    frames: str | int | FrameReader | None = frames_option()
    judge: str | None = option(None, panel=JUDGE, metavar="NAME")
    judge_url: str | None = option(None, panel=JUDGE, metavar="URL")
    judge_serve: bool = option(False, panel=JUDGE)
    judge_prompts: FilePath | None = prompts_option(None)
    repeats: int | None = repeats_option()
    max_cost: float | None = option(None, panel=LIMITS, metavar="USD", min=0)
    generating: Mapping[str, Any] | None = python_only(None)
    judging: Mapping[str, Any] | None = python_only(None)
    reporting: Mapping[str, Any] | None = python_only(None)
    runs: FilePath = runs_option()
    progress: Progress | None = python_only(None, method="update", shown=False)
    on_notice: Notices = python_only(ignore, shown=False)


@dataclass(frozen=True)
class Evaluated:
    """The state of one run, and its `missing` captions and verdicts.

    `scores`, their `file` and the `report` are None if nothing could be judged.
    """

    name: str
    missing: Sequence[Left]
    scores: Scores | None = None
    file: Path | None = None
    report: Path | None = None


class EvaluatedRuns(list[Evaluated], Result):
    """The results of evaluating some runs, and the cost in US dollars."""

    def __init__(self, results: Sequence[Evaluated], cost: float) -> None:
        super().__init__(results)
        self._cost = cost
        self._known = {one.name: one.scores for one in results if one.scores}

    def headline(self) -> str:
        return scores_headline(self._known) if self._known else "No video has a caption yet."

    def pages(self, *, full: bool = False) -> list[Page]:
        shares = (("Captioned", SHARE), ("Scored", SHARE))
        heads = columns("Run", *shares, ("F1 [95%]", INTERVAL))
        table = Table("F1 of all elements, %", [*heads, WORDS])
        for one in self:
            row: list[object] = [None, None, None, None]
            if of := one.scores:
                counts, f1 = of.counts, of.overall.all.f1
                row = [(counts.captioned, counts.annotated), (counts.scored, counts.captioned)]
                row += [f1 if counts.scored else None, of.mean_words]
            table.rows.append([one_line(one.name), *row])
        baseline = any(of.settings.get("baseline") for of in self._known.values())
        reports = [one for one in self if one.report]
        return [
            Page(
                [table],
                notes=[
                    f"{one_line(one.name)}: {one_line(str(one.report), 600)}" for one in reports
                ],
                warnings=[BASELINE_NOTE] if baseline else [],
                signatures=[*dict.fromkeys(of.signature for of in self._known.values())],
            )
        ]

    def as_json(self) -> dict[str, Any]:
        return {"runs": [_summary(one) for one in self], "cost": self._cost}


def _summary(one: Evaluated) -> dict[str, Any]:
    scores = one.scores
    return {
        "run": one.name,
        "counts": scores.counts.model_dump() if scores else None,
        "f1": scores.overall.all.f1.model_dump() if scores else None,
        "mean_words": scores.mean_words if scores else None,
        "scores": str(one.file) if one.file else None,
        "report": str(one.report) if one.report else None,
        "left": {left.labels.failed: dict(left.reasons) for left in one.missing if left.reasons},
        "stopped": next((str(left.stopped) for left in one.missing if left.stopped), None),
    }


@dataclass
class _Step:
    """One run: its captions, and the model that writes those it lacks, until it has done so.

    `todo` are the videos to caption, and `missing` says what was left; `lock` is held until the run
    has a report.
    """

    target: Target
    model: GenerateOptions | None = None
    entry: ModelEntry | None = None
    lock: ExitStack = field(default_factory=ExitStack)
    todo: Sequence[str] = ()
    missing: list[Left] = field(default_factory=list)
    has_captions: bool = True
    to_judge: int = 0
    judging: PlannedRun = field(init=False)

    def assumed(self) -> Source:
        source = self.target.load()
        kept = [caption for caption in source.captions if caption.index not in self.todo]
        made = [Caption(index=index, caption=_STAND_IN) for index in self.todo]
        return replace(source, captions=(*kept, *made), is_assumed=bool(made))


_HELD = Locks(held=False)
"""For the steps of a run that is locked already."""


class EvaluatingSession(LongWork[Evaluated]):
    """One open judge, and the runs to caption, judge and report."""

    caches_replies = True

    def __init__(
        self, o: EvaluateOptions, steps: Sequence[_Step], judge: JudgingSession, *, dry_run: bool
    ) -> None:
        self._options, self._steps, self._judge, self._dry_run = o, steps, judge, dry_run
        self.title, self.model, self.thinks = judge.title, judge.model, judge.thinks
        self.meter = Meter(cap=o.max_cost)

    async def prepare(self, locks: Locks) -> WorkEstimate:
        """Lock the runs and plan each step; the lengths of captions to come are assumed."""
        parts: list[tuple[str, WorkEstimate]] = []
        for step in self._steps:
            if step.model and step.entry:
                run = run_folder(step.model, step.entry.name)
                step.lock = locks.hold(run.locked_whole())
                if captioning := await self._captioning(step, step.model, step.entry):
                    parts.append(("generate", captioning))
                else:
                    step.model = None
            assumed = replace(step.target, load=step.assumed)
            judging, plan = self._judge.begin(assumed, _HELD if step.entry else locks)
            keeps = not step.model and len(self._steps) == 1
            step.judging = judging if keeps else PlannedRun(step.target, judging.lock)
            step.to_judge = len(plan.todo)
            todo = {plan.name: step.to_judge}
            parts.append(("judge", self._judge.expected(todo, plan.expected)))
            parts.append(("report", WorkEstimate(todo=[f"{plan.name}: a report to write"])))
        estimates = [part for _, part in parts]
        return WorkEstimate(
            sum((part.usage for part in estimates), Usage()),
            sum(part.known for part in estimates),
            [*dict.fromkeys(model for part in estimates for model in part.unpriced)],
            [line for part in estimates for line in _lines(part)],
            {"steps": [{"step": n, **part.details, "cost": part.cost} for n, part in parts]},
            [step.target.name for step in self._steps],
        )

    async def _captioning(
        self, step: _Step, model: GenerateOptions, entry: ModelEntry
    ) -> WorkEstimate | None:
        """Plan the captions of a run; return what there is to do, if any.

        A model in this process is not loaded for that.
        """
        if entry.reached != "endpoint" and not model.serve:
            captions = run_folder(model, entry.name).read_captions()
            done = {one.index for one in captions if not one.is_empty}
            wanted = wanted_videos(model, entry.prompt).chosen
            step.todo = [one.index for one in wanted if one.index not in done]
            line = f"{step.target.name}: {counted(len(step.todo), 'video')} to caption"
            expected = WorkEstimate(todo=[line], details={"to_caption": len(step.todo)})
            return expected if step.todo else None
        on_notice = self._options.on_notice
        quiet = replace(model, on_notice=ignore)
        planned = replace(model, on_notice=on_notice) if self._dry_run else quiet
        async with open_generating(planned, dry_run=True) as asking:
            expected = await asking.prepare(_HELD)
            for line in (asking.title, *asking.notices):
                on_notice(line)
        step.todo = [job.index for job in asking.planned.todo]
        if step.todo and not self._dry_run:
            # A missing key or server is found before another model has worked for hours.
            async with open_generating(quiet):
                pass
        return expected if step.todo or asking.planned.missing else None

    async def results(self, progress: Progress | None = None) -> AsyncIterator[Done[Evaluated]]:
        """Caption, judge and report run after run; the last two may have been stopped.

        A server that is started for the judge gets the GPUs after all captions are written.
        """
        steps = self._steps
        try:
            if self._options.judge_serve:
                for count, step in enumerate(steps, start=1):
                    await self._captioned(progress, step)
                    if any(left.stopped for left in step.missing):
                        steps = steps[:count]
                        break
            needs_judge = any(one.has_captions and one.to_judge > 0 for one in steps)
            work = partial(self._evaluated, progress)
            async with self._judge.opened.running(needs_judge):
                async for one in in_turn(steps, work, is_last=lambda one: bool(one.stopped)):
                    yield one
        finally:
            self.meter.include(self._judge.meter)

    async def _captioned(self, progress: Progress | None, step: _Step) -> None:
        """Write the captions that a run lacks, once."""
        if step.model is None:
            return
        room = self._room()
        if room is not None:  # what the judge has spent is counted at the end
            room = max(0.0, room - self._judge.meter.spent)
        model = replace(step.model, max_cost=room, on_notice=self._options.on_notice)
        async with open_generating(model) as asking:
            await asking.prepare(_HELD)
            (done,) = [one async for one in asking.results(progress)]
        self.meter.include(asking.meter)
        step.missing += done.left
        step.has_captions = bool(done.value.captions and not done.value.stopped)
        step.model = None

    async def _evaluated(
        self, progress: Progress | None, step: _Step, none_left: Callable[[], None]
    ) -> Done[Evaluated]:
        o, name, missing = self._options, step.target.name, step.missing
        with step.lock:
            await self._captioned(progress, step)
            if not step.has_captions:
                return Done(Evaluated(name, missing), missing)
            self._judge.meter.cap = self._room()
            # What a model may cost depends on what the judge has spent.
            alone = self.meter.cap is not None and any(one.model for one in self._steps)
            go_on = (lambda: None) if alone else none_left
            judged = await self._judge.judged(progress, step.judging, go_on)
            missing += judged.left
            several, value = len(self._steps) > 1, judged.value
            scores, file = (value.without_videos() if several else value).scores, value.file
            if file is None or not scores.counts.scored:
                return Done(Evaluated(name, missing, scores, file), missing)
            typed = {"videos": o.videos, "annotations": o.annotations, "runs": o.runs}
            more: dict[str, Any] = _with_defaults(dict, o.reporting, **typed)
            work = partial(report, [file.parent], on_notice=o.on_notice, **more)
            written = await in_thread(work)
        # The table of results has the reports.
        return Done(Evaluated(name, missing, scores, file, written.file), missing)

    def value(self, results: Sequence[Evaluated]) -> EvaluatedRuns:
        return EvaluatedRuns(results, self.meter.spent)

    def _room(self) -> float | None:
        cap = self.meter.cap
        return None if cap is None else max(0.0, cap - self.meter.spent)


@asynccontextmanager
async def open_evaluating(
    options: EvaluateOptions, *, dry_run: bool = False
) -> AsyncIterator[EvaluatingSession]:
    """Run the missing steps up to a report: generate, judge, score, report."""
    shown: set[str] = set()

    def once(notice: str) -> None:
        # A run is planned, captioned and judged, and each says so.
        if notice not in shown:
            shown.add(notice)
            options.on_notice(notice)

    o = replace(options, on_notice=once)
    if not o.targets:
        raise UsageError("name a model, a run or a captions file")
    common = {"annotations": o.annotations, "limit": o.limit, "max_cost": o.max_cost, "run": o.run}
    judge = {"judge": o.judge, "base_url": o.judge_url, "columns": o.columns}
    own: dict[str, Any] = {"prompts": o.judge_prompts, "repeats": o.repeats}
    own |= {"serve": o.judge_serve or None, "runs": o.runs, "on_notice": once}
    judging = _with_defaults(RunOptions, o.judging, **common, **judge, **own)
    o = replace(o, judge_serve=judging.serve)
    model: dict[str, Any] = {"base_url": o.model_url, "serve": o.serve or None, "videos": o.videos}
    model |= {"frames": o.frames, "runs": o.runs}
    generating = _with_defaults(GenerateOptions, o.generating, **common, **model)
    steps = [step for target in o.targets for step in _steps(target, generating, judging)]
    targets = [step.target for step in steps]
    if o.run is not None and [target.name for target in targets] != [o.run]:
        raise UsageError("--run is for one model or captions file; name only one")
    name, count = Counter(target.name for target in targets).most_common(1)[0]
    if count > 1:
        raise UsageError(f"{count} arguments name the run {name!r}")
    async with open_judging(judging, targets, offline=dry_run) as session:
        yield EvaluatingSession(o, steps, session, dry_run=dry_run)


evaluate_async, evaluate = functions("evaluate", open_evaluating, EvaluateOptions, EvaluatedRuns)


def _with_defaults(kind: Callable[..., T], more: Mapping[str, Any] | None, **own: Any) -> T:
    """Return the options of a step: those of `own` that are given, else those of `more`."""
    given = {name: value for name, value in own.items() if value is not None}
    found = {**(more or {}), **given}
    if not found.get("serve"):
        found.pop("gpus", None)
    elif "serve" in given:  # typed, where the file has an address
        found.pop("base_url", None)
    return kind(**found)


def _steps(target: FilePath, generating: GenerateOptions, judging: RunOptions) -> list[_Step]:
    """Resolve a target: captions if they exist, else a model that writes them.

    A run begun by the model of its name is finished by that model.
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
            raise UsageError(f"{why}; not a model either: {error}") from None
    made = RunFolder(found[0].path).read_manifest().get("generation") if found else None
    writer = made.get("model") if isinstance(made, dict) else None
    if entry is None or (found and writer != entry.name):
        return [*map(_Step, found)]
    run, annotations = run_folder(model, entry.name), str(model.annotations or SAMPLE)

    def load() -> Source:
        if run.exists():
            return from_run(run, annotations)
        return Source(run.name, run, annotations_of(annotations), (), annotations)

    return [_Step(Target(run.name, load, run, run.path), model, entry)]


def _lines(part: WorkEstimate) -> list[str]:
    first, *others = part.todo
    if part.cost is None:
        first += ", at a price that is not known"
    elif part.cost:
        first += f", about {money(part.cost)}"
    return [first, *others]


@command(
    *("eval", "max_failed", "yes", "dry_run", "as_json"),
    options=EvaluateOptions,
    steps={"generating": "generate", "judging": "judge", "reporting": "report"},
)
def eval_command(
    o: EvaluateOptions, *, dry_run: bool
) -> AbstractAsyncContextManager[EvaluatingSession]:
    """Generate, judge, score and report, in one command.

    A MODEL is what `capeval generate --model` takes, a run, or a captions file. Captions are
    generated only for models. Run the same command again to resume; --dry-run shows each step and
    the cost of all.

    Set further options of `capeval generate`, `judge` and `report` in capeval.toml.
    """
    # In a report, columns are those of a human file, and --judge chooses one of several judges.
    own = {"columns", "judge"}
    reporting = {name: value for name, value in (o.reporting or {}).items() if name not in own}
    o = replace(o, reporting=reporting)
    return open_evaluating(o, dry_run=dry_run)
