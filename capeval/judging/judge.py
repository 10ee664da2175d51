"""`capeval judge`: captions in, scores out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from capeval.errors import UsageError
from capeval.files.jsonl import dumps
from capeval.judging.contracts import Stage
from capeval.judging.judges import OpenJudge, judge_server, open_judge
from capeval.judging.judging_work import JudgingPlan, JudgingWork
from capeval.judging.protocol import DEFAULT_PROMPTS, JudgeCommandOptions, JudgeOptions, RunOptions
from capeval.llm.serving import SERVED_URL
from capeval.options import command
from capeval.runs.concurrency import in_turn
from capeval.runs.engine import (
    Done,
    Left,
    Locks,
    LongWork,
    Progress,
    WorkEstimate,
    execute,
    functions,
)
from capeval.runs.folder import RunFolder
from capeval.runs.resolve import Target, Targets, work_on
from capeval.runs.sources import from_memory, run_name
from capeval.schema import Caption, Unscored, Usage
from capeval.scoring.judged_run import scores_text
from capeval.scoring.known_agreement import Agreement, agreement_line, known_agreement
from capeval.scoring.scores import RunScores, Scores, VideoScore
from capeval.scoring.verdicts import snapshots_notice
from capeval.show.result import Result
from capeval.text import Loss, counted, listed


@dataclass(frozen=True)
class Judged:
    """The result of judging one target.

    `file` is its scores.json, or None if these scores are not stored.
    """

    name: str
    scores: Scores
    file: Path | None

    def without_videos(self) -> Judged:
        """Return the same with only the names of the videos, whose scores are in the file."""
        if self.file is None:
            return self
        nothing: dict[str, VideoScore] = {}
        names = dict.fromkeys(self.scores.videos, nothing)
        return replace(self, scores=self.scores.model_copy(update={"videos": names}))


class JudgedRuns(RunScores):
    """The results of judging some runs, and the judge's known agreement with human raters."""

    def __init__(self, results: Sequence[Judged], known: Agreement | None) -> None:
        scores = {result.name: result.scores for result in results}
        baseline = any(one.settings.get("baseline") for one in scores.values())
        super().__init__(scores, agreement_line(known, baseline=baseline))
        self._results, self._known = results, known

    def as_json(self) -> str:
        """Return the text: from the files just written, as all scores may not fit in memory.

        The agreement of the judge with human raters is added to each.
        """
        known = self._known.model_dump_json() if self._known else "null"
        texts = []
        for one in self._results:
            text = one.file.read_text(encoding="utf-8") if one.file else scores_text(one.scores)
            scores = text.removesuffix("\n}\n")
            texts.append(f'{dumps(one.name)}: {scores},\n "agreement": {known}\n}}')
        return "{\n" + ",\n".join(texts) + "\n}"


@dataclass
class PlannedRun:
    """A run to judge, which `lock` locks.

    `work` and `plan` hold all texts. If several runs are waiting, both are made again at their
    turn: the texts of hundreds of runs may not fit in memory.
    """

    target: Target
    lock: ExitStack
    work: JudgingWork | None = None
    plan: JudgingPlan | None = None


class JudgingSession(LongWork[Judged]):
    """One judge and the targets that it judges."""

    def __init__(self, options: RunOptions, targets: Sequence[Target], opened: OpenJudge) -> None:
        self._options, self._on_notice = options, options.on_notice
        self.opened, self.targets = opened, list(targets)
        self.title, self.model = f"Judge: {opened.title}", opened.judge.name
        self.meter, self.thinks = opened.meter, opened.thinks
        self.caches_replies = opened.prompts is not None
        self._runs: list[PlannedRun] = []
        self._todo = 0

    async def prepare(self, locks: Locks) -> WorkEstimate:
        """Lock and plan every run, and return what there is to judge, and the expected cost.

        A faulty or locked run that was not named is left out, with a notice; if there is no other,
        its error is raised.
        """
        todo, stages = dict[str, int](), dict[Stage, Usage]()
        begin = partial(self.begin, locks=locks)
        for run, plan in work_on(self.targets, begin, self._on_notice):
            await asyncio.sleep(0)  # Ctrl-C is noticed between runs
            todo[plan.name] = len(plan.todo)
            for stage, usage in plan.expected.items():
                stages[stage] = stages.get(stage, Usage()) + usage
            is_alone = len(self.targets) == 1
            self._runs.append(run if is_alone else PlannedRun(run.target, run.lock))
        self._todo = sum(todo.values())
        return self.expected(todo, stages)

    def begin(self, target: Target, locks: Locks) -> tuple[PlannedRun, JudgingPlan]:
        work = JudgingWork(target, self.opened, self._options)
        plan, lock = locks.begin(work)
        self._report(work, plan)
        return PlannedRun(target, lock, work, plan), plan

    def expected(self, todo: Mapping[str, int], stages: Mapping[Stage, Usage]) -> WorkEstimate:
        """Return an estimate: the captions to judge by run, and the usage of the stages."""
        usage, judge = sum(stages.values(), Usage()), self.opened.judge
        lines = [f"{name}: {counted(count, 'caption')} to judge" for name, count in todo.items()]
        lines += [
            f"  {stage:<9} {part.calls:>9,} calls, about {part.input_tokens:,} tokens in, "
            f"{part.output_tokens:,} out"
            for stage, part in stages.items()
            if part.calls
        ]
        details = {
            "judge": judge.name,
            "reasoning": judge.reasoning,
            "reasoning_tokens": "not estimated" if self.thinks else 0,
            "runs": todo,
            "stages": {stage: part.model_dump() for stage, part in stages.items() if part.calls},
        }
        return self.estimate(usage, lines, details, [*todo])

    async def results(self, progress: Progress | None = None) -> AsyncIterator[Done[Judged]]:
        """Judge the runs and yield the result of each; the last two may be incomplete.

        The next run starts while the last captions of the previous one are judged.
        """
        work = partial(self.judged, progress)
        async with self.opened.running(self._todo > 0):
            async for one in in_turn(self._runs, work, is_last=lambda one: bool(one.stopped)):
                # The scores of every video of many runs would fill the memory.
                several = len(self._runs) > 1
                yield replace(one, value=one.value.without_videos()) if several else one

    async def judged(
        self, progress: Progress | None, run: PlannedRun, none_left: Callable[[], None]
    ) -> Done[Judged]:
        """Judge one run; `none_left` is called when only its last captions are under way."""
        work = run.work or JudgingWork(run.target, self.opened, self._options)
        with run.lock:
            plan = run.plan or work.plan()
            work.none_left = none_left
            done = await execute(work, plan, progress)
        asked = [annotation.index for annotation, _ in plan.todo]
        ended = [done.done[index] for index in asked if index in done.new]
        reasons = {one.index: one.reason for one in ended if isinstance(one, Unscored)}
        folder = work.folder
        scores = (
            Scores.model_validate_json(folder.scores.read_bytes())
            if folder and work.unchanged
            else work.judged.scores
        )
        # Older scores are not those of this work.
        file = folder.scores if folder and done.is_written else None
        models, base_url = scores.settings["models"], scores.settings["base_url"]
        if notice := snapshots_notice(plan.name, models, base_url):
            self._on_notice(notice)
        missing, of = len(asked) - len(ended), scores.counts.captioned
        left = Left(plan.name, work.labels, reasons, of, missing, done.stopped)
        return Done(Judged(plan.name, scores, file), [left], [str(file)] if file else [])

    def value(self, results: Sequence[Judged]) -> Any:
        return results[0].scores

    def shown(self, results: Sequence[Judged]) -> Result:
        run = next((one.run for one in self.targets if one.run), None)
        own = run and self.opened.folder_in(run)
        return JudgedRuns(results, known_agreement(own, self._on_notice) if own else None)

    def _report(self, work: JudgingWork, plan: JudgingPlan) -> None:
        source = work.source
        if plan.replaced is not None and source.run:
            self._report_replaced(work, source.run, plan.replaced)
        for line in (*source.notices, *source.warnings):
            self._on_notice(line)
        for changed, count in plan.stale.items():
            what = counted(count, "stored verdict")
            self._on_notice(Loss(f"{plan.name}: {what} outdated ({changed})"))
        if source.run is None or not plan.todo:
            return
        own = self.opened.folder_in(source.run)
        others = [one.path.name for one in source.run.judges() if one.path != own.path]
        asked = self._options
        is_named = asked.judge is not None
        is_named |= asked.prompts != DEFAULT_PROMPTS or asked.explain
        # The folder's name has a hash if another judge has the same name, or an effort that the
        # user did not name. In both cases the user may have meant the other judge.
        alike = own.path.name.rpartition("-")[0] in others
        alike |= bool(self.opened.reasons) and own.path.name.rpartition("@")[0] in others
        if others and not own.has_verdicts() and (alike or not is_named):
            why = f" ({self.opened.reasons[0]})" if self.opened.reasons else ""
            notice = (
                f"{source.name}: already judged by {listed(others)}. Now another judge, "
                f"{self.opened.judge.title}{why}, judges every caption; the verdicts of both "
                "judges are kept"
            )
            # The lexical baseline costs nothing.
            self._on_notice(notice if self.opened.prompts is None else Loss(notice))

    def _report_replaced(
        self, work: JudgingWork, run: RunFolder, replaced: Sequence[Caption]
    ) -> None:
        """Announce how captions differ from those that they replace, and what that outdates."""
        before = {one.index: one.caption for one in replaced}
        now = {one.index: one.caption for one in work.source.captions}
        changed = sum(before.get(index, text) != text for index, text in now.items())
        self._on_notice(
            f"{run.name}: {counted(changed, 'caption')} changed, {len(now.keys() - before):,} new, "
            f"{len(before.keys() - now):,} removed; the old captions go to {run.captions_before()}"
        )
        for folder in run.judges():
            if folder.path != self.opened.folder_in(run).path and (count := work.outdated(folder)):
                what = f"{counted(count, 'stored verdict')} of {folder.path.name} outdated"
                self._on_notice(Loss(f"{run.name}: {what}; repeat `capeval judge` with that judge"))
        made = [(one.calibrated, one.path / "report.html") for one in run.judges()]
        if old := [file for files in made for file in files if file.exists()]:
            what = f"{listed(old)}: based on the old captions"
            self._on_notice(Loss(f"{what}; run `capeval calibrate` and `report` again"))


@asynccontextmanager
async def open_judging(
    options: RunOptions, targets: Sequence[Target], *, offline: bool = False
) -> AsyncIterator[JudgingSession]:
    """Open the judge for some targets; its connections close with the block.

    `offline` needs no key and makes no call: enough for an estimate.
    """
    is_sample, server = all(target.is_sample for target in targets), None
    if options.serve:
        server = judge_server(options, offline=offline)
        options = replace(options, base_url=SERVED_URL, serve=False, gpus=None)
    opening = open_judge(options, offline=offline, is_sample=is_sample, server=server)
    async with opening as opened:
        yield JudgingSession(options, targets, opened)


def targets_of(o: RunOptions) -> Targets:
    path = str(o.annotations) if isinstance(o.annotations, str | Path) else None
    return Targets(Path(o.runs), path, o.ignore_unknown, o.run, o.columns, o.replace_captions)


def _target(options: JudgeOptions) -> Target:
    captions, annotations = options.captions, options.annotations
    if isinstance(captions, str | Path):
        if annotations is not None and not isinstance(annotations, str | Path):
            raise UsageError("with captions in a file, name the annotations' file")
        targets = targets_of(options).of(captions)
        if len(targets) > 1:
            raise UsageError("name one of the sample's runs: " + ", ".join(t.name for t in targets))
        return targets[0]
    if annotations is None:
        raise UsageError("annotations are needed to judge captions")
    name, runs = options.run, Path(options.runs)
    given = partial(
        from_memory,
        captions,
        annotations,
        ignore_unknown=options.ignore_unknown,
        replaces=options.replace_captions,
    )
    run = RunFolder(runs / run_name(name)) if name else None
    return Target(name or "captions", partial(given, run=run), run)


def _open(o: JudgeOptions) -> AbstractAsyncContextManager[JudgingSession]:
    """Judge captions against annotations and return their scores.

    Example
    -------
    >>> import capeval
    >>> scores = capeval.judge({"sample_01": "A dog runs."}, "sample", judge="lexical")
    >>> scores.counts.captioned, scores.counts.scored
    (1, 1)
    """
    return open_judging(o, [_target(o)])


judge_async, judge = functions("judge", _open, JudgeOptions, Scores)


@command("judge", "max_failed", "yes", "dry_run", "as_json", "full", options=JudgeCommandOptions)
def judge_command(
    o: JudgeCommandOptions, *, dry_run: bool
) -> AbstractAsyncContextManager[JudgingSession]:
    """Judge captions event by event and score them: precision, recall and F1.

    A judge splits each caption into events, matches them in order to the annotated events, and
    decides for every annotated visual element whether the caption entails, lacks or contradicts it.

    Run the same command again to resume: nothing is paid for twice.
    """
    targets = targets_of(o).named(o.targets, "judging", o.on_notice)
    return open_judging(o, targets, offline=dry_run)
