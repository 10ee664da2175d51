"""One `capeval judge`: choose, show, estimate, judge each run, and say what is left."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from capeval.cli.options import Allowance, indexes
from capeval.cli.progress import JudgingProgress
from capeval.errors import UsageError
from capeval.evaluation.estimate import Estimate, estimate
from capeval.evaluation.judges import (
    LEXICAL,
    JudgeChoice,
    OpenJudge,
    is_configured,
    open_judge,
)
from capeval.evaluation.judging_run import Outcome, RunPlan, execute, plan_run
from capeval.evaluation.sources import SAMPLE, Source, from_file, from_run, sample_sources
from capeval.files.jsonl import dumps
from capeval.files.run_folder import RunFolder
from capeval.reporting.numbers import money, thousands
from capeval.reporting.tables import print_scores

__all__ = ["JudgeArguments", "run_session"]

RUNS = Path("runs")
_ASK_ABOVE = 1.0
_DONE, _INCOMPLETE = 0, 3


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
    session = _Session(arguments)
    try:
        return asyncio.run(session.run())
    except KeyboardInterrupt:
        session.interrupted()
        return 130


class _Session:
    def __init__(self, arguments: JudgeArguments) -> None:
        self._a = arguments
        self._progress: JudgingProgress | None = None
        # With --json stdout carries that alone.
        self._console = Console(
            stderr=arguments.as_json, quiet=arguments.as_json and arguments.quiet
        )

    async def run(self) -> int:
        a = self._a
        allowance = Allowance.read(a.max_unscored)
        sources = self._sources()
        choice = self._choice(sources)
        async with open_judge(choice, on_notice=self._notice) as opened:
            self._introduce(opened)
            plans = [self._plan(source, opened) for source in sources]
            expected = await self._estimate(plans, opened)
            if a.dry_run:
                self._show_estimate(expected, plans, opened)
                return _DONE
            self._ask(expected)
            outcomes: list[Outcome] = []
            with JudgingProgress(opened.meter, quiet=a.quiet) as progress:
                self._progress = progress
                for source in sources:
                    outcomes.append(await self._judge(source, opened, progress))
                    if outcomes[-1].stopped:
                        break
            self._show(outcomes, opened)
        return self._exit_code(outcomes, allowance)

    def interrupted(self) -> None:
        """Say how to go on."""
        progress = self._progress
        plan = progress.plan if progress else None
        done = (
            f"{thousands(progress.done)} of {thousands(len(plan.work))} captions of {plan.name} "
            "are judged and kept; "
            if progress and plan
            else ""
        )
        sys.stderr.write(f"capeval: stopped; {done}run the same command to go on\n")

    def _sources(self) -> list[Source]:
        a = self._a
        if not a.targets:
            if a.run:
                raise UsageError("--run names the run of a captions file; name the file")
            runs = [run for run in RunFolder.all(RUNS) if not run.name.startswith("sample-")]
            if runs:
                return [
                    from_run(run, a.annotations, ignore_unknown=a.ignore_unknown) for run in runs
                ]
            if a.annotations not in (None, SAMPLE):
                raise UsageError("name the captions that --annotations are for")
            self._notice(f"There is no run under {RUNS}/ yet: judging the bundled sample.")
            return sample_sources(RUNS)
        if a.run and len(a.targets) > 1:
            raise UsageError("--run names one run; judge one captions file at a time with it")
        sources = [source for target in a.targets for source in self._meant(target)]
        names = [source.name for source in sources]
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"two of the captions files would become the run {name!r}")
        return sources

    def _meant(self, target: str) -> list[Source]:
        if target == SAMPLE and not Path(target).exists() and not (RUNS / target).exists():
            return sample_sources(RUNS)
        return [self._source(target)]

    def _source(self, target: str) -> Source:
        a, path = self._a, Path(target)
        if path.is_file():
            run = RunFolder(path.parent)
            if path.name != run.captions.name or not run.manifest.is_file():
                return from_file(
                    path, a.annotations, runs=RUNS, name=a.run, ignore_unknown=a.ignore_unknown
                )
        else:
            run = RunFolder.find(RUNS, target)
        if a.run and a.run != run.name:
            raise UsageError(f"{target} is a run already; --run names that of a captions file")
        return from_run(run, a.annotations, ignore_unknown=a.ignore_unknown)

    def _choice(self, sources: Sequence[Source]) -> JudgeChoice:
        a = self._a
        choice = JudgeChoice(
            model=a.judge,
            base_url=a.base_url,
            prompts=a.prompts,
            max_concurrency=a.max_concurrency,
            timeout=a.timeout,
            max_cost=a.max_cost,
        )
        if a.judge is not None or is_configured(choice):
            return choice
        if all(source.is_sample for source in sources):
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
        self._print(text)

    def _plan(self, source: Source, opened: OpenJudge) -> RunPlan:
        a = self._a
        name = opened.prompts.name if opened.prompts else None
        plan = plan_run(
            source.name,
            source.run.judge(opened.judge.name, name) if source.run else None,
            source.annotations,
            source.captions,
            opened,
            repeats=a.repeats,
            only=indexes(list(a.only)),
            limit=a.limit,
            settings=source.settings,
        )
        if plan.stale:
            self._notice(
                f"{plan.name}: {thousands(plan.stale)} stored judgments are of other captions, "
                "annotations, prompts or repeats and are judged again"
            )
        return plan

    async def _estimate(self, plans: Sequence[RunPlan], opened: OpenJudge) -> Estimate:
        total = Estimate(cost=0.0)
        for plan in plans:
            part = await estimate(plan.work, opened, repeats=plan.repeats)
            total.captions += part.captions
            for stage, usage in part.stages.items():
                total.stages[stage] = (
                    usage + total.stages[stage] if stage in total.stages else usage
                )
            total.cost = None if None in (total.cost, part.cost) else _sum(total.cost, part.cost)
        return total

    def _show_estimate(
        self, expected: Estimate, plans: Sequence[RunPlan], opened: OpenJudge
    ) -> None:
        usage = expected.usage
        cost = _cost(expected, opened)
        if self._a.as_json:
            typer.echo(
                dumps(
                    {
                        "runs": {plan.name: len(plan.work) for plan in plans},
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
        for plan in plans:
            self._print(f"{plan.name}: {thousands(len(plan.work))} captions to judge")
        for stage, part in expected.stages.items():
            self._print(
                f"  {stage:<9} {thousands(part.calls):>9} calls, about "
                f"{thousands(part.input_tokens)} tokens in, {thousands(part.output_tokens)} out"
            )
        self._print(f"Expected: {thousands(usage.calls)} calls, {cost}; nothing was called")

    def _ask(self, expected: Estimate) -> None:
        a = self._a
        if a.max_cost is not None and expected.cost is None:
            raise UsageError(
                "--max-cost needs the model's price: add "
                '[prices."MODEL"] with input and output (US dollars per million tokens) '
                "to capeval.toml"
            )
        if a.yes or a.max_cost is not None or not expected.cost or expected.cost <= _ASK_ABOVE:
            return
        about = f"about {money(expected.cost)} for {thousands(expected.usage.calls)} calls"
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError(f"this is expected to cost {about}; add --yes or --max-cost")
        if not typer.confirm(f"This is expected to cost {about}. Go on?", err=True):
            raise UsageError("nothing was called")

    async def _judge(self, source: Source, opened: OpenJudge, progress: JudgingProgress) -> Outcome:
        with ExitStack() as stack:
            if source.run:
                stack.enter_context(source.run.locked())
                source.store()
            # Planned again inside the lock: another process may have judged meanwhile.
            plan = self._plan(source, opened)
            return await execute(plan, opened, seed=self._a.seed, progress=progress)

    def _show(self, outcomes: Sequence[Outcome], opened: OpenJudge) -> None:
        results = {outcome.plan.name: outcome.scores for outcome in outcomes}
        if self._a.as_json:
            typer.echo(
                dumps({name: s.model_dump(mode="json") for name, s in results.items()}, indent=1)
            )
        print_scores(results, self._console)
        for outcome in outcomes:
            left = outcome.unscored
            for index, reason in list(left.items())[:5]:
                self._print(f"{outcome.plan.name}: {index} is unscored: {reason}")
            if len(left) > 5:
                self._print(f"{outcome.plan.name}: {len(left) - 5} more are unscored")
            if left:
                self._print("Run the same command again to try these once more.")
            if outcome.stopped:
                sys.stderr.write(f"capeval: {outcome.stopped}\n")
        meter = opened.meter
        if meter.calls or meter.cached_calls:
            usage = meter.usage
            spent = f", {money(meter.spent)}" if meter.price(opened.judge.name) else ""
            self._print(
                f"{thousands(meter.calls)} calls ({thousands(meter.cached_calls)} more from the "
                f"cache), {thousands(usage.input_tokens)} tokens in, "
                f"{thousands(usage.output_tokens)} out{spent}"
            )
        for outcome in outcomes:
            if outcome.plan.folder:
                self._print(f"{outcome.plan.folder.scores}")

    def _exit_code(self, outcomes: Sequence[Outcome], allowance: Allowance) -> int:
        for outcome in outcomes:
            captioned = len(outcome.plan.captions)
            if outcome.stopped or not allowance.allows(len(outcome.unscored), captioned):
                return _INCOMPLETE
        return _DONE

    def _notice(self, text: str) -> None:
        if self._progress:
            self._progress.say(text)
        elif not self._a.quiet:
            sys.stderr.write(f"{text}\n")

    def _print(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)


def _sum(one: float | None, other: float | None) -> float:
    return (one or 0.0) + (other or 0.0)


def _cost(expected: Estimate, opened: OpenJudge) -> str:
    if expected.cost is None:
        return f"no price is known for {opened.judge.name}"
    return f"about {money(expected.cost)}"
