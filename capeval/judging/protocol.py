"""What a judge is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from capeval.schema import Annotation, Provenance, Usage, Verdict


@dataclass
class Tally:
    """What judging one caption has cost and who answered; filled even when judging fails."""

    stage: str = ""
    """The stage that was begun last: where it failed, if it did."""
    usage: dict[str, Usage] = field(default_factory=dict)
    models: set[str] = field(default_factory=set)
    fingerprints: set[str] = field(default_factory=set)
    left_off: set[str] = field(default_factory=set)

    def add(self, stage: str, usage: Usage) -> None:
        """Count the tokens of one stage."""
        self.usage[stage] = self.usage.get(stage, Usage()) + usage

    def provenance(self, judge: Judge) -> Provenance:
        """Return who judged, in a fixed order."""
        return Provenance(
            judge=judge.name,
            prompts=judge.prompts,
            base_url=judge.base_url,
            models=tuple(sorted(self.models)),
            fingerprints=tuple(sorted(self.fingerprints)),
            left_off=tuple(sorted(self.left_off)),
        )


class Judge(Protocol):
    """Judges one caption against one annotation.

    `name` and `prompts` (a label such as `tuna-cap-v1@1f3a9c`, or None) stand in the signature;
    `identity` is whatever else two judgments must share to be one result.
    """

    @property
    def name(self) -> str:
        """Name of the judge."""
        ...

    @property
    def prompts(self) -> str | None:
        """Name and hash of the prompt set, where there is one."""
        ...

    @property
    def base_url(self) -> str | None:
        """The endpoint, where there is one."""
        ...

    @property
    def identity(self) -> tuple[str, ...]:
        """What a stored verdict depends on besides the caption and its annotation."""
        ...

    async def judge(
        self, annotation: Annotation, caption: str, *, repeat: int, tally: Tally
    ) -> Verdict:
        """Return the verdict on a caption that is not empty.

        Raises
        ------
        ReplyError, RequestRefused, RetriesExhausted
            This caption could not be judged.
        EndpointRefused, EndpointDown, BudgetReached
            No caption can be judged any more.
        """
        ...


class _Rules(Protocol):
    @property
    def name(self) -> str: ...

    def judge(self, annotation: Annotation, caption: str) -> Verdict: ...


class EmbeddedJudge:
    """A deterministic judge in this process: it costs nothing and repeats itself."""

    def __init__(self, rules: _Rules) -> None:
        self._rules = rules

    @property
    def name(self) -> str:
        """Name and version of the rules."""
        return self._rules.name

    @property
    def prompts(self) -> str | None:
        """None: there are no prompts."""
        return None

    @property
    def base_url(self) -> str | None:
        """None: there is no endpoint."""
        return None

    @property
    def identity(self) -> tuple[str, ...]:
        """Name and version of the rules."""
        return (self._rules.name,)

    async def judge(
        self,
        annotation: Annotation,
        caption: str,
        *,
        repeat: int,  # noqa: ARG002 - rules say the same every time
        tally: Tally,  # noqa: ARG002 - and cost nothing
    ) -> Verdict:
        """Return the verdict on a caption."""
        return self._rules.judge(annotation, caption)
