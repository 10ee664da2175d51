"""Measuring captions with one metric; see `capeval.runs.engine` for how work is resumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from capeval.errors import BudgetReached, CapevalError, EndpointDown, UsageError
from capeval.files.jsonl import write_jsonl
from capeval.llm.meter import Meter
from capeval.metrics.inputs import Target
from capeval.metrics.protocol import Item, Metric, Outcome, Scored, Summary
from capeval.metrics.registry import described
from capeval.metrics.store import Line, line_of, read_lines, read_rows, write_values
from capeval.plugins import blaming
from capeval.runs.engine import Finished, Labels, Plan, Spent, Stored, left_of, select
from capeval.runs.folder import RunFolder, safe_name
from capeval.text import shown


@dataclass(frozen=True)
class MetricPlan(Plan[Stored[Line]]):
    """`todo` are items; `stale` counts stored values that no longer hold, by what changed."""

    stale: Mapping[str, int]


@dataclass(frozen=True)
class MetricResult:
    """One metric of all captions of a system.

    Attributes
    ----------
    summaries : by the name of the output
    captioned, scored : numbers of captions
    unscored : why captions are not scored, by index
    not_reached : how many captions were not tried, because the work was stopped
    """

    metric: Metric
    summaries: Mapping[str, Summary]
    captioned: int
    scored: int
    unscored: Mapping[str, str]
    not_reached: int = 0
    stopped: BudgetReached | EndpointDown | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "metric": self.metric.name,
            "signature": self.metric.signature,
            "counts": {"captioned": self.captioned, "scored": self.scored},
            "outputs": {
                output.name: {
                    "value": (one := self.summaries[output.name]).value,
                    "n": one.n,
                    "undefined": one.undefined,
                    "reason": one.reason,
                    "unit": output.unit,
                    "control": output.control,
                    **({"groups": dict(one.groups)} if one.groups else {}),
                }
                for output in self.metric.outputs
            },
            "unscored": dict(self.unscored),
            "not_reached": self.not_reached,
            "stopped": str(self.stopped) if self.stopped else None,
        }


class MetricWork:
    """Scores the captions of a target with one metric; a `ResumableTask`."""

    labels = Labels(doing="measuring", item="caption", done="measured", failed="unscored")

    def __init__(
        self,
        target: Target,
        metric: Metric,
        meter: Meter,
        *,
        only: Collection[str] = (),
        limit: int | None = None,
    ) -> None:
        self.target, self.metric = target, metric
        with blaming(self._failed):
            self.metric = metric.for_captions(target.items)
        self._meter, self._only, self._limit = meter, only, limit
        folder = target.details
        self._file = None if folder is None else folder / f"{safe_name(metric.name)}.jsonl"

    def locked(self) -> AbstractContextManager[None]:
        """Lock the run, or the folder of details."""
        target = self.target
        if target.source is not None and target.source.run is not None:
            return target.source.run.locked()
        return RunFolder(target.details).locked() if target.details else nullcontext()

    def plan(self) -> MetricPlan:
        """Compare what is stored with the captions, the references and the metric's settings."""
        target, metric = self.target, self.metric
        if target.source is not None:
            target.source.check()
        stored: list[Line] = []
        if self._file is not None and target.out is not None:
            # They are written at the end; a file that cannot be read is refused before any work.
            read_rows(target.out)
            stored = read_lines(self._file)
        items = {item.key: item for item in target.items}
        kept: dict[str, Stored[Line]] = {}
        old: dict[str, str] = {}
        for line in stored:
            item = items.get(line.key)
            if item is None:
                continue
            expected = {"item": item.hash, "metric": metric.identity}
            if (line.inputs, line.outputs) == (expected, self._outputs):
                # A caption may have several lines: a scored one is used, else the last.
                if line.reason is None or line.key not in kept or kept[line.key].reason:
                    kept[line.key] = Stored(line.key, line, line.reason)
            elif line.reason is None:
                same_text = line.inputs.get("item") == item.hash
                old[line.key] = "metric's settings" if same_text else "caption or reference"
        stale = Counter(changed for key, changed in old.items() if key not in kept)
        chosen = self.chosen()
        with blaming(self._failed, passing=(CapevalError, OSError)):
            metric.check(chosen)
        todo = left_of(chosen, kept, attrgetter("key"))
        return MetricPlan(f"{target.name} {metric.name}", kept, todo, stale)

    @property
    def _outputs(self) -> tuple[str, ...]:
        return tuple(output.name for output in self.metric.outputs)

    def chosen(self) -> list[Item]:
        """Return the captions that --only and --limit leave: all of the videos that they name."""
        items = self.target.items
        indexes = [*dict.fromkeys(item.index for item in items)]
        wanted = {*select(indexes, str, only=self._only, limit=self._limit)}
        return [item for item in items if item.index in wanted]

    def create(self, plan: MetricPlan) -> None:  # noqa: ARG002 - the same for every plan
        """Write the run's captions and manifest, if they are not there yet."""
        if self.target.source is not None:
            self.target.source.store()

    async def perform(self, plan: MetricPlan, record: Callable[[Stored[Line]], None]) -> None:
        """Score what the plan lists."""
        metric, meter = self.metric, self._meter
        left = {item.key: item for item in plan.todo}
        if not left:
            return

        def scored(item: Item, outcome: Outcome) -> None:
            # A metric may pass a copy of the item, with other texts.
            own = left.pop(item.key, None)
            if own is None:
                raise UsageError(
                    f"the metric {metric.name} recorded {shown(item.index)} more often than it "
                    "was asked to score it"
                )
            line = line_of(metric, own, outcome)
            if line.reason is None and {*line.values, *line.undefined} != {*self._outputs}:
                given = ", ".join([*line.values, *line.undefined]) or "nothing"
                raise UsageError(
                    f"the metric {metric.name} returned {given}, not one value for each of "
                    f"{', '.join(self._outputs)}"
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

    def line(
        self, plan: MetricPlan, outcome: Stored[Line]
    ) -> tuple[Path, Mapping[str, Any]] | None:
        """Return where an outcome is appended."""
        del plan
        return None if self._file is None else (self._file, outcome.value.as_json())

    def finish(self, plan: MetricPlan, done: Mapping[str, Stored[Line]]) -> None:
        """Write the details in the order of the captions, and then all values."""
        del plan
        target = self.target
        if self._file is None or target.out is None:
            return
        lines = [done[item.key].value.as_json() for item in target.items if item.key in done]
        if lines or self._file.exists():
            write_jsonl(self._file, lines)
        if self._file.parent.is_dir():
            write_values(target.out, self._file.parent, target.items, self._outputs)

    def spent(self) -> Spent:
        """Return what the calls used."""
        return Spent(self._meter.usage, self._meter.spent)

    def results(
        self, finished: Finished[MetricPlan, Stored[Line]]
    ) -> dict[str | None, MetricResult]:
        """Return the result of each system over the captions that were chosen."""
        by_system: dict[str | None, list[Item]] = {}
        for item in self.chosen():
            by_system.setdefault(item.system, []).append(item)
        return {
            system: self._result(items, finished.done, finished.stopped)
            for system, items in by_system.items()
        }

    def _result(
        self,
        items: Sequence[Item],
        done: Mapping[str, Stored[Line]],
        stopped: BudgetReached | EndpointDown | None,
    ) -> MetricResult:
        reached = [(item, done[item.key].value) for item in items if item.key in done]
        scored = [
            (item, Scored(line.values, line.undefined, line.details, line.usage))
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
            stopped=stopped,
        )
