"""`capeval metrics`: captions and references in, values of caption metrics out."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any

from capeval.errors import UsageError
from capeval.files.captions import CaptionsFile, captions_in_memory, check_known
from capeval.files.jsonl import check_output, validated
from capeval.files.references import load_candidates, load_references
from capeval.judging.judges import open_chat
from capeval.llm.asker import Chat
from capeval.llm.client import ChatOptions
from capeval.llm.money import Meter
from capeval.metrics.metric_work import CaptionSet, MetricPlan, MetricResult, MetricWork
from capeval.metrics.protocol import Context, Item, Metric, MetricOutput
from capeval.metrics.registry import CONTROLS, check_configuration, make_metric, metric_kind
from capeval.options import (
    INPUTS,
    OUTPUT,
    ModelOptions,
    columns_option,
    command,
    declares,
    in_file,
    option,
    python_only,
)
from capeval.runs.engine import Done, Locks, LongWork, Progress, WorkEstimate, execute, functions
from capeval.runs.resolve import Targets, work_on
from capeval.runs.sources import Source, distinct_names
from capeval.schema import Reference, Usage
from capeval.show.numbers import NOTHING, share, tenths
from capeval.show.result import Result
from capeval.show.table import PERCENT, SHARE, Column, Kind, Page, Row, Table
from capeval.text import Loss, counted, listed, one_line, shown

FILE = "metrics.jsonl"
_NAMED = 3
"""Metrics whose values are in the headline; the table has all."""
_NAME = Kind(lambda name: one_line(name, 60))


@declares
class MetricsOptions(ChatOptions, ModelOptions):
    """The arguments of `capeval.measure`; `capeval.toml` has the settings of single metrics.

    Parameters
    ----------
    captions : Runs, or captions files of annotated videos, which become runs. By default every
        run, or the sample.
    metric : unigram-f1, length, meteor, bertscore, clair, autodq, or one of an installed package.
        By default the controls, unigram-f1 and length.
    annotations : Annotations: a file, 'tuna' or 'sample'. By default the run's own.
    candidates : Captions of videos without annotations; their system is the model that all lines
        name, or the file's stem.
    references : Reference captions, for --candidates: JSON lines with index and references.
    columns : Columns that are not called index, caption and model: index=clip,caption=text.
    out : The file to write. By default metrics.jsonl in the run; with --candidates, in the working
        directory.
    judge : The chat model of metrics such as clair. By default gpt-6-luna, or the server's
        only model.
    device : Where local models run: cuda, cuda:1, mps or cpu. By default the best.
    progress : Receives the status after every caption.
    """

    captions: Sequence[str | Path] = option((), positional=True, metavar="RUN")
    _: KW_ONLY
    metric: Sequence[str | type[Metric]] = option(
        (),
        note="Or a class derived from `Metric`.",
        kind=list[str] | None,
        panel=INPUTS,
        metavar="NAME",
        commas=True,
    )
    annotations: str | Path | None = option(None, panel=INPUTS, metavar="FILE")
    candidates: Sequence[str | Path] | Mapping[str, str] = option(
        (),
        note="Or a dict of captions by index.",
        kind=list[str] | None,
        panel=INPUTS,
        metavar="FILE",
    )
    references: str | Path | Mapping[str, str | Sequence[str]] | None = option(
        None,
        note="Or a dict of texts, or lists of texts, by index.",
        kind=str | None,
        panel=INPUTS,
        metavar="FILE",
    )
    columns: Mapping[str, str] | None = columns_option(panel=INPUTS)
    ignore_unknown: bool = in_file(False, "Skip captions of other videos.")
    out: str | Path | None = option(None, panel=OUTPUT, metavar="FILE")
    only: Collection[str] = python_only(())
    max_concurrency: int = in_file(64, min=1, max=4096)
    device: str | None = in_file(None)
    progress: Progress | None = python_only(None, method="update", shown=False)


@dataclass(frozen=True)
class Measured:
    """The metrics of one run or system; `file` is its metrics.jsonl, if it is stored."""

    name: str
    file: Path | None
    results: tuple[MetricResult, ...]

    def value(self, output: str) -> float | None:
        found = (one.summaries[output] for one in self.results if output in one.summaries)
        return next((one.value for one in found), None)

    def notes(self) -> Iterator[str]:
        """Yield the numbers of scored captions, if metrics differ, and of undefined values."""
        name = one_line(self.name, 60)
        scored = {one.metric.name: (one.scored, one.captioned) for one in self.results}
        if len({*scored.values()}) > 1:
            counts = ", ".join(f"{metric} {share(*pair)}" for metric, pair in scored.items())
            yield f"{name}: scored by {counts}."
        for output, summary in (pair for one in self.results for pair in one.summaries.items()):
            if count := summary.undefined:
                yield f"{name}: {output} is undefined for {counted(count, 'caption')}, left out."

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "file": str(self.file) if self.file else None,
            "metrics": [one.as_json() for one in self.results],
        }


class MetricTable(tuple[Measured, ...], Result):
    """A row for each of some runs or systems, and a column for each output of the metrics."""

    def headline(self) -> str:
        results = [result for one in self for result in one.results]
        first, *more = self
        pairs = [(output, one) for one in first.results for output in one.metric.outputs]
        outputs = [output for output, _ in pairs]
        if not more:
            parts = [
                f"{output.name} {_shown(output, first.value(output.name))} (scored "
                f"{share(one.scored, one.captioned)})"
                for output, one in pairs
            ]
            return f"{one_line(first.name, 60)}: {', '.join(parts)}."
        parts = [f"{output.name} {self._extremes(output)}" for output in outputs[:_NAMED]]
        if len(outputs) > _NAMED:
            parts.append(f"and {len(outputs) - _NAMED} more")
        scored = sum(result.scored for result in results)
        captioned = sum(result.captioned for result in results)
        captions = sum(max(result.captioned for result in one.results) for one in self)
        how = f"all {counted(captions, 'caption')} scored"
        if scored < captioned:
            how = f"scored {share(scored, captioned)} values of {counted(captions, 'caption')}"
        return f"{', '.join(parts)}; {how}."

    def _extremes(self, output: MetricOutput) -> str:
        found = {one_line(one.name, 60): one.value(output.name) for one in self}
        known = {name: value for name, value in found.items() if value is not None}
        order = sorted(known, key=known.__getitem__)
        ends = [f"{_shown(output, known[name])} ({name})" for name in order[:1] + order[-1:]]
        return " to ".join(dict.fromkeys(ends)) or NOTHING

    def pages(self, *, full: bool = False) -> list[Page]:
        results = [result for one in self for result in one.results]
        outputs = {output.name: output for result in results for output in result.metric.outputs}
        system, scored = Column("System", words=True, kind=_NAME), Column("scored", kind=SHARE)
        table = Table("Metrics", [system, *map(_column, outputs.values()), scored])
        notes = []
        if controls := [output.name for output in outputs.values() if output.control]:
            notes.append(f"Controls, which a useful metric must beat: {', '.join(controls)}.")
        for one in self:
            # Where metrics differ, a note has all of them.
            worst = min(one.results, key=lambda result: (result.scored, -result.captioned))
            cells = map(one.value, outputs)
            table.rows.append([one.name, *cells, (worst.scored, worst.captioned)])
            notes += one.notes()
        groups = [found for result in results if (found := _table_of_groups(result)).rows]
        if groups and len(self) > 1:
            notes.append("By group: use --json, or measure one system.")
            groups = []
        signatures = [*dict.fromkeys(result.metric.signature for result in results)]
        return [Page([table, *groups], notes=notes, signatures=signatures)]

    def as_json(self) -> list[dict[str, Any]]:
        return [one.as_json() for one in self]


def _shown(output: MetricOutput, value: float | None) -> str:
    return _column(output).shown(value).text


def _column(output: MetricOutput) -> Column:
    if output.unit == "fraction":
        return Column(output.name, under="%", kind=PERCENT)
    unit = "" if output.unit == "number" else one_line(output.unit, 20)
    return Column(output.name, under=unit, kind=Kind(tenths))


def _table_of_groups(result: MetricResult) -> Table:
    outputs = [one for one in result.metric.outputs if result.summaries[one.name].groups]
    by_output = [result.summaries[one.name].groups for one in outputs]
    columns = [Column("group", words=True, kind=_NAME)]
    columns += [replace(_column(one), under="") for one in outputs]
    rows: list[Row] = [
        [name, *(groups.get(name) for groups in by_output)]
        for name in dict.fromkeys(name for groups in by_output for name in groups)
    ]
    return Table(f"{result.metric.name} by group", columns, rows)


# ---- The captions --------------------------------------------------------------------------------


def _caption_sets(o: MetricsOptions, compares: Sequence[str]) -> list[CaptionSet]:
    """Return the captions to measure; the metrics of `compares` need references."""
    has_candidates, has_references = bool(o.candidates), o.references is not None
    verb = f"{listed(compares)} {'compares' if len(compares) == 1 else 'compare'}"
    refusals = {
        "--references is for --candidates; runs are compared with their annotations": (
            has_references and not has_candidates
        ),
        f"{verb} captions with references: name their file with --references": (
            has_candidates and bool(compares) and not has_references
        ),
        "measure runs, or --candidates with --references, not both": (
            has_candidates and bool(o.captions or o.annotations)
        ),
    }
    for message, applies in refusals.items():
        if applies:
            raise UsageError(message)
    out = None if o.out is None else Path(o.out)
    if not has_candidates:
        return _runs(o, out)
    read: list[str | Path] = []
    if not isinstance(o.candidates, Mapping):
        out, read = out or Path(FILE), [*o.candidates]
    if isinstance(o.references, str | Path):
        read.append(o.references)
    if out is not None:
        check_output(out, read)
    return [_candidates(o, out)]


def _runs(o: MetricsOptions, out: Path | None) -> list[CaptionSet]:
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
    return [_of_source(source, out) for source in sources]


def _of_source(source: Source, out: Path | None) -> CaptionSet:
    by_index = {annotation.index: annotation for annotation in source.annotations}
    items = []
    for one in source.captions:
        annotation = by_index[one.index]
        events = tuple(event.event for event in annotation.events)
        texts = (" ".join(map(str.strip, events)),)
        item = Item(one.index, source.name, one.caption, texts, events, annotation=annotation)
        items.append(item)
    path = out or (source.run.path / FILE if source.run else None)
    return CaptionSet(source.name, tuple(items), path, source)


def _candidates(o: MetricsOptions, out: Path | None) -> CaptionSet:
    known = {one.index: one for one in _references(o)}
    items: list[Item] = []
    files: dict[str | None, str] = {}
    for file, system, found in _systems(o, known):
        for notice in found.notices:
            o.on_notice(notice)
        if system in files:
            what = f"{files[system]} and {file} both have captions of the system {shown(system)}"
            raise UsageError(f"{what}; rename one of the files")
        files[system] = file
        indexes = [one.index for one in found.captions]
        if o.references is not None:
            check_known(indexes, known, "references", file=file, ignore_unknown=o.ignore_unknown)
        for one in found.captions:
            if of := known.get(one.index):
                given = (of.references, of.events, of.group)
                extra = of.model_extra or {}
                items.append(Item(one.index, system, one.caption, *given, extra=extra))
            elif o.references is None:
                items.append(Item(one.index, system, one.caption, ()))
    if not items:
        raise UsageError("there are no candidates")
    (first, *more) = files
    name = counted(len(files), "system") if more else first or "captions"
    return CaptionSet(name, tuple(items), out)


def _references(o: MetricsOptions) -> Sequence[Reference]:
    if not isinstance(o.references, Mapping):
        return [] if o.references is None else load_references(o.references)
    found = []
    for index, texts in o.references.items():
        value = {"index": index, "references": texts}
        where = f"index {shown(index)}"
        found.append(validated(Reference, value, file=Path("references"), where=where))
    return found


def _systems(o: MetricsOptions, known: Iterable[str]) -> list[tuple[str, str | None, CaptionsFile]]:
    if isinstance(o.candidates, Mapping):
        return [("candidates", None, captions_in_memory(o.candidates, "candidates"))]
    read = [
        (str(path), name, found)
        for path in o.candidates
        for name, found in load_candidates(path, known=known, columns=o.columns)
    ]
    names = distinct_names([(name, Path(file.removeprefix("lines:"))) for file, name, _ in read])
    return [(file, name, found) for (file, _, found), name in zip(read, names, strict=True)]


# ---- The work ------------------------------------------------------------------------------------

_PlannedSet = tuple[CaptionSet, list[tuple[MetricWork, MetricPlan]], ExitStack]
"""A set of captions with the work and plan of each metric, and its lock."""


class Measuring(LongWork[Measured]):
    """Metrics and the captions that they measure, one set after another."""

    def __init__(
        self,
        options: MetricsOptions,
        sets: Sequence[CaptionSet],
        metrics: Sequence[Metric],
        chat: Chat | None,
    ) -> None:
        self.options, self.sets, self.metrics = options, sets, metrics
        self._planned: list[_PlannedSet] = []
        self.meter = chat.asker.meter if chat else Meter()
        if chat:
            self.title, self.model = f"Chat model: {chat.title}", chat.model
            self.thinks, self.caches_replies = chat.thinks, True

    async def prepare(self, locks: Locks) -> WorkEstimate:
        o, total, lines = self.options, Usage(), list[str]()
        todo: dict[str, dict[str, int]] = {}
        for captions in self.sets:
            works = [MetricWork(captions, one, self.meter, o.only, o.limit) for one in self.metrics]
            lock = locks.hold(works[0].locked())
            planned = [(work, work.plan()) for work in works]
            for metric, (_, plan) in zip(self.metrics, planned, strict=True):
                for changed, count in plan.stale.items():
                    what = f"removed {counted(count, 'outdated value')} of {metric.name}"
                    why = f"(the {changed} changed)"
                    o.on_notice(Loss(f"{captions.name}: {what} {why}"))
                count = len(plan.todo)
                todo.setdefault(captions.name, {})[metric.name] = count
                what = f"{counted(count, 'caption')} to measure with {metric.name}"
                lines.append(f"{captions.name}: {what}")
                if metric.uses_chat and plan.todo:
                    total += metric.expected(plan.todo)
            self._planned.append((captions, planned, lock))
        return self.estimate(total, lines, {"runs": todo})

    async def results(self, progress: Progress | None = None) -> AsyncIterator[Done[Measured]]:
        for captions, planned, lock in self._planned:
            by_system: dict[str | None, list[MetricResult]] = {}
            is_stopped = False
            with lock:
                for work, plan in planned:
                    done = await execute(work, plan, progress)
                    for system, result in work.results(done).items():
                        by_system.setdefault(system, []).append(result)
                    if is_stopped := done.stopped is not None:
                        break
            for system, results in by_system.items():
                found = Measured(system or captions.name, captions.out, tuple(results))
                files = [str(captions.out)] if captions.out else []
                yield Done(found, [one.left(found.name) for one in results], files)
            if is_stopped:
                return

    def value(self, results: Sequence[Measured]) -> MetricTable:
        return MetricTable(results)


@command("metrics", "max_failed", "yes", "dry_run", "as_json", "form", options=MetricsOptions)
@asynccontextmanager
async def open_measuring(o: MetricsOptions, *, dry_run: bool = False) -> AsyncIterator[Measuring]:
    """Compute caption metrics, and write each caption's values to metrics.jsonl.

    `capeval correlate` compares them with human ratings. Run the same command again to resume.

    Example
    -------
    >>> import capeval
    >>> (measured,) = capeval.measure(
    ...     candidates={"1": "A dog runs."}, references={"1": ["A dog runs."]})
    >>> measured.results[0].summaries["unigram-f1"].value
    1.0
    """
    check_configuration()
    kinds = dict(map(metric_kind, o.metric or CONTROLS))
    compares = [name for name, kind in kinds.items() if kind.uses_references]
    sets = _caption_sets(o, compares)
    async with AsyncExitStack() as stack:
        chat = None
        if any(kind.uses_chat for kind in kinds.values()):
            chat_model = open_chat(o, offline=dry_run)
            chat = await stack.enter_async_context(chat_model)
        metrics: list[Metric] = []
        for name, kind in kinds.items():
            own = chat if kind.uses_chat else None
            metric = make_metric(name, kind, Context(o.device, own, o.on_notice))
            stack.callback(metric.close)
            metrics.append(metric)
        outputs = Counter(output.name for metric in metrics for output in metric.outputs)
        if repeated := [name for name, count in outputs.items() if count > 1]:
            raise UsageError(f"two of the metrics have the output {repeated[0]}; leave one out")
        yield Measuring(o, sets, metrics, chat)


measure_async, measure = functions("measure", open_measuring, MetricsOptions, MetricTable)
