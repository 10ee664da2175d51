"""Judging many captions side by side, each recorded as soon as it is done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from capeval.errors import BudgetReached
from capeval.judging.one_caption import judge_caption
from capeval.judging.protocol import Judge
from capeval.schema import Annotation, Caption, Judgment

__all__ = ["judge_captions"]


async def judge_captions(
    work: Sequence[tuple[Annotation, Caption]],
    judge: Judge,
    *,
    repeats: int,
    concurrency: int,
    record: Callable[[Judgment], None],
) -> None:
    """Judge captions with at most `concurrency` in hand; `record` gets each judgment once.

    Raises
    ------
    EndpointRefused, EndpointDown, BudgetReached
        No further caption can be judged; those recorded stay.
    """
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
                # A reached budget lets what is under way come in, since it is paid for already.
                if not isinstance(failure, BudgetReached):
                    for other in workers:
                        if other is not asyncio.current_task():
                            other.cancel()
                return
            # An embedded judge never waits: without this Ctrl-C would have to.
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        count = max(1, min(concurrency, len(work)))
        workers.extend(group.create_task(worker()) for _ in range(count))
    if stopped:
        raise stopped[0]
