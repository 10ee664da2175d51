"""Judging one caption: every repeat, the majority, and an outcome that is never half of one."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from capeval.errors import ReplyError, RequestRefused, RetriesExhausted
from capeval.files.jsonl import dumps
from capeval.judging.protocol import Judge, Tally
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

__all__ = ["caption_hash", "inputs_of", "judge_caption", "majority", "reference_hash"]


def inputs_of(judge: Judge, annotation: Annotation, caption: Caption) -> Inputs:
    """Return the hashes of all that a verdict depends on."""
    return Inputs(
        judge=_short_hash(judge.identity),
        caption=caption_hash(caption),
        reference=reference_hash(annotation),
    )


def caption_hash(caption: Caption) -> str:
    """Return a short hash of a caption's text."""
    return _short_hash(caption.caption)


def reference_hash(annotation: Annotation) -> str:
    """Return a short hash of the events and elements that a caption is judged against."""
    return _short_hash(
        [[e.event, *(v.content for v in e.visual_elements)] for e in annotation.events]
    )


def _short_hash(value: object) -> str:
    return hashlib.sha256(dumps(value).encode("utf-8")).hexdigest()[:12]


async def judge_caption(
    judge: Judge, annotation: Annotation, caption: Caption, *, repeats: int
) -> Judgment:
    """Judge one caption `repeats` times.

    An empty caption lacks every element and costs nothing. Where any repeat fails, the caption is
    unscored: a majority of fewer votes than asked for would be another measurement.

    Raises
    ------
    EndpointRefused, EndpointDown, BudgetReached, CacheMiss
        No caption can be judged any more.
    """
    tally = Tally()
    inputs = inputs_of(judge, annotation, caption)
    verdicts: list[Verdict] = []
    for repeat in range(repeats):
        try:
            if caption.is_empty:
                verdicts.append(nothing_said(annotation))
            else:
                verdicts.append(
                    await judge.judge(annotation, caption.caption, repeat=repeat, tally=tally)
                )
        except (ReplyError, RequestRefused, RetriesExhausted) as failure:
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


def nothing_said(annotation: Annotation) -> Verdict:
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
    """Return the label that most repeats give each element; a tie takes the earliest repeat's.

    >>> majority([[["lack"]], [["entailment"]], [["entailment"]]])
    (('entailment',),)
    >>> majority([[["lack"]], [["entailment"]]])
    (('lack',),)
    """
    return tuple(
        # most_common keeps the order of first sight among equals.
        tuple(Counter(labels).most_common(1)[0][0] for labels in zip(*events, strict=True))
        for events in zip(*votes, strict=True)
    )
