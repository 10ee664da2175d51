"""What the metrics that ask a chat model share: a request, its check, and what is kept of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from capeval.errors import ReplyError, RequestRefused, RetriesExhausted
from capeval.files.packaged import filled, template
from capeval.llm.replies import read_reply
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

# Characters per token of an English prompt.
_CHARACTERS = 4


@dataclass(frozen=True)
class Question:
    """One question of a metric.

    Attributes
    ----------
    stage : what begins its notes
    prompts, name : the packaged set and its template
    values : what fills the template, already quoted
    material : the texts as they are; a reply that only repeats an answer from one is none
    """

    stage: str
    prompts: str
    name: str
    values: Mapping[str, str]
    schema: ReplySchema
    max_tokens: int
    material: tuple[str, ...] = ()

    @property
    def prompt(self) -> str:
        """The text that is sent."""
        return filled(template(self.prompts, self.name), self.values)

    def expected(self, reply_tokens: int) -> Usage:
        """Return what one call is expected to take."""
        asked = len(self.prompt) // _CHARACTERS
        return Usage(calls=1, input_tokens=asked, output_tokens=reply_tokens)


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

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.chat = context.the_chat
        self.concurrency = self.chat.concurrency

    @abstractmethod
    async def ask_about(self, item: Item, asked: Asked) -> Scored:
        """Return the values of one caption; `asked` collects usage and notes."""

    async def score_caption(self, item: Item) -> Outcome:
        """Return the values of one caption; a failed question leaves it unscored."""
        asked = Asked()
        try:
            found = await self.ask_about(item, asked)
        except (ReplyError, RequestRefused, RetriesExhausted) as failure:
            return Unscored(str(failure), asked.details, asked.usage)
        details = {**found.details, **asked.details}
        return Scored(found.values, found.undefined, details, asked.usage)

    async def ask(self, question: Question, read: Callable[[Any, list[str]], T], asked: Asked) -> T:
        """Return what `read` makes of the reply's JSON, which is asked for up to three times.

        Raises
        ------
        ReplyBroken
            The last reply was not in the form either.
        """
        chat, prompt, stage = self.chat, question.prompt, question.stage
        request = ChatRequest(
            chat.model,
            ({"role": "user", "content": prompt},),
            question.max_tokens,
            schema=question.schema,
            reasoning=chat.reasoning,
        )

        def check(reply: ChatReply) -> tuple[T, list[str]]:
            return read_reply(reply.text, read, question.material)

        try:
            answer = await chat.asker.ask(request, check)
        except (ReplyBroken, ReplyRefused) as failure:
            asked.count(stage, failure)
            raise
        asked.count(stage, answer)
        value, notes = answer.value
        asked.notes += notes
        return value
