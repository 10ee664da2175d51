"""The exceptions of a conversation that ended without a value, with what it has cost.

ReplyError
└── ReplyBroken     every attempt broke the reply's contract
RequestRefused
└── ReplyRefused    the model or its filter declined to answer
"""

from __future__ import annotations

from capeval.errors import ReplyError, RequestRefused
from capeval.llm.types import ChatReply, total_usage
from capeval.schema.usage import Usage

__all__ = ["ReplyBroken", "ReplyRefused"]


class _Replied(Exception):
    def __init__(
        self, reason: str, replies: tuple[ChatReply, ...], complaints: tuple[str, ...]
    ) -> None:
        super().__init__(reason)
        self.replies, self.complaints = replies, complaints

    @property
    def usage(self) -> Usage:
        """Tokens of all replies, cached or not."""
        return total_usage(self.replies)


class ReplyBroken(_Replied, ReplyError):
    """No reply kept its contract; `str()` is the last complaint, `replies` all that came."""


class ReplyRefused(_Replied, RequestRefused):
    """The model declined to answer; `replies` is all that came."""
