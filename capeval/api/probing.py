"""`capeval.probe`: a judge is checked on captions whose correct verdicts are certain."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from capeval.api.probe_options import ProbeOptions
from capeval.api.sync_async import blocking
from capeval.errors import CapevalError, UsageError
from capeval.judging.estimate import JudgingEstimate
from capeval.judging.options import JudgeOptions
from capeval.judging.registry import is_registered, runs_model
from capeval.judging.selection import OF_WEIGHTS, OpenJudge, open_judge
from capeval.options import takes
from capeval.reporting.formats import form_for
from capeval.reporting.probe_tables import rendered_probing
from capeval.runs.engine import Progress, execute
from capeval.runs.outputs import check_output, write_output
from capeval.runs.sources import SAMPLE, annotations_file, annotations_of
from capeval.schema import Unscored
from capeval.text import Loss, counted
from capeval.trust.cards import CARD
from capeval.trust.probe_card import Card
from capeval.trust.probe_grading import Graded, grade_probes
from capeval.trust.probe_set import ProbeSet, build_probes
from capeval.trust.probe_tests import compare_judges
from capeval.trust.probe_work import ProbingPlan, ProbingWork
from capeval.trust.probing_result import Probing

if TYPE_CHECKING:
    from capeval.judging.protocol import Judge

_SLACK = 1e-9
"""A headline of exactly 90% must not fail `--fail-under 90` by the last bit of its mean."""


@dataclass(frozen=True)
class Probed:
    """One judge that was probed.

    `card` is None if it was stopped before its first verdict. `unscored` are the reasons of
    captions without a verdict, `stopped` why judging ended early, and `not_reached` how many
    captions were left.
    """

    name: str
    card: Card | None
    file: Path
    graded: Graded
    unscored: dict[str, str]
    stopped: CapevalError | None
    not_reached: int


@takes(ProbeOptions)
async def probe_async(options: ProbeOptions) -> Probing:
    """Check judges on captions whose correct verdicts are certain by construction.

    Nobody labels anything: the captions are made of annotated sentences, with known changes. Each
    judge's card is kept in `probes/` next to the runs; a run of the same judge then shows it.

    Raises
    ------
    InputError, UsageError
        The inputs or options are not right.
    EndpointRefused, EndpointDown, BudgetReached
        Judging had to stop; what was done is kept.
    """
    async with open_probing(options, on_notice=options.on_notice) as session:
        found: list[Probed] = []
        async for result in session.results(options.progress):
            if result.stopped:
                raise result.stopped
            found.append(result)
    return session.finish(found)


probe = blocking(probe_async)


class ProbingSession:
    """The judges to probe, one after the other, on the same captions."""

    def __init__(
        self,
        options: ProbeOptions,
        probes: ProbeSet,
        opened: list[OpenJudge],
        on_notice: Callable[[str], None],
    ) -> None:
        self._options, self.probes, self.opened = options, probes, opened
        self._on_notice = on_notice
        self._reported: list[ProbingWork] = []
        self.works = [
            ProbingWork(probes, one, runs=Path(options.runs), repeats=options.repeats)
            for one in opened
        ]
        folders = [work.folder.path for work in self.works]
        if len(set(folders)) < len(folders):
            raise UsageError("--judge names one judge twice")

    async def estimate(self) -> tuple[JudgingEstimate, dict[str, int]]:
        """Return the expected cost, and the captions to judge by judge. Nothing is called."""
        total, todo = JudgingEstimate(cost=0.0), {}
        for work in self.works:
            plan = work.plan()
            self._report(work, plan)
            todo[plan.name] = len(plan.todo)
            total += await work.estimate(plan)
        return total, todo

    def _report(self, work: ProbingWork, plan: ProbingPlan) -> None:
        """Announce the stored verdicts that will be replaced or removed, once."""
        self._reported.append(work)
        if plan.stale:
            self._on_notice(
                Loss(
                    f"{plan.name}: {plan.stale:,} stored verdicts are outdated (the annotations, "
                    "the probes or the judge changed): their captions will be judged again"
                )
            )
        if plan.dropped:
            self._on_notice(
                Loss(
                    f"{plan.name}: {counted(plan.dropped, 'stored verdict')} on captions of "
                    "other annotations, videos or another --seed will be removed with the card "
                    f"of these; to keep them, move {work.folder.path}"
                )
            )

    async def results(self, progress: Progress | None = None) -> AsyncIterator[Probed]:
        """Probe the judges and yield the result of each; the last may have been stopped."""
        spent = 0.0
        for work, opened in zip(self.works, self.opened, strict=True):
            if self._options.max_cost is not None:
                # One cap for all of them.
                opened.meter.cap = max(0.0, self._options.max_cost - spent)
            if work not in self._reported:
                self._report(work, work.plan())
            finished = await execute(work, progress)
            spent += opened.meter.spent
            asked = [probe.id for probe in finished.plan.todo]
            ended = [finished.done[name] for name in asked if name in finished.new]
            yield Probed(
                name=opened.judge.name,
                card=work.card,
                file=work.folder.path / CARD,
                graded=grade_probes(self.probes, work.judgments),
                unscored={one.index: one.reason for one in ended if isinstance(one, Unscored)},
                stopped=finished.stopped,
                not_reached=len(asked) - len(ended),
            )
            if finished.stopped:
                return

    def finish(self, found: list[Probed]) -> Probing:
        """Return all cards with their comparison, and write `out`."""
        o = self._options
        cards = {one.name: one.card for one in found if one.card is not None}
        least = None if o.fail_under is None else o.fail_under / 100
        result = Probing(
            cards=cards,
            tests=compare_judges(
                {one.name: one.graded for one in found if one.card is not None}, seed=o.seed
            ),
            least=least,
            failed=()
            if least is None
            else tuple(name for name, card in cards.items() if _is_under(card, least)),
        )
        if o.out is not None and cards:
            form = form_for(Path(o.out), "table")
            write_output(Path(o.out), rendered_probing(result, form, full=True) + "\n")
        return result


def _is_under(card: Card, least: float) -> bool:
    value = card.headline.value
    return value is None or value < least - _SLACK


@asynccontextmanager
async def open_probing(
    options: ProbeOptions,
    *,
    offline: bool = False,
    on_notice: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[ProbingSession]:
    """Build the probes and open the judges; their connections close with the block.

    `offline` needs no key and makes no call: enough for an estimate.
    """
    named = options.annotations
    if options.out is not None:
        source = [annotations_file(named)] if isinstance(named, str | Path) else []
        form_for(Path(options.out), "table")
        check_output(Path(options.out), source)
    annotations = annotations_of(named) if isinstance(named, str | Path) else tuple(named)
    if not annotations:
        raise UsageError("annotations are needed to build probes of")
    if len({annotation.index for annotation in annotations}) < len(annotations):
        raise UsageError("the annotations have the same index twice")
    probes = build_probes(annotations, videos=options.videos, seed=options.seed)
    if not probes.probes:
        raise UsageError("no probe can be built: no video has a sentence that can be used")
    async with AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(
                open_judge(
                    each,
                    offline=offline,
                    is_sample=lambda: named == SAMPLE,
                    on_notice=on_notice,
                )
            )
            for each in _judges(options)
        ]
        yield ProbingSession(options, probes, opened, on_notice)


def _judges(options: ProbeOptions) -> list[JudgeOptions]:
    """Return the options of each judge; those of chat models are not for others beside them."""
    taken = {one.name for one in fields(JudgeOptions)} - {"captions", "annotations", "judge"}
    given: dict[str, Any] = {
        one.name: getattr(options, one.name) for one in fields(options) if one.name in taken
    }
    given.pop("seed", None)  # That of the probes.
    common = ("runs", "max_concurrency", "timeout", "max_cost")
    plain = {name: given[name] for name in common}
    of_weights = {name: given[name] for name in OF_WEIGHTS}
    of_chat = {name: value for name, value in given.items() if name not in OF_WEIGHTS}
    # A single one has become a sequence of it.
    named = list(cast("Sequence[str | Judge]", options.judge))
    if not named:
        return [JudgeOptions(captions={}, **given)]
    is_chat = [isinstance(one, str) and not is_registered(one) for one in named]
    has_weights = any(map(runs_model, named))

    def options_of(judge: str | Judge, chat: bool) -> dict[str, Any]:
        # What no judge here uses is refused by each.
        own = of_chat if chat or not any(is_chat) else plain
        return own | (of_weights if runs_model(judge) or not has_weights else {})

    return [
        JudgeOptions(captions={}, judge=one, **options_of(one, chat))
        for one, chat in zip(named, is_chat, strict=True)
    ]
