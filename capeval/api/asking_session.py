"""A model and the run that it writes: captions, or answers to questions."""

from __future__ import annotations

from typing import Generic, TypeVar

from capeval.captioners.protocol import OpenCaptioner
from capeval.captioners.selection import GenerationEstimate, estimate_generation
from capeval.captioners.stored_work import StoredPlan, StoredResult, StoredWork, complete
from capeval.runs.engine import Progress

ValueT = TypeVar("ValueT")
ResultT = TypeVar("ResultT", bound=StoredResult)


class AskingSession(Generic[ValueT, ResultT]):
    """One opened model and its work; `plan` is what the run lacks."""

    def __init__(
        self,
        work: StoredWork[ValueT, ResultT],
        opened: OpenCaptioner,
        *,
        written: int | None = None,
    ) -> None:
        self.work, self.opened, self._written = work, opened, written
        self.plan: StoredPlan[ValueT] = work.plan()

    async def estimate(self) -> GenerationEstimate:
        """Return the expected cost; reads up to three videos and calls nothing."""
        todo = self.plan.todo
        return await estimate_generation(todo, self.work.reader, self.opened, self._written)

    async def run(self, progress: Progress | None = None) -> ResultT:
        """Ask what is left; the last shard to finish merges all."""
        return await complete(self.work, progress)
