"""Judge a set of captions: the remaining work, its cost, the repeats and the files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

from capeval.errors import JudgeError, ReplyError, RequestRefused, RetriesExhausted
from capeval.files.jsonl import short_hash, write_atomic
from capeval.files.judgments import (
    caption_hash,
    judgment_line,
    load_judgments,
    reference_hash,
    write_judgments,
)
from capeval.judging.contracts import EventToClassify, PromptSet, Stage, contract_of
from capeval.judging.judges import OpenJudge
from capeval.judging.protocol import PreparedJudge, RunOptions, Tally
from capeval.language import segments, size
from capeval.llm.money import CHARACTERS
from capeval.runs.concurrency import work_through
from capeval.runs.engine import Labels, Plan, ResumableTask, Spent, left_of, select
from capeval.runs.folder import JudgeFolder
from capeval.runs.resolve import Target
from capeval.runs.sources import Source
from capeval.schema import (
    Annotation,
    Caption,
    Inputs,
    Judgment,
    Scored,
    Unscored,
    Usage,
    Verdict,
    lacking,
)
from capeval.scoring.judged_run import JudgedRun, fingerprint, scores_text
from capeval.scoring.verdicts import changed_since, in_force, scored_by, votes_of


def inputs_of(judge: PreparedJudge, annotation: Annotation, caption: Caption) -> Inputs:
    """Return the hashes of everything that a verdict depends on."""
    return Inputs(
        judge=short_hash(judge.identity),
        caption=caption_hash(caption.caption),
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
                nothing = tuple(map(lacking, annotation.events))
                why = ("the caption is empty",)
                votes.append(Verdict(candidate_events=(), matches=(), relations=nothing, notes=why))
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


# ---- What judging is expected to cost ------------------------------------------------------------

# Characters of a segment of English prose; most events are one sentence.
_SEGMENT = 75
_SENTENCE = re.compile(r"[.!?…](?=\s|$)|[。！？]")
_MANY = 10
"""Enough items to measure what the form of a prompt adds to each."""


class Lengths:
    """Estimates the prompts and replies of a judge from the sizes of captions and annotations.

    Sizes are in characters (see `segments.size`). The templates, and what a prompt adds to each
    segment, event, part and element, are measured once.
    """

    def __init__(self, prompts: PromptSet) -> None:
        self.contract = contract = contract_of(prompts)
        self._templates = {
            stage: size(prompts.render(stage, dict.fromkeys(_PLACES, "")))
            for stage in prompts.templates
        }
        lines, none = [""] * _MANY, EventToClassify(1, "", ())
        text = "A man walks. " * _MANY
        self._segment = (size(contract.show_caption(text)) - size(text)) / len(segments(text))
        self._event = size(contract.show_events(lines)) / _MANY
        self._part = size(contract.show_parts([none] * _MANY)) / _MANY
        shown = size(contract.show_parts([EventToClassify(1, "", tuple(lines))]))
        self._element = (shown - self._part) / _MANY

    def expected(self, annotation: Annotation, caption: str, repeats: int) -> dict[Stage, Usage]:
        """Return the expected usage of the stages, as if all events were matched in order."""
        text, references = size(caption), len(annotation.events)
        events = max(1, len(_SENTENCE.findall(caption)))
        pieces = max(events, text // _SEGMENT)
        described = sum(size(event.event) for event in annotation.events)
        contents = sum(
            size(one.content) for event in annotation.events for one in event.visual_elements
        )
        # At most one reference event is matched for each event of the caption.
        matched = min(1.0, events / references)
        elements = round(matched * annotation.element_count)
        shown: dict[Stage, tuple[float, int]] = {
            "split": (text + pieces * self._segment, events),
            "match": (text + described + (events + references) * self._event, events),
            "classify": (
                text + matched * (contents + references * self._part) + elements * self._element,
                elements,
            ),
        }
        if text < 2 * _SEGMENT and len(segments(caption)) == 1:
            del shown["split"]
        return {
            stage: Usage(
                calls=repeats,
                input_tokens=round(repeats * (self._templates[stage] + characters) / CHARACTERS),
                output_tokens=repeats * self.contract.reply_tokens(stage, items),
            )
            for stage, (characters, items) in shown.items()
        }


_PLACES = ("caption", "candidate_events", "reference_events", "match_data")

# ---- The work on one run -------------------------------------------------------------------------


@dataclass(frozen=True)
class JudgingPlan(Plan[Judgment]):
    """`todo` are pairs of annotation and caption.

    `begun` are the judgments of these whose finished repeats count; `stale` counts the verdicts on
    texts that have changed, by what has changed; `expected` is the most that each stage takes;
    `replaced` are the run's captions so far, if others replace them.
    """

    begun: Mapping[str, Judgment] = field(default_factory=dict)
    stale: Mapping[str, int] = field(default_factory=dict)
    expected: Mapping[Stage, Usage] = field(default_factory=dict)
    replaced: Sequence[Caption] | None = None


class JudgingWork(ResumableTask[JudgingPlan, Judgment]):
    """Judges the captions of a target with one judge; they are loaded by `plan`."""

    labels = Labels(doing="judging", item="caption", done="judged", failed="unscored")
    source: Source

    def __init__(self, target: Target, opened: OpenJudge, options: RunOptions) -> None:
        self.target, self._opened, self._options = target, opened, options
        self.none_left: Callable[[], None] = lambda: None
        """Called when only the last captions are under way."""
        self.folder: JudgeFolder | None = None
        """The judge's folder; captions in memory have none."""
        self.unchanged: str | None = None
        """The run's fingerprint, if a plan found its files unchanged since judging."""
        self._lines: dict[str, Judgment] = {}
        self._judgments: list[Judgment] = []

    def locked(self) -> AbstractContextManager[None]:
        run = self.target.run
        return run.locked() if run else nullcontext()

    def plan(self) -> JudgingPlan:
        o, judge = self._options, self._opened.judge
        self.source = source = self.target.load()
        replaced = source.check()
        self.folder = self._opened.folder_in(source.run) if source.run else None
        # A resumed run keeps its number of repeats unless another one is given.
        self._repeats = o.repeats or (self.folder and self.folder.repeats) or 1
        self.unchanged = self._fingerprint_if_unchanged() if replaced is None else None
        if self.unchanged:
            return JudgingPlan(source.name, {}, [])
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
        chosen = select(source.captions, attrgetter("index"), only=o.only, limit=o.limit)
        left = left_of(chosen, kept, attrgetter("index"))
        todo = [(by_index[caption.index], caption) for caption in left]
        expected = self._expected(todo, begun)
        return JudgingPlan(source.name, kept, todo, begun, stale, expected, replaced)

    def outdated(self, folder: JudgeFolder) -> int:
        """Return how many verdicts of another judge are on texts that have changed."""
        captions = {caption.index: caption for caption in self.source.captions}
        stored = load_judgments(folder.judgments)
        return sum(
            isinstance(judged := stored.get(one.index), Scored)
            and changed_since(judged, one, captions.get(one.index)) is not None
            for one in self.source.annotations
        )

    def _expected(
        self, todo: Sequence[tuple[Annotation, Caption]], begun: Mapping[str, Judgment]
    ) -> dict[Stage, Usage]:
        prompts = self._opened.prompts
        if prompts is None:
            return {}
        lengths, total = Lengths(prompts), dict.fromkeys(prompts.templates, Usage())
        for annotation, caption in todo:
            stored = begun.get(caption.index)
            missing = self._repeats - (len(votes_of(stored)) if stored else 0)
            if caption.is_empty or missing <= 0:
                continue
            for stage, one in lengths.expected(annotation, caption.caption, missing).items():
                total[stage] += one
        return total

    def create(self, plan: JudgingPlan) -> None:
        self.source.store()
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
        if self.folder is None or self._options.only or not self.folder.scores.is_file():
            return None
        if self.source.is_assumed:
            return None
        found = fingerprint(self.folder, self.source.annotations, self._repeats)
        return found if self.folder.read_judge() == self._about(found) else None

    async def perform(self, plan: JudgingPlan, record: Callable[[Judgment], None]) -> None:
        """Judge what the plan lists.

        Under a cost cap, only as many captions are started as can be finished: calls for an
        unfinished caption cost money without a verdict.
        """
        meter = self._opened.meter
        cost = meter.cost(self._opened.judge.name, sum(plan.expected.values(), Usage()))

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
            none_left=self.none_left,
        )

    def line(self, outcome: Judgment) -> tuple[Path, Mapping[str, Any]] | None:
        self._lines[outcome.index] = outcome
        return (self.folder.judgments, judgment_line(outcome)) if self.folder else None

    def finish(self, plan: JudgingPlan, done: Mapping[str, Judgment]) -> None:
        """Write all verdicts in the order of the annotations, and the scores of those `done`.

        Verdicts on videos that are no longer captioned or annotated are kept at the end.
        """
        if self.unchanged:
            return
        order = {one.index: place for place, one in enumerate(self.source.annotations)}
        self._judgments = [done[index] for index in order if index in done]
        if self.folder:
            lines = sorted(self._lines.values(), key=lambda one: order.get(one.index, len(order)))
            write_judgments(self.folder.judgments, lines)
            write_atomic(self.folder.scores, scores_text(self.judged.scores))
            if not self.judged.scores.counts.unscored:
                found = fingerprint(self.folder, self.source.annotations, self._repeats)
                self.folder.write_judge(self._about(found))

    @cached_property
    def judged(self) -> JudgedRun:
        """The judgments that were finished, as a judged run; without a folder it has no file."""
        source, run = self.source, self.source.run
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
        return Spent(self._opened.meter.usage, self._opened.meter.spent)
