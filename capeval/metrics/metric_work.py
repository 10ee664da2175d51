"""Measure captions with one metric; the files of its values.

A line of `metrics.details/NAME.jsonl` has everything about one caption and one metric. It is
appended as soon as the caption is scored. `metrics.jsonl` is written from these files at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from capeval.config import blaming
from capeval.errors import BudgetReached, CapevalError, EndpointDown, InputError, UsageError
from capeval.files.jsonl import numbered_lines, validated, whole_lines, write_jsonl
from capeval.files.judgments import caption_hash
from capeval.llm.money import Meter
from capeval.metrics.protocol import Item, Metric, NoValues, Outcome, Summary, Values, key_of
from capeval.runs.engine import (
    Finished,
    Labels,
    Left,
    Plan,
    ResumableTask,
    Spent,
    Stored,
    left_of,
    select,
)
from capeval.runs.folder import RunFolder, safe_name
from capeval.runs.sources import Source
from capeval.schema import Usage
from capeval.text import described, shown, storable


@dataclass(frozen=True)
class CaptionSet:
    """Captions with their references, and the `metrics.jsonl`; without it, values stay in memory.

    `source` is the run of the captions; candidates have none.
    """

    name: str
    items: tuple[Item, ...]
    out: Path | None
    source: Source | None = None

    @property
    def details(self) -> Path | None:
        """The folder with one file of details for each metric, beside the file of values."""
        return None if self.out is None else self.out.with_name(f"{self.out.stem}.details")


class DetailLine(BaseModel):
    """One line of a file of details.

    `values` are by output; `reason` says why the caption has none. `undefined` outputs have no
    value by their definition. `inputs` are hashes of the texts and of the metric's settings.
    """

    model_config = ConfigDict(frozen=True)

    index: str
    system: str | None = None
    metric: str
    values: dict[str, float] = Field(default_factory=dict)
    undefined: dict[str, str] = Field(default_factory=dict)
    outputs: tuple[str, ...]
    reason: str | None = None
    signature: str
    inputs: dict[str, str]
    details: dict[str, Any] = Field(default_factory=dict)
    usage: Usage = Field(default_factory=Usage)

    @property
    def key(self) -> str:
        return key_of(self.index, self.system)

    def as_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_defaults=True)

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "index": self.index,
                "system": self.system,
                "metric": output,
                "value": self.values.get(output),
                "reason": self.reason or self.undefined.get(output),
                "signature": self.signature,
            }
            for output in self.outputs
        ]


def _line_of(metric: Metric, item: Item, outcome: Outcome) -> DetailLine:
    given = dict(vars(outcome))
    if isinstance(outcome, NoValues):
        given["reason"] = storable(outcome.reason)
    return DetailLine(
        index=item.index,
        system=item.system,
        metric=metric.name,
        outputs=tuple(output.name for output in metric.outputs),
        signature=metric.signature,
        inputs={"item": item.hash, "metric": metric.identity},
        **given,
    )


def _read_details(file: Path) -> list[DetailLine]:
    lines = numbered_lines(file)
    return [validated(DetailLine, value, file=file, where=where) for where, value in lines]


def _read_rows(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a `metrics.jsonl`, or none without a file; raises `InputError`."""
    rows = whole_lines(file)
    for number, row in enumerate(rows, start=1):
        if not (isinstance(row, dict) and {"index", "metric", "value"} <= row.keys()):
            message = "is not a metrics.jsonl: each line must have index, metric and value"
            raise InputError(f"{message}; choose another --out", file=file, where=f"line {number}")
    return rows


def _write_values(
    out: Path, details: Path, items: Sequence[Item], outputs: Collection[str]
) -> None:
    """Write `metrics.jsonl` from all files of details, in the order of the captions.

    Values of other captions and of earlier texts are left out, and so are rows of `outputs` that no
    file has. Rows of metrics without a file of details came from elsewhere; they stay.
    """
    order = {item.key: (place, item) for place, item in enumerate(items)}
    rows: list[tuple[int, dict[str, Any]]] = []
    own = {*outputs}
    for file in sorted(details.glob("*.jsonl")):
        latest = {line.key: line for line in _read_details(file)}
        own |= {output for line in latest.values() for output in line.outputs}
        for key, line in latest.items():
            place, item = order.get(key, (0, None))
            if item is not None and item.hash == line.inputs.get("item"):
                text = caption_hash(item.caption)
                rows += [(place, {**row, "caption_hash": text}) for row in line.rows()]
    rows.sort(key=lambda row: row[0])
    foreign = [row for row in _read_rows(out) if row["metric"] not in own]
    write_jsonl(out, [*(row for _, row in rows), *foreign])


_LABELS = Labels(doing="measuring", item="caption", done="measured", failed="unscored")


@dataclass(frozen=True)
class MetricResult:
    """One metric of all captions of a system.

    `summaries` are by output; `not_reached` captions were not tried, because the work was stopped.
    """

    metric: Metric
    summaries: Mapping[str, Summary]
    captioned: int
    scored: int
    unscored: Mapping[str, str]
    not_reached: int = 0
    stopped: BudgetReached | EndpointDown | None = None

    def left(self, name: str) -> Left:
        """Return what is left to do; `name` names the captions."""
        name = f"{name} {self.metric.name}"
        return Left(name, _LABELS, self.unscored, self.captioned, self.not_reached, self.stopped)

    def as_json(self) -> dict[str, Any]:
        outputs: dict[str, dict[str, Any]] = {}
        for output in self.metric.outputs:
            one = asdict(self.summaries[output.name])
            groups = {"groups": found} if (found := one.pop("groups")) else {}
            kind = {"unit": output.unit, "control": output.control}
            outputs[output.name] = one | kind | groups
        return {
            "metric": self.metric.name,
            "signature": self.metric.signature,
            "counts": {"captioned": self.captioned, "scored": self.scored},
            "outputs": outputs,
            "unscored": dict(self.unscored),
            "not_reached": self.not_reached,
            "stopped": str(self.stopped) if self.stopped else None,
        }


@dataclass(frozen=True)
class MetricPlan(Plan[Stored[DetailLine]]):
    """`stale` counts the stored values that are outdated, by the reason."""

    stale: Mapping[str, int]


class MetricWork(ResumableTask[MetricPlan, Stored[DetailLine]]):
    """Scores captions of the videos of `only` and `limit` with one metric."""

    labels = _LABELS

    def __init__(
        self,
        captions: CaptionSet,
        metric: Metric,
        meter: Meter,
        only: Collection[str],
        limit: int | None,
    ) -> None:
        self.captions, self.metric = captions, metric
        with blaming(self._failed):
            self.metric = metric.for_captions(captions.items)
        self._meter, self._only, self._limit = meter, only, limit
        self._outputs = tuple(output.name for output in self.metric.outputs)
        folder = captions.details
        self._file = None if folder is None else folder / f"{safe_name(metric.name)}.jsonl"

    def locked(self) -> AbstractContextManager[None]:
        captions = self.captions
        if captions.source is not None and captions.source.run is not None:
            return captions.source.run.locked()
        return RunFolder(captions.details).locked() if captions.details else nullcontext()

    def plan(self) -> MetricPlan:
        captions, metric = self.captions, self.metric
        if captions.source is not None:
            captions.source.check()
        stored: list[DetailLine] = []
        if self._file is not None and captions.out is not None:
            # Refuse a file that cannot be rewritten at the end before any work.
            _read_rows(captions.out)
            stored = _read_details(self._file)
        items = {item.key: item for item in captions.items}
        kept: dict[str, Stored[DetailLine]] = {}
        old: dict[str, str] = {}
        for line in stored:
            item = items.get(line.key)
            if item is None:
                continue
            expected = {"item": item.hash, "metric": metric.identity}
            if (line.inputs, line.outputs) == (expected, self._outputs):
                # Of several lines of one caption, a scored one is used, or else the last.
                if line.reason is None or line.key not in kept or kept[line.key].reason:
                    kept[line.key] = Stored(line.key, line, line.reason)
            elif line.reason is None:
                same_text = line.inputs.get("item") == item.hash
                old[line.key] = "metric's settings" if same_text else "caption or reference"
        stale = Counter(changed for key, changed in old.items() if key not in kept)
        todo = left_of(self._chosen(), kept, attrgetter("key"))
        return MetricPlan(f"{captions.name} {metric.name}", kept, todo, stale)

    def _chosen(self) -> list[Item]:
        items = self.captions.items
        indexes = [*dict.fromkeys(item.index for item in items)]
        wanted = {*select(indexes, str, only=self._only, limit=self._limit)}
        return [item for item in items if item.index in wanted]

    def create(self, plan: MetricPlan) -> None:
        if self.captions.source is not None:
            self.captions.source.store()

    async def perform(self, plan: MetricPlan, record: Callable[[Stored[DetailLine]], None]) -> None:
        metric, meter = self.metric, self._meter
        left = {item.key: item for item in plan.todo}
        if not left:
            return

        def scored(item: Item, outcome: Outcome) -> None:
            # A metric may pass a copy of the item, with other texts.
            own = left.pop(item.key)
            line = _line_of(metric, own, outcome)
            given = [*line.values, *line.undefined]
            if line.reason is None and {*given} != {*self._outputs}:
                raise UsageError(
                    f"the metric {metric.name} returned {', '.join(given) or 'nothing'}, not one "
                    f"value for each of {', '.join(self._outputs)}"
                )
            record(Stored(own.key, line, line.reason))

        with blaming(self._failed, passing=(CapevalError, OSError)):
            if metric.uses_chat and meter.cap is not None:
                cost = meter.cost(metric.context.the_chat.model, metric.expected(plan.todo))
                metric.has_room = meter.room_for(len(plan.todo), cost)
            await metric.score(plan.todo, scored)
        if left:
            raise UsageError(f"the metric {metric.name} did not score {len(left)} captions")

    def _failed(self, error: BaseException) -> CapevalError:
        return UsageError(f"the metric {shown(self.metric.name)} failed: {described(error)}")

    def line(self, outcome: Stored[DetailLine]) -> tuple[Path, Mapping[str, Any]] | None:
        return None if self._file is None else (self._file, outcome.value.as_json())

    def finish(self, plan: MetricPlan, done: Mapping[str, Stored[DetailLine]]) -> None:
        file, out, items = self._file, self.captions.out, self.captions.items
        if file is None or out is None:
            return
        lines = [done[item.key].value.as_json() for item in items if item.key in done]
        if lines or file.exists():
            write_jsonl(file, lines)
        if file.parent.is_dir():
            _write_values(out, file.parent, items, self._outputs)

    def spent(self) -> Spent:
        return Spent(self._meter.usage, self._meter.spent)

    def results(self, finished: Finished[Stored[DetailLine]]) -> dict[str | None, MetricResult]:
        by_system: dict[str | None, list[Item]] = {}
        for item in self._chosen():
            by_system.setdefault(item.system, []).append(item)
        return {system: self._result(items, finished) for system, items in by_system.items()}

    def _result(
        self, items: Sequence[Item], finished: Finished[Stored[DetailLine]]
    ) -> MetricResult:
        done = finished.done
        reached = [(item, done[item.key].value) for item in items if item.key in done]
        scored = [
            (item, Values(line.values, line.undefined, line.details, line.usage))
            for item, line in reached
            if line.reason is None
        ]
        with blaming(self._failed):
            found = self.metric.summarise(scored)
            summaries = {name: found[name] for name in self._outputs}
        return MetricResult(
            metric=self.metric,
            summaries=summaries,
            captioned=len(items),
            scored=len(scored),
            unscored={item.index: line.reason for item, line in reached if line.reason is not None},
            not_reached=len(items) - len(reached),
            stopped=finished.stopped,
        )
