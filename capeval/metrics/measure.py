"""`capeval metrics`: captions and references in, values of caption metrics out."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from capeval.errors import UsageError
from capeval.files.outputs import check_output
from capeval.judging.chat_model import OpenChat, open_chat
from capeval.llm.meter import Meter
from capeval.metrics.inputs import Target, of_candidates, of_source
from capeval.metrics.metric_work import MetricResult, MetricWork
from capeval.metrics.protocol import Context, Metric, MetricsOptions, Output, Summary
from capeval.metrics.registry import CONTROLS, METRICS, check_configuration, make_metric
from capeval.options import command, takes
from capeval.runs.concurrency import blocking
from capeval.runs.engine import Progress, execute
from capeval.runs.long_work import Estimate, Left, LongWork, finished
from capeval.runs.targets import Targets, work_on
from capeval.schema import Usage
from capeval.show import output as screen
from capeval.show.numbers import NOTHING, share, tenths
from capeval.show.result import Result
from capeval.show.table import PERCENT, SHARE, Column, Kind, Page, Row, Table
from capeval.text import Loss, counted, listed, one_line


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


# Metrics whose values are in the headline; the table has them all.
_NAMED = 3


@dataclass(frozen=True)
class MeasuredAll(Result):
    """The results of several runs or systems: a row for each, and a column for each output."""

    of: Sequence[Measured]

    def headline(self) -> str:
        found = self.of
        if len(found) == 1:
            one = found[0]
            parts = [
                f"{output.name} {_value(output, result.summaries[output.name])}"
                f" (scored {share(result.scored, result.captioned)})"
                for result in one.results
                for output in result.metric.outputs
            ]
            return f"{one_line(one.name, 60)}: {', '.join(parts)}."
        parts = [
            f"{output.name} {_extremes(found, output)}"
            for result in found[0].results
            for output in result.metric.outputs
        ]
        scored = sum(result.scored for one in found for result in one.results)
        captioned = sum(result.captioned for one in found for result in one.results)
        captions = sum(max(result.captioned for result in one.results) for one in found)
        how = (
            f"all {counted(captions, 'caption')} scored"
            if scored == captioned
            else f"scored {share(scored, captioned)} values of {counted(captions, 'caption')}"
        )
        more = [f"and {len(parts) - _NAMED} more"] if len(parts) > _NAMED else []
        return f"{', '.join([*parts[:_NAMED], *more])}; {how}."

    def pages(self, *, full: bool = False) -> list[Page]:  # noqa: ARG002
        found = self.of
        results = [result for one in found for result in one.results]
        outputs = {output.name: output for result in results for output in result.metric.outputs}
        columns = [_SYSTEM, *map(_column, outputs.values()), Column("scored", kind=SHARE)]
        table = Table("Metrics", columns)
        notes = []
        if controls := [output.name for output in outputs.values() if output.control]:
            notes.append(f"Controls, which a metric must exceed: {', '.join(controls)}.")
        for one in found:
            values = {
                name: summary.value
                for result in one.results
                for name, summary in result.summaries.items()
            }
            # Where metrics differ, a note has all of them.
            worst = min(one.results, key=lambda result: (result.scored, -result.captioned))
            scored = (worst.scored, worst.captioned)
            table.rows.append([one.name, *(values.get(name) for name in outputs), scored])
            notes += _notes(one)
        tables = [table, *_tables_of_groups(found[0].results if len(found) == 1 else ())]
        if len(found) > 1 and any(
            one.groups for each in results for one in each.summaries.values()
        ):
            notes.append("Values of each group: --json, or measure one system.")
        signatures = [*dict.fromkeys(result.metric.signature for result in results)]
        return [Page(tables, notes=notes, signatures=signatures)]

    def as_json(self) -> list[dict[str, Any]]:
        return [one.as_json() for one in self.of]


def _value(output: Output, summary: Summary) -> str:
    """Return a value as it is shown: fractions as percentages."""
    return _column(output).shown(summary.value).text


def _extremes(found: Sequence[Measured], output: Output) -> str:
    """Return the lowest and the highest value of several systems, with their names."""
    values = {
        one_line(one.name, 60): summary
        for one in found
        for result in one.results
        if (summary := result.summaries.get(output.name)) and summary.value is not None
    }
    if not values:
        return NOTHING
    ordered = sorted(values, key=lambda name: values[name].value or 0.0)
    ends = [f"{_value(output, values[name])} ({name})" for name in (ordered[0], ordered[-1])]
    return " to ".join(dict.fromkeys(ends))


def _column(output: Output) -> Column:
    if output.unit == "fraction":
        return Column(output.name, under="%", kind=PERCENT)
    unit = "" if output.unit == "number" else one_line(output.unit, 20)
    return Column(output.name, under=unit, kind=Kind(tenths))


_NAME = Kind(lambda name: one_line(name, 60))
_SYSTEM = Column("System", words=True, kind=_NAME)


def _notes(one: Measured) -> Iterator[str]:
    """Yield what is scored by each metric, if they differ, and what is undefined."""
    if len({(result.scored, result.captioned) for result in one.results}) > 1:
        counts = ", ".join(
            f"{result.metric.name} {share(result.scored, result.captioned)}"
            for result in one.results
        )
        yield f"{one_line(one.name, 60)}: scored by {counts}."
    for result in one.results:
        for name, summary in result.summaries.items():
            if summary.undefined:
                yield (
                    f"{one_line(one.name, 60)}: {name} is undefined for {summary.undefined:,} "
                    "of the scored captions, which are left out."
                )


def _tables_of_groups(results: Sequence[MetricResult]) -> list[Table]:
    """Return a table for each metric that averages over groups of one system's captions."""
    tables = []
    for result in results:
        outputs = [one for one in result.metric.outputs if result.summaries[one.name].groups]
        by_output = [result.summaries[one.name].groups for one in outputs]
        columns = [Column("group", words=True, kind=_NAME)]
        columns += [replace(_column(one), under="") for one in outputs]
        rows: list[Row] = [
            [name, *(groups.get(name) for groups in by_output)]
            for name in dict.fromkeys(name for groups in by_output for name in groups)
        ]
        if rows:
            tables.append(Table(f"{result.metric.name} by group", columns, rows))
    return tables


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

    def result(self, results: list[Measured]) -> MeasuredAll | None:
        return MeasuredAll(results) if results else None

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
    sources = [*work_on(found, lambda target: target.load(), o.on_notice)]
    for line in (line for source in sources for line in source.notices):
        o.on_notice(line)
    if out is not None:
        if len(sources) > 1:
            raise UsageError("--out is for one run; omit it, and each gets its own metrics.jsonl")
        check_output(out, o.captions)
    return [of_source(source, out) for source in sources]


@command("metrics", "max_failed", "yes", "dry_run", "as_json", "form", options=MetricsOptions)
def metrics_command(
    o: MetricsOptions, output: screen.Output
) -> AbstractAsyncContextManager[MeasuringSession]:
    """Compute caption metrics, and write each caption's values to metrics.jsonl.

    `capeval correlate` compares them with human ratings. Run the same command again to resume.
    """
    return open_measuring(o, offline=output.dry_run)
