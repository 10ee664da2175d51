"""Metrics that ask a chat model: their questions, the replies, and what is stored of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar

from capeval.errors import (
    ReplyError,
    RequestRefused,
    RetriesExhausted,
)
from capeval.files.packaged import filled, template
from capeval.llm.replies import ReplyForm, in_form, read_reply, schema_of
from capeval.llm.types import (
    Answer,
    ChatReply,
    ChatRequest,
    ReplyBroken,
    ReplyRefused,
    ReplySchema,
)
from capeval.metrics.protocol import CaptionMetric, Context, Item, Outcome, Scored, Unscored
from capeval.schema import Usage

T = TypeVar("T")
FormT = TypeVar("FormT", bound=ReplyForm)

# Characters per token of an English prompt.
_CHARACTERS = 4

QUESTION_FAILURES = (ReplyError, RequestRefused, RetriesExhausted)
"""Errors that concern one question; the others can still be answered."""


@dataclass(frozen=True)
class Question(Generic[FormT]):
    """One question of a metric.

    Attributes
    ----------
    stage : what begins its notes
    prompts, name : the packaged set and its template
    values : what fills the template, already quoted
    form : what the reply must be
    max_tokens : the most that a reply may take
    material : the texts as they are; a reply that only repeats an answer from one is none
    """

    stage: str
    prompts: str
    name: str
    values: Mapping[str, str]
    form: type[FormT]
    max_tokens: int
    material: tuple[str, ...] = ()

    @property
    def prompt(self) -> str:
        """The text that is sent."""
        return filled(template(self.prompts, self.name), self.values)


@dataclass
class Asked:
    """What the questions about one caption took, and what was noted about the replies."""

    usage: Usage = field(default_factory=Usage)
    notes: list[str] = field(default_factory=list)
    models: set[str] = field(default_factory=set)
    left_off: set[str] = field(default_factory=set)

    def count(self, stage: str, answer: Answer[Any] | ReplyBroken | ReplyRefused) -> None:
        """Add the replies to a question."""
        self.usage += answer.usage
        for reply in answer.replies:
            self.models.add(reply.model)
            self.left_off.update(reply.left_off)
        if isinstance(answer, Answer):
            self.notes += [f"{stage}: asked again: {why}" for why in answer.complaints]

    def add(self, other: Asked) -> None:
        """Add what other questions about the caption took."""
        self.usage += other.usage
        self.notes += other.notes
        self.models |= other.models
        self.left_off |= other.left_off

    @property
    def details(self) -> dict[str, Any]:
        """What is kept: the snapshots that answered, what they do not take, and the notes."""
        found = {
            "models": sorted(self.models),
            "left_off": sorted(self.left_off),
            "notes": self.notes,
        }
        return {name: value for name, value in found.items() if value}


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
            return Unscored(found.reason, details, asked.usage)
        return Scored(found.values, found.undefined, details, asked.usage)

    def expected(self, items: Sequence[Item]) -> Usage:
        """Return about the most that captions take, as if no reply were in the cache."""
        each, found = self.usual, Usage()
        for item in items:
            texts = [item.caption, *(item.references if self.uses_references else ())]
            sent = self.times_sent * sum(map(len, texts)) // _CHARACTERS
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
        chat, prompt, form = self.chat, question.prompt, question.form
        request = ChatRequest(
            chat.model,
            ({"role": "user", "content": prompt},),
            question.max_tokens,
            schema=_schema(form),
            reasoning=chat.reasoning,
        )

        def check(reply: ChatReply) -> T:
            found, _ = read_reply(
                reply.text, lambda value, _: read(in_form(form, value)), question.material
            )
            return found

        if prompt in self._failed:
            raise self._failed[prompt]
        try:
            answer = await chat.asker.ask(request, check)
        except (ReplyBroken, ReplyRefused) as failure:
            self._failed[prompt] = failure
            asked.count(question.stage, failure)
            raise
        asked.count(question.stage, answer)
        return answer.value


@cache
def _schema(form: type[ReplyForm]) -> ReplySchema:
    return ReplySchema(form.__name__.lower(), schema_of(form))
