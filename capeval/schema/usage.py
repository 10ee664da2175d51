"""What a model call consumed."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Usage(BaseModel):
    """Tokens and calls, in the endpoint's own count; adds with `+`.

    `cached_tokens` is the part of `input_tokens` that the provider billed as a prompt-cache hit.

    >>> Usage(calls=1, input_tokens=10) + Usage(calls=1, input_tokens=5, output_tokens=2)
    Usage(calls=2, input_tokens=15, cached_tokens=0, output_tokens=2)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    calls: int = Field(default=0, ge=0)
    input_tokens: int = Field(default=0, ge=0)
    cached_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )
