"""Lets a judge that only computes stand where one that waits for a network does."""

from __future__ import annotations

from typing import Protocol

from capeval.judging.protocol import Tally
from capeval.schema import Annotation, Verdict

__all__ = ["EmbeddedJudge"]


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
