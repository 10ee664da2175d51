"""One `capeval judge`: choose, show, estimate, judge each run, and say what is left."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import typer

from capeval.cli.options import Allowance, indexes
from capeval.cli.progress import JudgingProgress
from capeval.cli.session import DONE, INCOMPLETE, RUNS, Session, ask, expected_cost, spent
from capeval.errors import CapevalError, UsageError
from capeval.files.jsonl import dumps
from capeval.judging.estimate import Estimate, estimate
from capeval.judging.prompts import DEFAULT_PROMPTS
from capeval.judging.run import RunPlan, execute, plan_run
from capeval.judging.selection import LEXICAL, JudgeChoice, OpenJudge, is_configured, open_judge
from capeval.reporting.numbers import thousands
from capeval.reporting.score_tables import print_scores, unscored_lines
from capeval.runs.folder import RunFolder
from capeval.runs.resolve import find_captions, is_taken
from capeval.runs.sources import SAMPLE, Source, from_file, from_run, run_name, sample_captions
from capeval.scoring import Scores


@dataclass(frozen=True)
class JudgeArguments:
    """What was typed."""

    targets: tuple[str, ...]
    annotations: str | None
    run: str | None
    only: tuple[str, ...]
    limit: int | None
    ignore_unknown: bool
    judge: str | None
    base_url: str | None
    prompts: str
    repeats: int
    max_concurrency: int
    timeout: float
    max_cost: float | None
    max_unscored: str
    yes: bool
    dry_run: bool
    as_json: bool
    quiet: bool
    seed: int


def run_session(arguments: JudgeArguments) -> int:
    """Do what was typed and return the exit code.

    Raises
    ------
    CapevalError
        The work could not begin or had to stop; its exit code says which.
    """
    return _Session(arguments).until_stopped()


@dataclass(frozen=True)
class _Target:
    """One run to judge; its captions are loaded when they are needed and let go again."""

    name: str
    load: Callable[[], Source]


@dataclass(frozen=True)
class _Result:
    """What is left of a judged run in memory: with hundreds of runs, no more than this."""

    scores: Scores
    file: Path | None
    unscored: dict[str, str]
    stopped: CapevalError | None


class _Session(Session):
    def __init__(self, arguments: JudgeArguments) -> None:
        super().__init__(as_json=arguments.as_json, quiet=arguments.quiet)
        self._a = arguments

    async def run(self) -> int:
        a = self._a
        allowance = Allowance.read(a.max_unscored)
        targets = self._targets()
        choice = self._choice(targets)
        async with open_judge(choice, on_notice=self.notice) as opened:
            self._introduce(opened)
            # Everything is read and checked before anything is called or written.
            expected, work = await self._survey(targets, opened)
            if a.dry_run:
                self._show_estimate(expected, work, opened)
                return DONE
            ask(expected.cost, expected.usage.calls, yes=a.yes, max_cost=a.max_cost)
            results: dict[str, _Result] = {}
            failure: CapevalError | None = None
            with JudgingProgress(opened.meter, quiet=a.quiet) as progress:
                self.progress = progress
                for target in targets:
                    try:
                        results[target.name] = await self._judge(target, opened, progress)
                    except CapevalError as error:
                        failure = error
                        break
                    if results[target.name].stopped:
                        break
            # What was finished is shown, whatever became of the rest.
            if results or not failure:
                self._show(results, opened)
            left = [target.name for target in targets if target.name not in results]
            if left and results:
                self.notice(f"Not judged: {', '.join(left)}")
            if failure:
                raise failure
        complete = all(
            not result.stopped
            and allowance.allows(len(result.unscored), result.scores.counts.captioned)
            for result in results.values()
        )
        return DONE if complete else INCOMPLETE

    def _targets(self) -> list[_Target]:
        a = self._a
        if a.run is not None and len(a.targets) != 1:
            raise UsageError("--run names the run of one captions file; name that file alone")
        if a.targets:
            targets = [target for typed in a.targets for target in self._meant(typed)]
        else:
            runs = [run for run in RunFolder.all(RUNS) if not run.name.startswith(f"{SAMPLE}-")]
            targets = [self._run(run) for run in runs]
        if not targets:
            if a.annotations not in (None, SAMPLE):
                raise UsageError("name the captions that --annotations are for")
            self.notice(f"There is no run of yours under {RUNS}/: judging the bundled sample.")
            targets = self._sample()
        names = Counter(target.name for target in targets)
        name, count = names.most_common(1)[0]
        if count > 1:
            raise UsageError(f"{count} of the captions files would become the run {name!r}")
        return targets

    def _meant(self, typed: str) -> list[_Target]:
        a = self._a
        if typed == SAMPLE and not is_taken(typed, RUNS):
            if a.annotations not in (None, SAMPLE):
                raise UsageError("the sample has annotations of its own; leave --annotations off")
            return self._sample()
        found = find_captions(typed, RUNS)
        if isinstance(found, Path):
            return [self._file(found, a.annotations, found.stem if a.run is None else a.run)]
        if a.run and a.run != found.name:
            raise UsageError(f"{typed} is a run already; --run names that of a captions file")
        return [self._run(found)]

    def _file(self, path: Path, annotations: str | None, name: str) -> _Target:
        ignore = self._a.ignore_unknown
        if name.startswith(f"{SAMPLE}-") and annotations != SAMPLE:
            raise UsageError(
                f"{path}: run names that begin with {SAMPLE}- are the bundled sample's; "
                "choose another with --run"
            )
        load = partial(from_file, path, annotations, runs=RUNS, name=name, ignore_unknown=ignore)
        return _Target(run_name(name), load)

    def _run(self, run: RunFolder) -> _Target:
        a = self._a
        load = partial(from_run, run, a.annotations, ignore_unknown=a.ignore_unknown)
        return _Target(run.name, load)

    def _sample(self) -> list[_Target]:
        return [self._file(path, SAMPLE, name) for name, path in sample_captions().items()]

    def _choice(self, targets: Sequence[_Target]) -> JudgeChoice:
        a = self._a
        choice = JudgeChoice(
            model=a.judge,
            base_url=a.base_url,
            prompts=a.prompts,
            max_concurrency=a.max_concurrency,
            timeout=a.timeout,
            max_cost=a.max_cost,
            offline=a.dry_run,
        )
        if a.judge == LEXICAL and a.prompts != DEFAULT_PROMPTS:
            raise UsageError("--judge lexical uses no prompts; leave --prompts off")
        if a.judge is not None or a.dry_run or is_configured(choice):
            return choice
        if all(target.load().is_sample for target in targets):
            return JudgeChoice(model=LEXICAL)
        raise UsageError(
            "no judge is configured: set OPENAI_API_KEY, name a local server with --base-url, "
            "or take the baseline that only compares words with --judge lexical"
        )

    def _introduce(self, opened: OpenJudge) -> None:
        judge = opened.judge
        if opened.is_baseline:
            text = f"Judge: {judge.name} (embedded baseline: compares words, understands nothing)"
        else:
            text = f"Judge: {judge.name} at {opened.base_url}, prompts {judge.prompts}"
        self.print(text)

    def _plan(self, source: Source, opened: OpenJudge, *, tell: bool = False) -> RunPlan:
        a = self._a
        name = opened.prompts.name if opened.prompts else None
        plan = plan_run(
            source.name,
            source.run.judge(opened.judge.name, name) if source.run else None,
            source.annotations,
            source.captions,
            opened,
            repeats=a.repeats,
            only=indexes(a.only),
            limit=a.limit,
        )
        for changed, count in plan.stale.items() if tell else ():
            self.notice(
                f"{plan.name}: {thousands(count)} stored {'verdict' if count == 1 else 'verdicts'} "
                f"of another {changed}: judged again and replaced"
            )
        return plan

    async def _survey(
        self, targets: Sequence[_Target], opened: OpenJudge
    ) -> tuple[Estimate, dict[str, int]]:
        total, work = Estimate(cost=0.0), {}
        for target in targets:
            plan = self._plan(target.load(), opened, tell=True)
            work[plan.name] = len(plan.work)
            total += await estimate(plan.work, opened, repeats=plan.repeats)
        return total, work

    def _show_estimate(
        self, expected: Estimate, work: Mapping[str, int], opened: OpenJudge
    ) -> None:
        usage = expected.usage
        cost = expected_cost(expected.cost, opened.judge.name)
        if self._a.as_json:
            typer.echo(
                dumps(
                    {
                        "runs": work,
                        "calls": usage.calls,
                        "input_tokens": usage.input_tokens,
                        "output_tokens": usage.output_tokens,
                        "cost": expected.cost,
                        "stages": {k: v.model_dump() for k, v in expected.stages.items()},
                    },
                    indent=1,
                )
            )
            return
        for name, count in work.items():
            self.print(f"{name}: {thousands(count)} captions to judge")
        for stage, part in expected.stages.items():
            self.print(
                f"  {stage:<9} {thousands(part.calls):>9} calls, about "
                f"{thousands(part.input_tokens)} tokens in, {thousands(part.output_tokens)} out"
            )
        self.print(f"Expected: {thousands(usage.calls)} calls, {cost}; nothing was called")

    async def _judge(
        self, target: _Target, opened: OpenJudge, progress: JudgingProgress
    ) -> _Result:
        source = target.load()
        with source.run.locked() if source.run else nullcontext():
            source.store()
            # Planned again inside the lock: another process may have judged meanwhile.
            plan = self._plan(source, opened)
            outcome = await execute(plan, opened, seed=self._a.seed, progress=progress)
        return _Result(
            scores=outcome.scores.model_copy(update={"videos": {}}),
            file=plan.folder.scores if plan.folder else None,
            unscored=outcome.unscored,
            stopped=outcome.stopped,
        )

    def _show(self, results: Mapping[str, _Result], opened: OpenJudge) -> None:
        if self._a.as_json:
            self._print_json(results)
        print_scores({name: result.scores for name, result in results.items()}, self.console)
        for name, result in results.items():
            left = result.unscored
            for line in unscored_lines(name, left):
                self.print(line)
            if result.stopped:
                sys.stderr.write(f"capeval: {result.stopped}\n")
        if any(result.unscored for result in results.values()):
            self.print("Run the same command again to try the unscored once more.")
        meter = opened.meter
        if told := spent(meter, opened.judge.name):
            self.print(told)
        if meter.guessed:
            self.print(
                f"{thousands(meter.guessed)} replies came without token counts: "
                "their cost is an estimate"
            )
        for result in results.values():
            if result.file:
                self.print(f"{result.file}")

    @staticmethod
    def _print_json(results: Mapping[str, _Result]) -> None:
        # Run by run from the files just written: all of them at once may not fit in memory.
        before = "{"
        for name, result in results.items():
            if result.file:
                text = result.file.read_text(encoding="utf-8").rstrip()
                sys.stdout.write(f"{before}\n{dumps(name)}: {text}")
                before = ","
        sys.stdout.write("\n}\n" if before == "," else "{}\n")
