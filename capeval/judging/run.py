"""Judging one run: what is left to do, doing it, and the files that it leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

from capeval.errors import BudgetReached, EndpointDown, InputError
from capeval.files.jsonl import JsonlAppender, dumps, write_atomic
from capeval.files.judgments import judgment_line, load_judgments, write_judgments
from capeval.judging.pipeline import inputs_of, is_by, judge_captions, what_differs
from capeval.judging.selection import OpenJudge
from capeval.runs.folder import JudgeFolder
from capeval.runs.rescoring import summarise
from capeval.schema import Annotation, Caption, Judgment, Scored
from capeval.scoring import Scores, flaw_of
from capeval.text import nearest, shown


class Progress(Protocol):
    """Told how judging goes."""

    def begin(self, plan: RunPlan) -> None:
        """A run is about to be judged."""
        ...

    def judged(self, judgment: Judgment) -> None:
        """One caption is done."""
        ...


@dataclass(frozen=True)
class RunPlan:
    """What judging one run will do.

    `kept` are stored judgments that are still right, `work` what is to be judged now; `stale`
    counts stored verdicts that are out of date by what has changed since.
    """

    name: str
    folder: JudgeFolder | None
    annotations: tuple[Annotation, ...]
    captions: tuple[Caption, ...]
    kept: dict[str, Judgment]
    work: tuple[tuple[Annotation, Caption], ...]
    stale: dict[str, int]
    repeats: int


@dataclass(frozen=True)
class Outcome:
    """A judged run: its scores, what stayed unscored of what was asked for, and why it stopped."""

    plan: RunPlan
    scores: Scores
    unscored: dict[str, str]
    stopped: BudgetReached | EndpointDown | None


def selected(
    captions: Sequence[Caption], only: Collection[str], limit: int | None
) -> tuple[Caption, ...]:
    """Return the captions that `--only` and `--limit` leave.

    Raises
    ------
    InputError
        `only` names a video without a caption.
    """
    indexes = [caption.index for caption in captions]
    for index in only:
        if index not in indexes:
            raise InputError(
                f"no caption has the index {shown(index)}{nearest(index, indexes)}", field="--only"
            )
    chosen = [caption for caption in captions if not only or caption.index in only]
    return tuple(chosen[:limit])


def plan_run(
    name: str,
    folder: JudgeFolder | None,
    annotations: tuple[Annotation, ...],
    captions: tuple[Caption, ...],
    opened: OpenJudge,
    *,
    repeats: int,
    only: Collection[str] = (),
    limit: int | None = None,
) -> RunPlan:
    """Find out what is left to judge.

    Raises
    ------
    InputError
        Stored judgments are damaged, or `only` names no caption.
    """
    by_index = {annotation.index: annotation for annotation in annotations}
    stored = load_judgments(folder.judgments) if folder else {}
    kept: dict[str, Judgment] = {}
    stale: Counter[str] = Counter()
    for caption in captions:
        judgment = stored.get(caption.index)
        if judgment is None:
            continue
        changed = _changed(judgment, by_index[caption.index], caption, opened, repeats)
        if changed:
            stale[changed] += 1
        else:
            kept[caption.index] = judgment
    work = tuple(
        (by_index[caption.index], caption)
        for caption in selected(captions, only, limit)
        if not isinstance(kept.get(caption.index), Scored)
    )
    return RunPlan(
        name=name,
        folder=folder,
        annotations=annotations,
        captions=captions,
        kept=kept,
        work=work,
        stale=dict(stale),
        repeats=repeats,
    )


def _changed(
    judgment: Judgment,
    annotation: Annotation,
    caption: Caption,
    opened: OpenJudge,
    repeats: int,
) -> str | None:
    """Return what has changed since a judgment was stored, or None if it still holds."""
    now, then = inputs_of(opened.judge, annotation, caption), judgment.inputs
    if then is None:
        return "origin"
    if then.caption != now.caption:
        return "caption"
    if then.reference != now.reference:
        return "annotation"
    if not is_by(opened.judge, judgment):
        return what_differs(opened.judge, judgment)
    if not isinstance(judgment, Scored):
        return None
    if max(1, len(judgment.repeats)) != repeats:
        return "repeats"
    return "content of the file" if flaw_of(annotation, judgment) else None


async def execute(
    plan: RunPlan,
    opened: OpenJudge,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Outcome:
    """Judge what the plan says, score the whole run and write its files.

    Judgments are appended as they come; when all is done the file is rewritten in the
    annotations' order. Interrupted, it leaves a file from which the next run goes on.

    Raises
    ------
    EndpointRefused
        No call can succeed; what was judged before is kept.
    """
    done = dict(plan.kept)
    stopped: BudgetReached | EndpointDown | None = None
    if progress:
        progress.begin(plan)
    with ExitStack() as stack:
        append: Callable[[Any], None] | None = None
        if plan.folder:
            append = stack.enter_context(JsonlAppender(plan.folder.judgments)).append

        def record(judgment: Judgment) -> None:
            if append:
                append(judgment_line(judgment))
            done[judgment.index] = judgment
            if progress:
                progress.judged(judgment)

        try:
            await judge_captions(
                plan.work,
                opened.judge,
                repeats=plan.repeats,
                concurrency=opened.concurrency,
                record=record,
            )
        except (BudgetReached, EndpointDown) as failure:
            stopped = failure
    judgments = [
        done[annotation.index] for annotation in plan.annotations if annotation.index in done
    ]
    scores = summarise(
        plan.annotations,
        judgments,
        captioned=len(plan.captions),
        seed=seed,
    )
    if plan.folder:
        write_judgments(plan.folder.judgments, judgments)
        write_atomic(plan.folder.scores, dumps(scores.model_dump(mode="json"), indent=1) + "\n")
    return Outcome(plan=plan, scores=scores, unscored=_left(plan, done), stopped=stopped)


def _left(plan: RunPlan, done: dict[str, Judgment]) -> dict[str, str]:
    left: dict[str, str] = {}
    for annotation, _ in plan.work:
        judgment = done.get(annotation.index)
        if judgment is None:
            left[annotation.index] = "not judged: the run was stopped"
        elif not isinstance(judgment, Scored):
            left[annotation.index] = judgment.reason
    return left
