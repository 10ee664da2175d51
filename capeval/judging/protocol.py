"""The protocol of a user's judge, and the prepared judge that the pipeline runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from capeval.llm.asker import Asked
from capeval.schema import Annotation, Provenance, Usage, Verdict


@dataclass
class Tally(Asked):
    """What judging one caption took; filled in even when judging fails.

    The notes are those of the last repeat.
    """

    stage: str = ""
    """The stage that began last: where judging failed, if it failed."""

    def resume(self, usage: Mapping[str, Usage], made: Provenance) -> None:
        """Begin with what earlier repeats of the caption used."""
        self.usage = dict(usage)
        self.models, self.fingerprints = set(made.models), set(made.fingerprints)
        self.left_off = set(made.left_off)

    def provenance(self, judge: PreparedJudge) -> Provenance:
        """Return who judged, in a fixed order."""
        return Provenance(
            judge=judge.name,
            prompts=judge.prompts,
            base_url=judge.base_url,
            models=tuple(sorted(self.models)),
            fingerprints=tuple(sorted(self.fingerprints)),
            left_off=tuple(sorted(self.left_off)),
            baseline=judge.is_baseline,
            endpoint=judge.endpoint,
            reasoning=judge.reasoning,
        )


Found = Verdict | Mapping[str, Any]


class Judge(Protocol):
    """What a judge must have; `docs/extending.md` has an example.

    A judge may also have these attributes:

    - `prompts`: name and hash of its prompts, such as `my-prompts@1f3a9c`; by default None
    - `base_url`: the endpoint that it calls, as verdicts record it; by default None
    - `identity`: strings that two verdicts must share to count as one result, such as versions
      and settings; name and prompts are always part of it
    - `concurrency`: how many captions it judges at the same time; by default 1
    - `description`: a few words after its name where a run begins
    """

    @property
    def name(self) -> str:
        """Name and version, such as `my-judge-1`; it names the judge's folder in a run."""
        ...

    @property
    def is_baseline(self) -> bool:
        """Whether this is a baseline, whose scores are not to be reported."""
        ...

    @property
    def judge(self) -> Callable[..., Found | Awaitable[Found]]:
        """Judge a caption that is not empty: `judge(annotation, caption)` returns a `Verdict`.

        It may be a coroutine function; if it is not, it runs in a thread. It also receives the
        keywords `repeat` (from 0) and `tally` if it has parameters of these names.
        """
        ...


class PreparedJudge(ABC):
    """A judge as the pipeline runs it, with all attributes; see `Judge` for what they mean."""

    name: str
    is_baseline: bool = False
    prompts: str | None = None
    base_url: str | None = None
    endpoint: str | None = None
    """The endpoint's name, if one is configured for its address."""
    reasoning: str | None = None
    """The effort that a chat model is asked for; None where nothing is sent."""
    identity: tuple[str, ...]
    concurrency: int = 1
    description: str = ""

    @abstractmethod
    async def judge(
        self, annotation: Annotation, caption: str, *, repeat: int, tally: Tally
    ) -> Verdict:
        """Return the verdict on a caption that is not empty.

        Raises
        ------
        JudgeError, ReplyError, RequestRefused, RetriesExhausted
            This caption could not be judged.
        EndpointRefused, EndpointDown, BudgetReached
            No caption can be judged any more.
        """

    def close(self) -> None:
        """Release the judge's resources, without waiting for a call in progress."""
        return

    @property
    def title(self) -> str:
        """The judge in words, for the beginning of a run."""
        where = f" at {self.base_url}" if self.base_url else ""
        what = f" ({self.description})" if self.description else ""
        with_prompts = f", prompts {self.prompts}" if self.prompts else ""
        effort = f", reasoning {self.reasoning}" if self.reasoning else ""
        return f"{self.name}{where}{what}{with_prompts}{effort}"
