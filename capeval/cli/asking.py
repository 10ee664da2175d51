"""What `generate` and `mcq answer` share: ask a model what a run lacks, and say how it went."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from capeval.api.asking_session import AskingSession
from capeval.captioners.protocol import OpenCaptioner
from capeval.captioners.selection import GenerationEstimate
from capeval.captioners.stored_work import StoredResult
from capeval.cli.output import print_json
from capeval.cli.session import DONE, INCOMPLETE, Session, ask, expected_cost, next_step
from capeval.reporting.numbers import thousands
from capeval.runs.folder import RunFolder
from capeval.scoring.gates import CountOrShare
from capeval.text import Loss, counted


@dataclass(frozen=True)
class AskingCommand:
    """One of the two commands.

    Attributes
    ----------
    to_do : what is done to an item, such as "caption"
    replies : one reply, and several
    again : what is done to items whose stored reply does not hold, such as "asked again", and why
    then : what to do with the finished run, and the command without the run
    name : how that command takes the run
    about : what a model is asked, in words
    details : what only this command says of its result, in JSON
    """

    session: Session
    as_json: bool
    to_do: str
    replies: tuple[str, str]
    again: str
    then: str
    name: Callable[[RunFolder], str]
    about: Callable[[AskingSession[Any, Any]], str]
    details: Callable[[Any], Mapping[str, Any]]

    async def run(
        self,
        opening: AbstractAsyncContextManager[AskingSession[Any, Any]],
        allowance: CountOrShare,
        *,
        yes: bool,
        dry_run: bool,
        max_cost: float | None,
    ) -> int:
        """Ask what is left and return the exit code."""
        async with opening as asking:
            self._introduce(asking)
            expected = await asking.estimate()
            if dry_run:
                self._show_estimate(asking, expected, max_cost)
                return DONE
            model = asking.opened.priced
            ask(expected.cost, expected.usage.calls, model, yes=yes, max_cost=max_cost)
            with self.session.showing() as progress:
                result = await asking.run(progress)
            self._show(asking, result)
        complete = len(result.left) <= allowance.of(result.asked)
        return DONE if complete and not result.stopped else INCOMPLETE

    def _introduce(self, asking: AskingSession[Any, Any]) -> None:
        where = f" at {asking.opened.base_url}" if asking.opened.base_url else ""
        self.session.notice(f"Model: {asking.opened.captioner.name}{where}, {self.about(asking)}")
        if again := len(asking.plan.outdated):
            item = counted(again, asking.work.labels.item)
            run = asking.work.run.name
            self.session.notice(Loss(f"{run}: {item} will be {self.again}"))

    def _show_estimate(
        self,
        asking: AskingSession[Any, Any],
        expected: GenerationEstimate,
        max_cost: float | None,
    ) -> None:
        plan, opened, usage = asking.plan, asking.opened, expected.usage
        run, todo, missing = self.name(asking.work.run), len(plan.todo), plan.missing
        if self.as_json:
            found = {
                "run": run,
                "asked": plan.asked,
                "done": plan.asked - todo - len(missing),
                f"to_{self.to_do}": todo,
                "missing": dict(missing),
                "calls": todo if opened.base_url else 0,
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cost": expected.cost,
                "settings": plan.settings,
            }
            print_json(found)
            return
        show = self.session.print
        if opened.base_url is not None:
            cost = expected_cost(expected.cost, opened.priced, max_cost)
            if expected.cost is not None:
                cost += ", minus what is in the cache"
            calls = counted(todo, "call") + (" and one short test call" if todo else "")
            show(f"Expected: {calls}, {cost}; nothing was called")
        show(f"{run}: {counted(todo, asking.work.labels.item)} to {self.to_do}")
        if missing:
            index, reason = next(iter(missing.items()))
            more = f", and {thousands(len(missing) - 1)} more" if len(missing) > 1 else ""
            show(f"{run}: no video for {index}{more}: {reason}")
        if opened.base_url is None:
            show("Nothing was run")
        elif usage.calls:
            show(
                f"  about {expected.frames} frames each, {thousands(usage.input_tokens)} tokens "
                f"in, {thousands(usage.output_tokens)} out"
            )

    def _show(self, asking: AskingSession[Any, Any], result: StoredResult) -> None:
        work, run, left = asking.work, result.run.name, result.left
        labels, session = work.labels, self.session
        if self.as_json:
            print_json(self._summary(asking, result))
        shard = f" (shard {result.shard})" if result.shard else ""
        done = result.asked - len(left)
        new = f", {thousands(result.new)} of them now" if result.new < done else ""
        session.print(
            f"{run}{shard}: {labels.done} {thousands(done)}/{thousands(result.asked)}{new}"
        )
        failed = {index: reason for index, reason in left.items() if reason != work.not_reached}
        session.unscored(run, failed, labels.failed)
        if not_reached := len(left) - len(failed):
            session.lost(f"{run}: {counted(not_reached, labels.item)} not {labels.done}")
        for warning, count in list(result.warnings.items())[:5]:
            session.print(f"{run}: {counted(count, *self.replies)} with a warning: {warning}")
        if len(result.revisions) > 1:
            session.print(f"{run}: written by {' and '.join(result.revisions[:5])}")
        if result.stopped:
            sys.stderr.write(f"capeval: {result.stopped}\n")
        if left:
            session.print(next_step(result.stopped, labels.failed))
        self._show_spent(asking.opened, result)
        if result.shard:
            session.print(
                f"The last shard to finish writes {result.file}; the same command without --shard "
                "does so too"
            )
        elif result.file.exists():
            session.print(str(result.file))
            session.print(f"{self.then} {self.name(result.run)}")

    def _show_spent(self, opened: OpenCaptioner, result: StoredResult) -> None:
        usage = result.usage
        if opened.base_url is not None:
            self.session.print_spent(opened.meter, opened.priced)
        elif usage.output_tokens:
            self.session.print(
                f"{thousands(usage.input_tokens)} tokens in, {thousands(usage.output_tokens)} out"
            )

    def _summary(self, asking: AskingSession[Any, Any], result: StoredResult) -> dict[str, Any]:
        labels, opened = asking.work.labels, asking.opened
        return {
            "run": self.name(result.run),
            asking.work.names[0]: str(result.file) if result.file.exists() else None,
            "shard": str(result.shard) if result.shard else None,
            "asked": result.asked,
            labels.done: result.asked - len(result.left),
            "new": result.new,
            labels.failed: dict(result.left),
            "warnings": result.warnings,
            "revisions": result.revisions,
            "usage": result.usage.model_dump(),
            "cost": opened.meter.spent if opened.base_url else None,
            "stopped": str(result.stopped) if result.stopped else None,
            **self.details(result),
        }
