"""Judging a set of captions: what is left, all repeats of each caption, and the files it leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

from capeval.errors import JudgeError, ReplyError, RequestRefused, RetriesExhausted
from capeval.files.jsonl import short_hash
from capeval.files.judgments import (
    caption_hash,
    judgment_line,
    load_judgments,
    reference_hash,
    write_judgments,
)
from capeval.judging.estimate import JudgingEstimate, estimate
from capeval.judging.protocol import PreparedJudge, Tally
from capeval.judging.selection import OpenJudge
from capeval.runs.concurrency import work_through
from capeval.runs.engine import Labels, Plan, Spent, left_of, select
from capeval.runs.sources import Source
from capeval.schema import (
    Annotation,
    Caption,
    Inputs,
    Judgment,
    Scored,
    Unscored,
    Verdict,
    lacking,
)
from capeval.scoring.judged_run import JudgedRun, fingerprint, write_scores
from capeval.scoring.verdicts import changed_since, in_force, scored_by, votes_of


def inputs_of(judge: PreparedJudge, annotation: Annotation, caption: Caption) -> Inputs:
    """Return the hashes of everything that a verdict depends on."""
    return Inputs(
        judge=short_hash(judge.identity),
        caption=caption_hash(caption),
        reference=reference_hash(annotation),
    )


async def judge_caption(
    judge: PreparedJudge,
    annotation: Annotation,
    caption: Caption,
    *,
    repeats: int,
    before: Judgment | None = None,
) -> Judgment:
    """Judge one caption `repeats` times, minus the repeats that `before` has of the same text.

    An empty caption lacks every element and costs nothing. If any repeat fails, the caption is
    unscored: a majority of fewer votes than requested would be a different measurement. The
    repeats that were finished are kept.
    """
    tally = Tally()
    votes = list(votes_of(before)) if before else []
    if before and votes:
        tally.resume(before.usage, before.provenance)
    reason = ""
    for repeat in range(len(votes), repeats):
        try:
            if caption.is_empty:
                votes.append(empty_verdict(annotation))
            else:
                votes.append(
                    await judge.judge(annotation, caption.caption, repeat=repeat, tally=tally)
                )
        except (JudgeError, ReplyError, RequestRefused, RetriesExhausted) as failure:
            where = f"{tally.stage}: " if tally.stage else ""
            which = f"repeat {repeat + 1}: " if repeats > 1 else ""
            reason = f"{which}{where}{failure}"
            break
    judged = Unscored(
        index=caption.index,
        reason=reason or "judged",
        repeats=tuple(votes),
        inputs=inputs_of(judge, annotation, caption),
        usage=tally.usage,
        provenance=tally.provenance(judge),
    )
    return judged if reason else scored_by(votes, judged)


def empty_verdict(annotation: Annotation) -> Verdict:
    """Return the verdict on an empty caption."""
    return Verdict(
        candidate_events=(),
        matches=(),
        relations=tuple(map(lacking, annotation.events)),
        notes=("the caption is empty",),
    )


@dataclass(frozen=True)
class JudgingPlan(Plan[Judgment]):
    """`todo` are pairs of annotation and caption.

    `begun` are the judgments of these whose finished repeats count; `stale` counts the verdicts on
    texts that have changed, by what has changed.
    """

    begun: Mapping[str, Judgment]
    stale: Mapping[str, int]


class JudgingWork:
    """Judges the captions of a source with one judge; see `capeval.runs.engine.ResumableTask`."""

    labels = Labels(doing="judging", item="caption", done="judged", failed="unscored")

    def __init__(
        self,
        source: Source,
        opened: OpenJudge,
        *,
        repeats: int | None = None,
        only: Collection[str] = (),
        limit: int | None = None,
        none_left: Callable[[], None] = lambda: None,
    ) -> None:
        self._source, self._opened, self._none_left = source, opened, none_left
        self._only, self._limit = only, limit
        self.folder = opened.folder_in(source.run) if source.run else None
        """The judge's folder; captions in memory have none."""
        # A resumed run keeps its number of repeats unless another one is given.
        self._repeats = repeats or (self.folder and self.folder.repeats) or 1
        self.unchanged: str | None = None
        """The run's fingerprint, if a plan found that its files are as judging left them."""
        self._lines: dict[str, Judgment] = {}
        self._judgments: list[Judgment] = []

    def locked(self) -> AbstractContextManager[None]:
        """Lock the run; captions in memory have none."""
        return self._source.run.locked() if self._source.run else nullcontext()

    def plan(self) -> JudgingPlan:
        """Compare stored verdicts with the current captions and annotations."""
        source, judge = self._source, self._opened.judge
        source.check()
        self.unchanged = self._fingerprint_if_unchanged()
        if self.unchanged:
            return JudgingPlan(source.name, {}, [], {}, {})
        self._lines = load_judgments(self.folder.judgments) if self.folder else {}
        by_index = {annotation.index: annotation for annotation in source.annotations}
        judged_by = short_hash(judge.identity)
        kept: dict[str, Judgment] = {}
        begun: dict[str, Judgment] = {}
        stale: Counter[str] = Counter()
        for caption in source.captions:
            index, annotation = caption.index, by_index[caption.index]
            stored = self._lines.get(index)
            if stored is None or stored.inputs is None or stored.inputs.judge != judged_by:
                continue
            changed = changed_since(stored, annotation, caption)
            kept[index] = in_force(stored, changed, self._repeats)
            if changed is None:
                begun[index] = stored
            elif isinstance(stored, Scored):
                stale[changed] += 1
        chosen = select(source.captions, attrgetter("index"), only=self._only, limit=self._limit)
        left = left_of(chosen, kept, attrgetter("index"))
        todo = [(by_index[caption.index], caption) for caption in left]
        return JudgingPlan(source.name, kept, todo, begun, stale)

    async def estimate(self, plan: JudgingPlan) -> JudgingEstimate:
        """Return the expected cost of what the plan lists."""
        done = {index: len(votes_of(judgment)) for index, judgment in plan.begun.items()}
        return await estimate(plan.todo, self._opened, repeats=self._repeats, done=done)

    def create(self, plan: JudgingPlan) -> None:
        """Write the run's captions and manifest, and who judges it."""
        self._source.store()
        if self.folder:
            self.folder.write_judge(self._about(self.unchanged))

    def _about(self, finished: str | None) -> dict[str, Any]:
        judge = self._opened.judge
        return {
            "judge": judge.name,
            "prompts": judge.prompts,
            "endpoint": judge.endpoint,
            "reasoning": judge.reasoning,
            "identity": list(judge.identity),
            "hash": short_hash(judge.identity),
            "repeats": self._repeats,
            "finished": finished,
        }

    def _fingerprint_if_unchanged(self) -> str | None:
        if self.folder is None or self._only or not self.folder.scores.is_file():
            return None
        if self._source.is_assumed:
            return None
        found = fingerprint(self.folder, self._source.annotations, self._repeats)
        return found if self.folder.read_judge() == self._about(found) else None

    async def perform(self, plan: JudgingPlan, record: Callable[[Judgment], None]) -> None:
        """Judge what the plan lists.

        Under a cost cap, only as many captions are begun as can be finished: the calls of a caption
        that is not are paid for without a verdict.
        """
        meter = self._opened.meter
        cost = 0.0 if meter.cap is None else (await self.estimate(plan)).cost

        async def work(item: tuple[Annotation, Caption]) -> Judgment:
            before = plan.begun.get(item[1].index)
            return await judge_caption(
                self._opened.judge, *item, repeats=self._repeats, before=before
            )

        await work_through(
            plan.todo,
            work,
            concurrency=self._opened.concurrency,
            record=lambda _, judgment: record(judgment),
            has_room=meter.room_for(len(plan.todo), cost),
            under_way=self._opened.under_way,
            none_left=self._none_left,
        )

    def line(self, plan: JudgingPlan, outcome: Judgment) -> tuple[Path, Mapping[str, Any]] | None:
        """Return where a judgment is appended."""
        del plan
        self._lines[outcome.index] = outcome
        return (self.folder.judgments, judgment_line(outcome)) if self.folder else None

    def finish(self, plan: JudgingPlan, done: Mapping[str, Judgment]) -> None:
        """Write all verdicts in the order of the annotations, and the scores of those `done`.

        Verdicts on videos that are no longer captioned or annotated are kept at the end.
        """
        del plan
        if self.unchanged:
            return
        order = {one.index: place for place, one in enumerate(self._source.annotations)}
        self._judgments = [done[index] for index in order if index in done]
        if self.folder:
            lines = sorted(self._lines.values(), key=lambda one: order.get(one.index, len(order)))
            write_judgments(self.folder.judgments, lines)
            write_scores(self.folder, self.judged.scores)
            if not self.judged.scores.counts.unscored:
                found = fingerprint(self.folder, self._source.annotations, self._repeats)
                self.folder.write_judge(self._about(found))

    @cached_property
    def judged(self) -> JudgedRun:
        """The judgments that were finished, as a judged run; without a folder it has no file."""
        source, run = self._source, self._source.run
        captions = {caption.index: caption for caption in source.captions}
        return JudgedRun(
            name=source.name,
            file=self.folder.judgments if self.folder else Path(),
            run=run,
            annotations=source.annotations,
            annotations_path=source.annotations_path,
            captions=captions,
            judgments={judgment.index: judgment for judgment in self._judgments},
            captioned=len(captions),
        )

    def spent(self) -> Spent:
        """Return what the judge's calls used."""
        return Spent(self._opened.meter.usage, self._opened.meter.spent)
