"""One question to a chat model whose reply must have a form, and what several questions took."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar

from capeval.errors import ReplyError, RequestRefused, RetriesExhausted
from capeval.llm.asker import Asker
from capeval.llm.replies import ReplyForm, in_form, read_reply, schema_of
from capeval.llm.types import (
    Answer,
    ChatReply,
    ChatRequest,
    ReplyBroken,
    ReplyRefused,
    ReplySchema,
)
from capeval.schema import Usage

T = TypeVar("T")
FormT = TypeVar("FormT", bound=ReplyForm)

CHARACTERS = 4
"""Characters per token of an English prompt, for estimates."""

QUESTION_FAILURES = (ReplyError, RequestRefused, RetriesExhausted)
"""Errors that concern one question; the others can still be answered."""


@dataclass(frozen=True)
class Chat:
    """A chat model that is asked.

    Attributes
    ----------
    asker : asks with retries, through the cache, within the cost cap; see `Asker.ask`
    reasoning : the effort to put into each `ChatRequest`
    concurrency : how many items to work on at the same time
    endpoint : the name that is configured for its address
    weights : what the endpoint says of them
    thinks : whether it reasons, as far as is documented
    why, why_reasoning : why it is this model, and this effort, where the user did not say so
    """

    asker: Asker
    model: str
    reasoning: str | None = None
    concurrency: int = 1
    endpoint: str | None = None
    weights: str = ""
    thinks: bool = False
    why: str = ""
    why_reasoning: str = ""

    @property
    def identity(self) -> str:
        """What names the model in a signature."""
        return "@".join(filter(None, (self.model, self.endpoint, self.reasoning, self.weights)))

    @property
    def title(self) -> str:
        """The model in words, and why it is this one."""
        effort = f"reasoning {self.reasoning}" if self.reasoning else ""
        where = f"{self.model} at {self.asker.base_url}"
        return "; ".join(filter(None, (where, effort, self.why)))


@dataclass(frozen=True)
class ChatQuestion(Generic[FormT]):
    """One question.

    Attributes
    ----------
    stage : what begins its notes
    prompt : the text that is sent
    form : what the reply must be
    max_tokens : the most that a reply may take
    material : the texts as they are; a reply that only repeats an answer from one is none
    """

    stage: str
    prompt: str
    form: type[FormT]
    max_tokens: int
    material: tuple[str, ...] = ()


@dataclass
class Asked:
    """What the questions about one item took, by stage, and what was noted about the replies."""

    usage: dict[str, Usage] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    models: set[str] = field(default_factory=set)
    fingerprints: set[str] = field(default_factory=set)
    left_off: set[str] = field(default_factory=set)

    @property
    def total(self) -> Usage:
        """The tokens of all stages."""
        return sum(self.usage.values(), Usage())

    def add(self, stage: str, usage: Usage) -> None:
        """Count the tokens of one stage."""
        self.usage[stage] = self.usage.get(stage, Usage()) + usage

    def count(self, stage: str, answer: Answer[Any] | ReplyBroken | ReplyRefused) -> None:
        """Add the replies to a question."""
        self.add(stage, answer.usage)
        for reply in answer.replies:
            self.models.add(reply.model)
            self.left_off.update(reply.left_off)
            if reply.fingerprint:
                self.fingerprints.add(reply.fingerprint)
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


async def ask_for(
    asker: Asker,
    request: ChatRequest,
    check: Callable[[ChatReply], tuple[T, list[str]]],
    asked: Asked,
    stage: str,
) -> tuple[T, list[str]]:
    """Return what `check` makes of the reply to a request, with its notes; see `Asker.ask`."""
    try:
        answer = await asker.ask(request, check)
    except (ReplyBroken, ReplyRefused) as failure:
        asked.count(stage, failure)
        raise
    asked.count(stage, answer)
    return answer.value


async def ask_chat(
    chat: Chat, question: ChatQuestion[FormT], asked: Asked, read: Callable[[FormT], T]
) -> T:
    """Return what `read` makes of the reply in its form; it is asked for up to three times.

    Raises
    ------
    ReplyBroken
        The last reply was not in the form either, or `read` refused it with `ReplyError`.
    ReplyRefused
        The model declines to answer.
    """
    form, stage = question.form, question.stage
    request = ChatRequest(
        chat.model,
        ({"role": "user", "content": question.prompt},),
        question.max_tokens,
        schema=_schema(form),
        reasoning=chat.reasoning,
    )

    def check(reply: ChatReply) -> tuple[T, list[str]]:
        return read_reply(
            *(reply.text, lambda value, _: read(in_form(form, value)), question.material),
            enforced=request.is_enforced_in(reply),
        )

    value, notes = await ask_for(chat.asker, request, check, asked, stage)
    asked.notes += [f"{stage}: {note}" for note in notes]
    return value


@cache
def _schema(form: type[ReplyForm]) -> ReplySchema:
    return ReplySchema(form.__name__.lower(), schema_of(form))
