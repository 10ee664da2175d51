"""Judging a set of captions: what is left, all repeats of each caption, and the files it leaves."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from capeval.errors import (
    JudgeError,
    ReplyError,
    RequestRefused,
    RetriesExhausted,
)
from capeval.files.judgments import caption_hash, judgment_line, reference_hash, short_hash
from capeval.judging.protocol import PreparedJudge, Tally
from capeval.judging.selection import OpenJudge, estimate
from capeval.plugins import is_cancelled
from capeval.runs.engine import Labels, Plan, Spent, select
from capeval.runs.sources import Source
from capeval.runs.verdicts import VerdictStore, changed_since
from capeval.runs.workers import work_through
from capeval.schema import (
    Annotation,
    Caption,
    Explanations,
    Inputs,
    Judgment,
    Relation,
    Relations,
    Scored,
    Unscored,
    Verdict,
    lacking,
)


def inputs_of(judge: PreparedJudge, annotation: Annotation, caption: Caption) -> Inputs:
    """Return the hashes of everything that a verdict depends on."""
    return Inputs(
        judge=short_hash(judge.identity),
        caption=caption_hash(caption),
        reference=reference_hash(annotation),
    )


def is_by(judge: PreparedJudge, judgment: Judgment) -> bool:
    """Return whether a stored judgment is by this judge, under its current or an older identity."""
    known = {short_hash(identity) for identity in judge.identities(judgment.provenance)}
    return judgment.inputs is not None and judgment.inputs.judge in known


def what_differs(judge: PreparedJudge, judgment: Judgment) -> str:
    """Return in a word or two how this judge differs from the one that made a stored judgment."""
    made = judgment.provenance
    if judge.prompts is None or made.judge != judge.name:
        return "judge"
    if made.prompts != judge.prompts:
        return "prompts"
    return "reasoning effort" if made.reasoning != judge.reasoning else "endpoint"


async def judge_caption(
    judge: PreparedJudge, annotation: Annotation, caption: Caption, *, repeats: int
) -> Judgment:
    """Judge one caption `repeats` times.

    An empty caption lacks every element and costs nothing. If any repeat fails, the caption is
    unscored: a majority of fewer votes than requested would be a different measurement.
    """
    tally = Tally()
    inputs = inputs_of(judge, annotation, caption)
    verdicts: list[Verdict] = []
    for repeat in range(repeats):
        try:
            if caption.is_empty:
                verdicts.append(empty_verdict(annotation))
            else:
                verdicts.append(
                    await judge.judge(annotation, caption.caption, repeat=repeat, tally=tally)
                )
        except (
            *(JudgeError, ReplyError, RequestRefused, RetriesExhausted),
            asyncio.CancelledError,
        ) as failure:
            if isinstance(failure, asyncio.CancelledError):
                if is_cancelled(asyncio.current_task()):
                    raise
                # A client cancelled its own call; the caption must not be lost with it.
                failure = JudgeError("the call was cancelled")
            where = f"{tally.stage}: " if tally.stage else ""
            which = f"repeat {repeat + 1}: " if repeats > 1 else ""
            return Unscored(
                index=caption.index,
                reason=f"{which}{where}{failure}",
                repeats=tuple(verdicts),
                inputs=inputs,
                usage=tally.usage,
                provenance=tally.provenance(judge),
            )
    first = verdicts[0]
    relations = majority([verdict.relations for verdict in verdicts])
    return Scored(
        index=caption.index,
        candidate_events=first.candidate_events,
        matches=first.matches,
        relations=relations,
        explanations=explanations_of(relations, verdicts),
        notes=first.notes,
        repeats=tuple(verdicts) if repeats > 1 else (),
        inputs=inputs,
        usage=tally.usage,
        provenance=tally.provenance(judge),
    )


def empty_verdict(annotation: Annotation) -> Verdict:
    """Return the verdict on an empty caption."""
    return Verdict(
        candidate_events=(),
        matches=(),
        relations=tuple(map(lacking, annotation.events)),
        notes=("the caption is empty",),
    )


def majority(
    votes: Sequence[Sequence[Sequence[Relation]]],
) -> tuple[tuple[Relation, ...], ...]:
    """Return the most frequent label of each element; a tie goes to the earliest repeat.

    >>> majority([[["lack"]], [["entailment"]], [["entailment"]]])
    (('entailment',),)
    >>> majority([[["lack"]], [["entailment"]]])
    (('lack',),)
    """
    return tuple(
        # Among equals, most_common keeps the order of first occurrence.
        tuple(Counter(labels).most_common(1)[0][0] for labels in zip(*events, strict=True))
        for events in zip(*votes, strict=True)
    )


def explanations_of(relations: Relations, verdicts: Sequence[Verdict]) -> Explanations:
    """Return for each element the explanation of the earliest repeat that gave its relation."""
    explained = [(v.relations, v.explanations) for v in verdicts if v.explanations is not None]
    if not explained:
        return None
    return tuple(
        tuple(
            next((texts[e][k] for given, texts in explained if given[e][k] == relation), "")
            for k, relation in enumerate(event)
        )
        for e, event in enumerate(relations)
    )


async def judge_captions(
    work: Sequence[tuple[Annotation, Caption]],
    judge: PreparedJudge,
    *,
    repeats: int,
    concurrency: int,
    record: Callable[[Judgment], None],
    has_room: Callable[[int], bool] = lambda _: True,
) -> None:
    """Judge at most `concurrency` captions at a time, and pass each judgment to `record` once.

    Parameters
    ----------
    has_room : whether another caption may be begun beside so many that are; one always may
    """

    async def one(item: tuple[Annotation, Caption]) -> Judgment:
        return await judge_caption(judge, *item, repeats=repeats)

    await work_through(
        work,
        one,
        concurrency=concurrency,
        record=lambda _, judgment: record(judgment),
        has_room=has_room,
    )


@dataclass(frozen=True)
class JudgingPlan(Plan[Judgment]):
    """`todo` are pairs of annotation and caption.

    `stale` counts verdicts to be judged again, by what has changed. `replaced` are the videos whose
    verdict in force is another judge's: it counts until all of them are judged again. `next_left`
    as for `VerdictStore.finish`.
    """

    stale: Mapping[str, int]
    replaced: frozenset[str] = frozenset()
    next_left: Sequence[Judgment] = ()


@dataclass(frozen=True)
class Held:
    """Why the verdicts of another judge remain in force: of `videos`, so many are `scored` by the
    new one, and `unscored`; the others are not judged yet.
    """

    videos: int
    scored: int
    unscored: int


class JudgingWork:
    """Judges the captions of a source with one judge; see `capeval.runs.engine.ResumableTask`.

    `max_unscored` is how many captions may lose the verdict of another judge, unscored by this one.
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
        max_unscored: float = 0,
    ) -> None:
        self._source, self._opened = source, opened
        self._repeats, self._only, self._limit = repeats, only, limit
        self._max_unscored = max_unscored
        folder = opened.folder_in(source.run) if source.run else None
        self.store = VerdictStore(source, folder)

    def locked(self) -> AbstractContextManager[Callable[[], None]]:
        """Lock the run; captions in memory have none."""
        return self._source.run.locked() if self._source.run else nullcontext(lambda: None)

    def plan(self) -> JudgingPlan:
        """Compare stored verdicts with the current captions, annotations and judge."""
        source = self._source
        source.check()
        by_index = {annotation.index: annotation for annotation in source.annotations}
        stored = self.store.load()
        in_force = {judgment.index: judgment for judgment in stored.in_force}
        by_video: dict[str, list[Judgment]] = {}
        for judgment in stored:
            by_video.setdefault(judgment.index, []).append(judgment)
        kept: dict[str, Judgment] = {}
        stale: Counter[str] = Counter()
        replaced = set()
        for caption in source.captions:
            index, annotation = caption.index, by_index[caption.index]
            judgments = by_video.get(index, ())
            changes = {id(one): self._changed(one, annotation, caption) for one in judgments}
            for judgment in judgments:
                better = isinstance(judgment, Scored) or not isinstance(kept.get(index), Scored)
                if better and changes[id(judgment)] is None:
                    kept[index] = judgment
            current = in_force.get(index)
            if not isinstance(current, Scored):
                continue
            if changed := changes[id(current)]:
                if not isinstance(kept.get(index), Scored):
                    stale[changed] += 1
                if changed_since(current, annotation, caption) is None:
                    replaced.add(index)
        chosen = select(source.captions, attrgetter("index"), only=self._only, limit=self._limit)
        todo = [
            (by_index[caption.index], caption)
            for caption in chosen
            if not isinstance(kept.get(caption.index), Scored)
        ]
        # What failed before may fail again, and stop the run before it reaches the others.
        todo.sort(key=lambda item: item[1].index in kept)
        # Verdicts that were to replace these same ones are themselves replaced.
        left = [] if replaced else [one for one in stored.next if self._by_another(one)]
        return JudgingPlan(source.name, kept, todo, stale, frozenset(replaced), left)

    def _changed(self, judgment: Judgment, annotation: Annotation, caption: Caption) -> str | None:
        """Return what has changed since a judgment was stored, or None if it is still valid."""
        if judgment.inputs is None:
            return "origin"
        changed = changed_since(judgment, annotation, caption)
        if changed and changed[0] != "content of the file":
            return changed[0]
        return self._by_another(judgment) or (changed[0] if changed else None)

    def _by_another(self, judgment: Judgment) -> str | None:
        """Return how the judge of a judgment differs from this one, or None."""
        judge = self._opened.judge
        if not is_by(judge, judgment):
            return what_differs(judge, judgment)
        if isinstance(judgment, Scored) and max(1, len(judgment.repeats)) != self._repeats:
            return "repeats"
        return None

    def create(self, plan: JudgingPlan) -> None:  # noqa: ARG002 - the same for every plan
        """Write the run's captions and manifest."""
        self._source.store()

    async def perform(self, plan: JudgingPlan, record: Callable[[Judgment], None]) -> None:
        """Judge what the plan lists.

        Under a cost cap, only as many captions are begun as can be finished: the calls of a caption
        that is not are paid for without a verdict.
        """
        meter, each = self._opened.meter, 0.0
        if meter.cap is not None and plan.todo:
            expected = await estimate(plan.todo, self._opened, repeats=self._repeats)
            each = (expected.cost or 0.0) / len(plan.todo)
        await judge_captions(
            plan.todo,
            self._opened.judge,
            repeats=self._repeats,
            concurrency=self._opened.concurrency,
            record=record,
            has_room=lambda begun: (
                meter.cap is None or meter.spent + (begun + 1) * each <= meter.cap
            ),
        )

    def line(self, plan: JudgingPlan, outcome: Judgment) -> tuple[Path, Mapping[str, Any]] | None:
        """Return where a judgment is appended."""
        folder = self.store.folder
        if folder is None:
            return None
        return folder.next if plan.replaced else folder.judgments, judgment_line(outcome)

    def finish(self, plan: JudgingPlan, done: Mapping[str, Judgment]) -> None:
        """Put the verdicts in force, unless those of another judge remain so."""
        if self.held(plan, done):
            self.store.hold(done)
        else:
            self.store.finish(done, next_left=plan.next_left)

    def held(self, plan: JudgingPlan, done: Mapping[str, Judgment]) -> Held | None:
        """Return what is missing if the verdicts of another judge remain in force, else None."""
        lost = [index for index in plan.replaced if not isinstance(done.get(index), Scored)]
        unscored = sum(index in done for index in lost)
        if unscored == len(lost) <= self._max_unscored:
            return None
        return Held(len(plan.replaced), len(plan.replaced) - len(lost), unscored)

    def spent(self) -> Spent:
        """Return what the judge's calls used."""
        usage = self._opened.meter.usage
        return Spent(usage.input_tokens + usage.output_tokens, self._opened.meter.spent)
