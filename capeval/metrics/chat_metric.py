"""Metrics that ask a chat model about each caption."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from capeval.llm.questions import CHARACTERS, QUESTION_FAILURES, Asked, FormT, Question, ask_chat
from capeval.llm.types import ReplyBroken, ReplyRefused
from capeval.metrics.protocol import CaptionMetric, Context, Item, Outcome, Scored, Unscored
from capeval.schema import Usage

T = TypeVar("T")


class ChatMetric(CaptionMetric):
    """A metric that scores each caption by asking a chat model about it."""

    uses_chat = True
    usual: Usage
    """About the most that one caption takes, without the tokens of its texts; for estimates."""
    times_sent: int = 1
    """How often the caption, and its references, are part of a prompt."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.chat = context.the_chat
        self.concurrency = self.chat.concurrency
        self._failed: dict[str, ReplyBroken | ReplyRefused] = {}

    @abstractmethod
    async def ask_about(self, item: Item, asked: Asked) -> Outcome:
        """Return the values of one caption; every question goes through `ask`, with `asked`."""

    async def score_caption(self, item: Item) -> Outcome:
        """Return the values of one caption; a failed question leaves it unscored."""
        asked = Asked()
        try:
            found = await self.ask_about(item, asked)
        except QUESTION_FAILURES as failure:
            found = Unscored(str(failure))
        details = {**found.details, **asked.details}
        if isinstance(found, Unscored):
            return Unscored(found.reason, details, asked.total)
        return Scored(found.values, found.undefined, details, asked.total)

    def expected(self, items: Sequence[Item]) -> Usage:
        """Return about the most that captions take, as if no reply were in the cache."""
        each, found = self.usual, Usage()
        for item in items:
            texts = [item.caption, *(item.references if self.uses_references else ())]
            sent = self.times_sent * sum(map(len, texts)) // CHARACTERS
            found += Usage(
                calls=each.calls,
                input_tokens=each.input_tokens + sent,
                output_tokens=each.output_tokens,
            )
        return found

    async def ask(
        self,
        question: Question[FormT],
        asked: Asked,
        read: Callable[[FormT], T],
    ) -> T:
        """Return what `read` makes of the reply in its form; it is asked for up to three times.

        A question that failed is not asked again in this run.

        Raises
        ------
        ReplyBroken
            The last reply was not in the form either, or `read` refused it with `ReplyError`.
        """
        if question.prompt in self._failed:
            raise self._failed[question.prompt]
        try:
            return await ask_chat(self.chat, question, asked, read)
        except (ReplyBroken, ReplyRefused) as failure:
            self._failed[question.prompt] = failure
            raise
