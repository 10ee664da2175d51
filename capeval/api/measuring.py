"""`capeval.measure`: captions and references in, values of caption metrics out."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from capeval.api.metric_chat import OpenChat, open_chat
from capeval.api.sync_async import blocking
from capeval.errors import BudgetReached, EndpointDown, UsageError
from capeval.llm.meter import Meter
from capeval.metrics.inputs import Target, of_candidates, of_source
from capeval.metrics.options import MetricsOptions
from capeval.metrics.protocol import Context, Metric
from capeval.metrics.registry import CONTROLS, METRICS, check_configuration, make_metric
from capeval.metrics.run import MetricResult, MetricWork
from capeval.options import takes
from capeval.runs.engine import Progress, execute
from capeval.runs.folder import RunFolder
from capeval.runs.outputs import check_output
from capeval.runs.resolve import attempt, find_captions, is_taken
from capeval.runs.sources import SAMPLE, Source, from_file, from_run, run_name, sample_captions
from capeval.schema import Usage
from capeval.text import Loss, counted, listed


@dataclass(frozen=True)
class Measured:
    """The metrics of one run or system; `file` is its metrics.jsonl, if it is stored."""

    name: str
    file: Path | None
    results: tuple[MetricResult, ...]

    @property
    def stopped(self) -> BudgetReached | EndpointDown | None:
        """Why the work stopped early, if it did."""
        return next((one.stopped for one in self.results if one.stopped), None)

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "name": self.name,
            "file": str(self.file) if self.file else None,
            "metrics": [one.as_json() for one in self.results],
        }


@takes(MetricsOptions)
async def measure_async(o: MetricsOptions) -> tuple[Measured, ...]:
    """Compute caption metrics, and write each caption's values to metrics.jsonl.

    Raises
    ------
    InputError, UsageError
        The inputs or options are not right.
    EndpointRefused, EndpointDown, BudgetReached
        A chat model cannot be asked any more; what was done is kept.

    Example
    -------
    >>> import capeval
    >>> (measured,) = capeval.measure(
    ...     candidates={"1": "A dog runs."}, references={"1": ["A dog runs."]})
    >>> measured.results[0].summaries["unigram-f1"].value
    1.0
    """
    async with open_measuring(o, on_notice=o.on_notice) as session:
        found = [one async for one in session.results(o.progress)]
    for one in found:
        if one.stopped:
            raise one.stopped
    return tuple(found)


measure = blocking(measure_async)


@dataclass
class MetricsEstimate:
    """Calls, tokens and US dollars that are expected; `cost` is None without a price."""

    todo: dict[str, dict[str, int]] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    cost: float | None = 0.0


@dataclass
class MeasuringSession:
    """Metrics and the captions that they measure, one target after the other."""

    options: MetricsOptions
    targets: Sequence[Target]
    metrics: Sequence[Metric]
    opened: OpenChat | None
    on_notice: Callable[[str], None]
    _each: dict[str, float] = field(default_factory=dict)

    @property
    def meter(self) -> Meter:
        """The meter of the chat model's calls."""
        return self.opened.meter if self.opened else Meter()

    def estimate(self) -> MetricsEstimate:
        """Check every target and return what is to do, and its expected cost.

        Nothing is called or written.
        """
        found = MetricsEstimate()
        for target in self.targets:
            for metric in self.metrics:
                plan = self._work(target, metric).plan()
                for changed, count in plan.stale.items():
                    self.on_notice(
                        Loss(
                            f"{target.name}: {counted(count, 'value')} of {metric.name} no longer "
                            f"{'hold' if count > 1 else 'holds'} (the {changed} changed): removed, "
                            "and computed again for the captions that are measured now"
                        )
                    )
                found.todo.setdefault(target.name, {})[metric.name] = len(plan.todo)
                if metric.uses_chat and plan.todo:
                    usage = metric.expected(plan.todo)
                    self._count(found, metric, usage, len(plan.todo))
        return found

    def _count(self, found: MetricsEstimate, metric: Metric, usage: Usage, items: int) -> None:
        found.usage += usage
        assert self.opened is not None  # noqa: S101 - chat metrics have one
        price = self.meter.price(self.opened.chat.model)
        if not usage.calls:
            return
        if price is None:
            found.cost = None
            return
        cost = price.cost(usage)
        self._each[metric.name] = cost / items
        if found.cost is not None:
            found.cost += cost

    async def results(self, progress: Progress | None = None) -> AsyncIterator[Measured]:
        """Measure the targets and yield the result of each system; work may have been stopped."""
        for target in self.targets:
            by_system: dict[str | None, list[MetricResult]] = {}
            is_stopped = False
            for metric in self.metrics:
                work = self._work(target, metric)
                if metric.uses_chat and self.meter.cap is not None:
                    # Only as many captions are begun as can be finished.
                    todo = work.plan().todo
                    usage = metric.expected(todo)
                    self._count(MetricsEstimate(), metric, usage, len(todo))
                    work = self._work(target, metric)
                finished = await execute(work, progress)
                for system, result in work.results(finished).items():
                    by_system.setdefault(system, []).append(result)
                if is_stopped := finished.stopped is not None:
                    break
            for system, results in by_system.items():
                yield Measured(system or target.name, target.out, tuple(results))
            if is_stopped:
                return

    def _work(self, target: Target, metric: Metric) -> MetricWork:
        o = self.options
        each = self._each.get(metric.name, 0.0)
        return MetricWork(target, metric, self.meter, only=o.only, limit=o.limit, each=each)


@asynccontextmanager
async def open_measuring(
    o: MetricsOptions,
    *,
    offline: bool = False,
    on_notice: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[MeasuringSession]:
    """Read the captions and open the metrics; connections and processes close with the block.

    `offline` needs no key and makes no call: enough for an estimate.
    """
    check_configuration()
    names = [*dict.fromkeys(o.metric or CONTROLS)]
    kinds = {name: METRICS.load(name) for name in names}
    compares = [name for name, kind in kinds.items() if kind.uses_references]
    targets = _targets(o, on_notice, compares)
    async with AsyncExitStack() as stack:
        opened = None
        if any(kind.uses_chat for kind in kinds.values()):
            opened = await stack.enter_async_context(
                open_chat(o, offline=offline, on_notice=on_notice)
            )
        metrics: list[Metric] = []
        for name, kind in kinds.items():
            chat = opened.chat if opened and kind.uses_chat else None
            metric = make_metric(name, Context(o, chat, on_notice))
            stack.callback(metric.close)
            metrics.append(metric)
        outputs = Counter(output.name for metric in metrics for output in metric.outputs)
        if repeated := [name for name, count in outputs.items() if count > 1]:
            raise UsageError(f"two of the metrics have the output {repeated[0]}; leave one out")
        yield MeasuringSession(o, targets, metrics, opened, on_notice)


def _targets(
    o: MetricsOptions, on_notice: Callable[[str], None], compares: Sequence[str]
) -> list[Target]:
    """Return what to measure; `compares` are the metrics that use references."""
    out = None if o.out is None else Path(o.out)
    if o.candidates and compares and o.references is None:
        verb = "compares" if len(compares) == 1 else "compare"
        raise UsageError(
            f"{listed(compares)} {verb} captions with references: name their file with --references"
        )
    if not o.candidates and o.references is not None:
        raise UsageError(
            "--references is for --candidates; runs are compared with their annotations"
        )
    questions = [] if o.qa is None or isinstance(o.qa, Mapping) else [o.qa]
    if o.candidates:
        if o.captions or o.annotations is not None:
            raise UsageError("measure runs, or --candidates with --references, not both")
        is_file = not isinstance(o.candidates, Mapping)
        if is_file and out is None:
            out = Path("metrics.jsonl")
        if out is not None:
            paths = [*(o.candidates if is_file else ()), *questions]
            if o.references is not None and not isinstance(o.references, Mapping):
                paths.append(o.references)
            check_output(out, paths)
        return [
            of_candidates(
                o.candidates,
                o.references,
                system=o.system,
                out=out,
                ignore_unknown=o.ignore_unknown,
            )
        ]
    if o.system is not None:
        raise UsageError("--system names the system of --candidates")
    sources: list[Source] = []
    annotations = None if o.annotations is None else str(o.annotations)
    runs = Path(o.runs)
    mine = [run for run in RunFolder.all(runs) if not run.name.startswith(f"{SAMPLE}-")]
    if not o.captions and mine:
        load = partial(from_run, annotations_path=annotations, ignore_unknown=o.ignore_unknown)
        sources += attempt(load, mine, on_notice)
    elif not o.captions:
        on_notice(f"You have no run of your own under {runs}/: measuring the bundled sample.")
    for name in o.captions or (() if mine else (SAMPLE,)):
        if name == SAMPLE and not is_taken(SAMPLE, runs):
            if annotations not in {None, SAMPLE}:
                raise UsageError("the sample has its own annotations; omit --annotations")
            for run, path in sample_captions().items():
                sources.append(from_file(path, SAMPLE, runs=runs, name=run))
            continue
        found = find_captions(name, runs)
        ignore = o.ignore_unknown
        if isinstance(found, Path):
            run = run_name(found.stem)
            sources.append(
                from_file(found, annotations, runs=runs, name=run, ignore_unknown=ignore)
            )
        else:
            sources.append(from_run(found, annotations, ignore_unknown=ignore))
    name, count = Counter(source.name for source in sources).most_common(1)[0]
    if count > 1:
        raise UsageError(f"{count} of the arguments are the run {name!r}")
    if out is not None:
        if len(sources) > 1:
            raise UsageError("--out is for one run; omit it, and each gets its own metrics.jsonl")
        check_output(out, [*map(str, o.captions), *questions])
    return [of_source(source, out) for source in sources]
