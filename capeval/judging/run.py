"""Judging one set of captions: what is left to judge, judging it, and the files it leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capeval.files.judgments import judgment_line
from capeval.judging.pipeline import is_by, judge_captions, what_differs
from capeval.judging.selection import OpenJudge
from capeval.runs.engine import Labels, Plan, Spent, select
from capeval.runs.sources import Source
from capeval.runs.verdicts import VerdictStore, changed_since
from capeval.schema import Annotation, Caption, Judgment, Scored


@dataclass(frozen=True)
class JudgingPlan(Plan[Judgment]):
    """`todo` are pairs of annotation and caption; `stale` counts stored verdicts that are judged
    again, by what has changed since.
    """

    stale: Mapping[str, int]


class JudgingWork:
    """Judges the captions of a source with one judge; see `capeval.runs.engine.Work`.

    A judge's folder is created with its first verdict, whether from the cache or the endpoint.
    """

    labels = Labels(doing="judging", item="caption", done="judged", failed="unscored")

    def __init__(
        self,
        source: Source,
        opened: OpenJudge,
        *,
        repeats: int = 1,
        only: Collection[str] = (),
        limit: int | None = None,
        seed: int = 0,
    ) -> None:
        self._source, self._opened = source, opened
        self._repeats, self._only, self._limit = repeats, only, limit
        folder = source.run.judge(opened.judge.name, opened.prompt_name) if source.run else None
        self.store = VerdictStore(source, folder, seed=seed)

    def locked(self) -> AbstractContextManager[None]:
        """Hold the run; captions in memory have none."""
        return self._source.run.locked() if self._source.run else nullcontext()

    def plan(self) -> JudgingPlan:
        """Compare stored verdicts with the captions, the annotations and the judge of today."""
        source = self._source
        source.check()
        by_index = {annotation.index: annotation for annotation in source.annotations}
        stored = self.store.load()
        kept: dict[str, Judgment] = {}
        stale: Counter[str] = Counter()
        for caption in source.captions:
            judgment = stored.get(caption.index)
            if judgment is None:
                continue
            changed = self._changed(judgment, by_index[caption.index], caption)
            if changed:
                stale[changed] += 1
            else:
                kept[caption.index] = judgment
        chosen = select(source.captions, _index, only=self._only, limit=self._limit)
        todo = [
            (by_index[caption.index], caption)
            for caption in chosen
            if not isinstance(kept.get(caption.index), Scored)
        ]
        return JudgingPlan(source.name, kept, todo, stale)

    def _changed(self, judgment: Judgment, annotation: Annotation, caption: Caption) -> str | None:
        """Return what has changed since a judgment was stored, or None if it still holds."""
        judge = self._opened.judge
        if judgment.inputs is None:
            return "origin"
        changed = changed_since(judgment, annotation, caption)
        if changed and changed[0] != "content of the file":
            return changed[0]
        if not is_by(judge, judgment):
            return what_differs(judge, judgment)
        if isinstance(judgment, Scored) and max(1, len(judgment.repeats)) != self._repeats:
            return "repeats"
        return changed[0] if changed else None

    def create(self, plan: JudgingPlan) -> None:  # noqa: ARG002 - the same for every plan
        """Write the run's captions and manifest."""
        self._source.store()

    async def perform(self, plan: JudgingPlan, record: Callable[[Judgment], None]) -> None:
        """Judge what the plan lists."""
        await judge_captions(
            plan.todo,
            self._opened.judge,
            repeats=self._repeats,
            concurrency=self._opened.concurrency,
            record=record,
        )

    def line(
        self,
        plan: JudgingPlan,  # noqa: ARG002 - the same for every plan
        outcome: Judgment,
    ) -> tuple[Path, Mapping[str, Any]] | None:
        """Return where a judgment is appended."""
        folder = self.store.folder
        return (folder.judgments, judgment_line(outcome)) if folder else None

    def finish(self, plan: JudgingPlan, done: Mapping[str, Judgment]) -> None:  # noqa: ARG002
        """Write `judgments.jsonl` and `scores.json`."""
        self.store.finish(done)

    def spent(self) -> Spent:
        """Return what the judge's calls used."""
        usage = self._opened.meter.usage
        return Spent(usage.input_tokens + usage.output_tokens, self._opened.meter.spent)


def _index(caption: Caption) -> str:
    return caption.index
