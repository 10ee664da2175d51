"""Judging captions: all repeats of each, their majority, and either a result or a reason."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from capeval.errors import (
    BudgetReached,
    JudgeError,
    ReplyError,
    RequestRefused,
    RetriesExhausted,
)
from capeval.files.judgments import caption_hash, reference_hash, short_hash
from capeval.judging.protocol import PreparedJudge, Tally
from capeval.schema import (
    Annotation,
    Caption,
    Inputs,
    Judgment,
    Relation,
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
    """Return whether a stored judgment is by this judge, under today's identity or an older one."""
    known = {short_hash(identity) for identity in judge.identities(judgment.provenance)}
    return judgment.inputs is not None and judgment.inputs.judge in known


def what_differs(judge: PreparedJudge, judgment: Judgment) -> str:
    """Return in one word what sets this judge apart from the one that made a stored judgment."""
    made = judgment.provenance
    if judge.prompts is None or made.judge != judge.name:
        return "judge"
    return "prompts" if made.prompts != judge.prompts else "endpoint"


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
        except (JudgeError, ReplyError, RequestRefused, RetriesExhausted) as failure:
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
    return Scored(
        index=caption.index,
        candidate_events=first.candidate_events,
        matches=first.matches,
        relations=majority([verdict.relations for verdict in verdicts]),
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


async def judge_captions(
    work: Sequence[tuple[Annotation, Caption]],
    judge: PreparedJudge,
    *,
    repeats: int,
    concurrency: int,
    record: Callable[[Judgment], None],
) -> None:
    """Judge at most `concurrency` captions at a time, and pass each judgment to `record` once."""
    todo = iter(work)
    stopped: list[Exception] = []
    workers: list[asyncio.Task[None]] = []

    async def worker() -> None:
        for annotation, caption in todo:
            if stopped:
                return
            try:
                record(await judge_caption(judge, annotation, caption, repeats=repeats))
            except Exception as failure:
                stopped.append(failure)
                # When the budget is reached, calls in progress finish: they are already paid for.
                if not isinstance(failure, BudgetReached):
                    for other in workers:
                        if other is not asyncio.current_task():
                            other.cancel()
                return
            # A judge that never waits would otherwise delay Ctrl-C until all captions are judged.
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        count = max(1, min(concurrency, len(work)))
        workers.extend(group.create_task(worker()) for _ in range(count))
    if stopped:
        raise stopped[0]
