"""Judging probes: resumable work, the files that it leaves, and the card made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from capeval.errors import RunLocked
from capeval.files.jsonl import dumps, write_atomic, write_jsonl
from capeval.files.judgments import judgment_line, judgment_lines, short_hash, write_judgments
from capeval.judging.estimate import JudgingEstimate, estimate
from capeval.judging.protocol import PreparedJudge, Tally
from capeval.judging.run import is_by, judge_captions
from capeval.judging.selection import OpenJudge
from capeval.runs.engine import Labels, Plan, Spent
from capeval.runs.folder import JudgeFolder, RunFolder
from capeval.runs.verdicts import JudgeIdentity, changed_since
from capeval.schema import Annotation, Caption, Judgment, Scored, Usage, Verdict
from capeval.trust.cards import CARD, PROBES, probes_folder
from capeval.trust.probe import Probe
from capeval.trust.probe_card import Card, make_card
from capeval.trust.probe_set import ProbeSet


@dataclass(frozen=True)
class ProbingPlan(Plan[Judgment]):
    """`todo` are probes without a valid verdict.

    `stale` is how many had one that is outdated; `dropped` is how many verdicts there are on other
    captions, which the file will not hold any more.
    """

    stale: int = 0
    dropped: int = 0


class _Again(PreparedJudge):
    """A judge whose repeats begin at another number, so that none is answered by an earlier one."""

    def __init__(self, judge: PreparedJudge, first: int) -> None:
        self._judge, self._first = judge, first
        # All that says who judges; the calls are those of the judge itself.
        for name in PreparedJudge.__annotations__:
            setattr(self, name, getattr(judge, name))

    async def judge(
        self, annotation: Annotation, caption: str, *, repeat: int, tally: Tally
    ) -> Verdict:
        """Judge as another repeat."""
        return await self._judge.judge(
            annotation, caption, repeat=self._first + repeat, tally=tally
        )


class ProbingWork:
    """Judges probes with one judge; see `capeval.runs.engine.ResumableTask`."""

    labels = Labels(doing="probing with", item="caption", done="judged", failed="unscored")

    def __init__(
        self, probes: ProbeSet, opened: OpenJudge, *, runs: Path, repeats: int = 1
    ) -> None:
        self._probes, self._opened, self._repeats = probes, opened, repeats
        self.folder: JudgeFolder = opened.folder_in(RunFolder(probes_folder(runs)))
        self.card: Card | None = None
        """The card, once the work is finished."""
        self.judgments: Mapping[str, Judgment] = {}
        """All verdicts, by the ids of the probes."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the judge's folder."""
        with ExitStack() as stack:
            try:
                stack.enter_context(RunFolder(self.folder.path).locked())
            except RunLocked:
                what = "another capeval process is probing this judge; wait for it"
                raise RunLocked(f"{self.folder.path}: {what}") from None
            yield

    def plan(self) -> ProbingPlan:
        """Compare stored verdicts with the probes, the annotations and the judge."""
        stored: dict[str, Judgment] = {}
        stale: set[str] = set()
        dropped: set[str] = set()
        for judgment in judgment_lines(self.folder.judgments):
            probe = self._probes.by_id.get(judgment.index)
            if probe is None:
                if isinstance(judgment, Scored):
                    dropped.add(judgment.index)
            elif not self._is_valid(judgment, probe):
                stale.add(judgment.index)
            elif isinstance(judgment, Scored) or not isinstance(stored.get(probe.id), Scored):
                stored[probe.id] = judgment
        todo = [
            probe for probe in self._probes.probes if not isinstance(stored.get(probe.id), Scored)
        ]
        # What failed before may fail again, and stop the work before it reaches the others.
        todo.sort(key=lambda probe: probe.id in stored)
        outdated = sum(not isinstance(stored.get(name), Scored) for name in stale)
        return ProbingPlan(self._opened.judge.name, stored, todo, outdated, len(dropped))

    def _is_valid(self, judgment: Judgment, probe: Probe) -> bool:
        judge = self._opened.judge
        # The card is of the judge that the verdicts name.
        if judgment.provenance.judge != judge.name or not is_by(judge, judgment):
            return False
        if changed_since(judgment, probe.annotation, _caption(probe)) is not None:
            return False
        return not isinstance(judgment, Scored) or max(1, len(judgment.repeats)) == self._repeats

    async def estimate(self, plan: ProbingPlan) -> JudgingEstimate:
        """Return the expected cost of what is to do."""
        first, again = _parts(plan.todo)
        later = replace(
            self._opened,
            judge=_Again(self._opened.judge, self._repeats),
            offline=self._opened.offline and _Again(self._opened.offline, self._repeats),
        )
        return await estimate(_work(first), self._opened, repeats=self._repeats) + await estimate(
            _work(again), later, repeats=self._repeats
        )

    def create(self, plan: ProbingPlan) -> None:  # noqa: ARG002 - the same for every plan
        """Write the probes for people to read."""
        write_jsonl(self.folder.path / PROBES, (probe.line() for probe in self._probes.probes))

    async def perform(self, plan: ProbingPlan, record: Callable[[Judgment], None]) -> None:
        """Judge what the plan lists, repeated captions last."""
        meter, each = self._opened.meter, 0.0
        if meter.cap is not None and plan.todo:
            expected = await self.estimate(plan)
            each = (expected.cost or 0.0) / len(plan.todo)
        first, again = _parts(plan.todo)
        judges = (self._opened.judge, _Again(self._opened.judge, self._repeats))
        for probes, judge in zip((first, again), judges, strict=True):
            await judge_captions(
                _work(probes),
                judge,
                repeats=self._repeats,
                concurrency=self._opened.concurrency,
                record=record,
                has_room=lambda begun: (
                    meter.cap is None or meter.spent + (begun + 1) * each <= meter.cap
                ),
            )

    def line(self, plan: ProbingPlan, outcome: Judgment) -> tuple[Path, Mapping[str, Any]] | None:
        """Return where a verdict is appended."""
        del plan
        return self.folder.judgments, judgment_line(outcome)

    def finish(self, plan: ProbingPlan, done: Mapping[str, Judgment]) -> None:
        """Write all verdicts in the order of the probes, and the card."""
        del plan
        probes = self._probes.probes
        self.judgments = {one.id: done[one.id] for one in probes if one.id in done}
        judge = self._opened.judge
        price = self._opened.meter.price(judge.name)
        self.card = make_card(
            self._probes,
            self.judgments,
            identity=JudgeIdentity(
                judge=judge.name,
                prompts=judge.prompts,
                endpoint=judge.endpoint,
                repeats=self._repeats,
                baseline=judge.is_baseline,
                reasoning=judge.reasoning,
            ),
            hashes=[short_hash(judge.identity)],
            title=judge.title,
            cost=lambda usage: _cost(price.cost if price else None, usage),
        )
        write_judgments(self.folder.judgments, list(self.judgments.values()))
        text = dumps(self.card.model_dump(mode="json"), indent=1) + "\n"
        write_atomic(self.folder.path / CARD, text)

    def spent(self) -> Spent:
        """Return what the judge's calls used."""
        usage = self._opened.meter.usage
        return Spent(usage.input_tokens + usage.output_tokens, self._opened.meter.spent)


def _cost(price: Callable[[Usage], float] | None, usage: Usage) -> float | None:
    if price is not None:
        return price(usage)
    return None if usage.calls else 0.0


def _caption(probe: Probe) -> Caption:
    return Caption.model_construct(index=probe.id, caption=probe.caption)


def _work(probes: Sequence[Probe]) -> list[tuple[Annotation, Caption]]:
    return [(probe.annotation, _caption(probe)) for probe in probes]


def _parts(probes: Sequence[Probe]) -> tuple[list[Probe], list[Probe]]:
    """Return the captions that are judged for the first time, and those that are judged again."""
    first = [probe for probe in probes if probe.kind != "repeat"]
    return first, [probe for probe in probes if probe.kind == "repeat"]
