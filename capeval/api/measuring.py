"""`capeval.measure`: captions and references in, values of caption metrics out."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capeval.errors import UsageError
from capeval.files.outputs import check_output
from capeval.judging.chat_model import OpenChat, open_chat
from capeval.llm.meter import Meter
from capeval.metrics.inputs import Target, of_candidates, of_source
from capeval.metrics.options import MetricsOptions
from capeval.metrics.protocol import Context, Metric
from capeval.metrics.registry import CONTROLS, METRICS, check_configuration, make_metric
from capeval.metrics.run import MetricResult, MetricWork
from capeval.options import takes
from capeval.runs.engine import Progress, execute
from capeval.runs.long_work import Estimate, Left, LongWork, finished
from capeval.runs.resolve import attempt
from capeval.runs.sync_async import blocking
from capeval.runs.targets import Targets
from capeval.schema import Usage
from capeval.text import Loss, counted, listed


@dataclass(frozen=True)
class Measured:
    """The metrics of one run or system; `file` is its metrics.jsonl, if it is stored."""

    name: str
    file: Path | None
    results: tuple[MetricResult, ...]

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
    return tuple(await finished(open_measuring(o), o.progress))


measure = blocking(measure_async)


class MeasuringSession(LongWork[Measured]):
    """Metrics and the captions that they measure, one target after the other."""

    def __init__(
        self,
        options: MetricsOptions,
        targets: Sequence[Target],
        metrics: Sequence[Metric],
        opened: OpenChat | None,
    ) -> None:
        self.options, self.targets, self.metrics = options, targets, metrics
        self.meter = opened.meter if opened else Meter()
        if opened:
            self.title, self.model = f"Chat model: {opened.title}", opened.chat.model
            self.thinks, self.caches_replies = opened.thinks, True

    async def estimate(self) -> Estimate:
        """Check every target and return what there is to measure, and its expected cost."""
        todo: dict[str, dict[str, int]] = {}
        total = Usage()
        for target in self.targets:
            for metric in self.metrics:
                plan = self._work(target, metric).plan()
                for changed, count in plan.stale.items():
                    self.options.on_notice(
                        Loss(
                            f"{target.name}: {counted(count, 'value')} of {metric.name} no longer "
                            f"{'hold' if count > 1 else 'holds'} (the {changed} changed): removed, "
                            "and computed again for the captions that are measured now"
                        )
                    )
                todo.setdefault(target.name, {})[metric.name] = len(plan.todo)
                if metric.uses_chat and plan.todo:
                    total += metric.expected(plan.todo)
        lines = [
            f"{name}: {counted(count, 'caption')} to measure with {metric}"
            for name, counts in todo.items()
            for metric, count in counts.items()
        ]
        return Estimate(total.calls, total, self._cost(total), lines, {"runs": todo})

    def _cost(self, usage: Usage) -> float | None:
        price = self.meter.price(self.model) if usage.calls else None
        return price.cost(usage) if price else None if usage.calls else 0.0

    async def results(self, progress: Progress | None = None) -> AsyncIterator[Measured]:
        """Measure the targets and yield the result of each system; work may have been stopped."""
        for target in self.targets:
            by_system: dict[str | None, list[MetricResult]] = {}
            is_stopped = False
            for metric in self.metrics:
                work = self._work(target, metric)
                is_capped = metric.uses_chat and self.meter.cap is not None
                if is_capped and (todo := work.plan().todo):
                    # Only as many captions are begun as can be finished.
                    work.each = (self._cost(metric.expected(todo)) or 0.0) / len(todo)
                done = await execute(work, progress)
                for system, result in work.results(done).items():
                    by_system.setdefault(system, []).append(result)
                if is_stopped := done.stopped is not None:
                    break
            for system, results in by_system.items():
                yield Measured(system or target.name, target.out, tuple(results))
            if is_stopped:
                return

    def _work(self, target: Target, metric: Metric) -> MetricWork:
        o = self.options
        return MetricWork(target, metric, self.meter, only=o.only, limit=o.limit)

    def left(self, result: Measured) -> list[Left]:
        """Return the captions without values, metric by metric."""
        return [
            Left(
                f"{result.name} {one.metric.name}",
                MetricWork.labels,
                one.unscored,
                one.captioned,
                one.not_reached,
                one.stopped,
            )
            for one in result.results
        ]

    def written(self, result: Measured) -> list[str]:
        """Return the file of the values."""
        return [str(result.file)] if result.file else []


@asynccontextmanager
async def open_measuring(
    o: MetricsOptions, *, offline: bool = False
) -> AsyncIterator[MeasuringSession]:
    """Read the captions and open the metrics; connections and processes close with the block.

    `offline` needs no key and makes no call: enough for an estimate.
    """
    check_configuration()
    names = [*dict.fromkeys(o.metric or CONTROLS)]
    kinds = {name: METRICS.load(name) for name in names}
    compares = [name for name, kind in kinds.items() if kind.uses_references]
    targets = _targets(o, compares)
    async with AsyncExitStack() as stack:
        opened = None
        if any(kind.uses_chat for kind in kinds.values()):
            chat_model = open_chat(o, offline=offline, on_notice=o.on_notice)
            opened = await stack.enter_async_context(chat_model)
        metrics: list[Metric] = []
        for name, kind in kinds.items():
            chat = opened.chat if opened and kind.uses_chat else None
            metric = make_metric(name, Context(o, chat, o.on_notice))
            stack.callback(metric.close)
            metrics.append(metric)
        outputs = Counter(output.name for metric in metrics for output in metric.outputs)
        if repeated := [name for name, count in outputs.items() if count > 1]:
            raise UsageError(f"two of the metrics have the output {repeated[0]}; leave one out")
        yield MeasuringSession(o, targets, metrics, opened)


def _targets(o: MetricsOptions, compares: Sequence[str]) -> list[Target]:
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
    if o.candidates:
        if o.captions or o.annotations is not None:
            raise UsageError("measure runs, or --candidates with --references, not both")
        is_file = not isinstance(o.candidates, Mapping)
        if is_file and out is None:
            out = Path("metrics.jsonl")
        if out is not None:
            paths: list[str | Path] = [*o.candidates] if is_file else []
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
                columns=o.columns,
                on_notice=o.on_notice,
            )
        ]
    if o.system is not None:
        raise UsageError("--system names the system of --candidates")
    annotations = None if o.annotations is None else str(o.annotations)
    targets = Targets(Path(o.runs), annotations, o.ignore_unknown, columns=o.columns)
    found = targets.named(o.captions, "measuring", o.on_notice)
    if all(target.named for target in found):
        sources = [target.load() for target in found]
    else:
        sources = attempt(lambda target: target.load(), found, o.on_notice)
    for line in (line for source in sources for line in source.notices):
        o.on_notice(line)
    if out is not None:
        if len(sources) > 1:
            raise UsageError("--out is for one run; omit it, and each gets its own metrics.jsonl")
        check_output(out, o.captions)
    return [of_source(source, out) for source in sources]
