"""Requests to a chat model, its replies, and the client protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

from capeval.errors import ReplyError, RequestRefused
from capeval.llm.tracing import is_tracing
from capeval.options import (
    JUDGE,
    CallOptions,
    Effort,
    Rule,
    declares,
    ignore,
    option,
    python_only,
)
from capeval.schema.judgment import Usage

T_co = TypeVar("T_co", covariant=True)
# Of a stored reply; `capeval.llm.cache` says what they mean.
State = Literal["validated", "refused", "exhausted"]

# A model needs to see what it got wrong, not all of a runaway reply: that would be paid for again.
QUOTED_CHARACTERS = 4000


@dataclass(frozen=True, slots=True, eq=False)
class ReplySchema:
    """A strict JSON schema that the reply must follow, and its name; made once and not changed."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request to a chat model; what an endpoint does not accept is left off later.

    `messages` are `{"role", "content"}`, the content text or a list of parts; `max_tokens` counts
    the visible reply; `repeat` is sent as `seed`, `reasoning` as `reasoning_effort`, and `media` as
    `media_io_kwargs`, by which vLLM reads a video; these two are never left off. With a `scope`,
    only replies to requests of the same scope are reused.
    """

    model: str
    messages: tuple[Mapping[str, Any], ...]
    max_tokens: int
    temperature: float | None = 0.0
    repeat: int = 0
    schema: ReplySchema | None = None
    reasoning: str | None = None
    media: Mapping[str, Any] | None = None
    scope: str = ""

    def is_enforced_in(self, reply: ChatReply) -> bool:
        """Return whether the endpoint took the schema that the reply must follow."""
        return self.schema is not None and not {"json_schema", "response_format"} & {
            *reply.left_off
        }

    def parts(self) -> list[Any]:
        contents = [message["content"] for message in self.messages]
        parts = [part for one in contents for part in (one if isinstance(one, list) else [one])]
        return [
            part["text"] if isinstance(part, dict) and part["type"] == "text" else part
            for part in parts
        ]

    def followed_by(self, reply: str, complaint: str, max_tokens: int | None = None) -> ChatRequest:
        """Return the request that shows the model its reply and what is wrong with it."""
        # Some endpoints refuse an empty message, others two user messages in a row.
        quoted = reply[:QUOTED_CHARACTERS] if reply.strip() else "(empty reply)"
        return replace(
            self,
            messages=(
                *self.messages,
                {"role": "assistant", "content": quoted},
                {"role": "user", "content": complaint},
            ),
            max_tokens=self.max_tokens if max_tokens is None else max_tokens,
        )


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What a model answered.

    `model` is the snapshot as the endpoint names it, and what it says of the weights;
    `finish_reason` is "refusal" where the endpoint put the text into its refusal field; `left_off`
    names the parameters of the request that the endpoint does not take; `day` is the date on which
    a cached reply came.
    """

    text: str
    finish_reason: str | None
    model: str
    fingerprint: str | None
    usage: Usage
    cached: bool = False
    left_off: tuple[str, ...] = ()
    day: str | None = None


def described(request: ChatRequest) -> dict[str, Any]:
    """Return what the debug log records of a request: parameters and sizes, no content."""
    if not is_tracing():
        return {}
    parts = request.parts()
    texts = [part for part in parts if isinstance(part, str)]
    return {
        "model": request.model,
        "reply_schema": request.schema.name if request.schema else None,
        "messages": len(request.messages),
        "characters": sum(map(len, texts)),
        "images": len(parts) - len(texts),
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "seed": request.repeat,
        "reasoning_effort": request.reasoning,
    }


class ChatClient(Protocol):
    """Completes requests: an endpoint, a script, a recording."""

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Make one paid call; raises `EndpointError`."""


class _Replies:
    replies: tuple[ChatReply, ...]

    @property
    def usage(self) -> Usage:
        return sum((reply.usage for reply in self.replies), Usage())


@dataclass(frozen=True)
class Answer(_Replies, Generic[T_co]):
    """A checked value, every reply that it took, and the complaints about all but the last."""

    value: T_co
    replies: tuple[ChatReply, ...]
    complaints: tuple[str, ...]


class _Replied(_Replies, Exception):
    def __init__(
        self, reason: str, replies: tuple[ChatReply, ...], complaints: tuple[str, ...]
    ) -> None:
        super().__init__(reason)
        self.replies, self.complaints = replies, complaints


class ReplyBroken(_Replied, ReplyError):
    """No reply met its contract; `str()` is the last complaint, `replies` has all replies."""


class ReplyRefused(_Replied, RequestRefused):
    """The model declined to answer; `replies` has all replies."""


@declares
class EndpointOptions(CallOptions):
    """Which server of models is called.

    Parameters
    ----------
    base_url : An OpenAI-compatible server. By default OPENAI_BASE_URL.
    client : Replaces the network, for tests and recordings.
    """

    _: KW_ONLY
    base_url: str | None = option(None, panel=JUDGE, metavar="URL")
    client: ChatClient | None = python_only(None, method="complete", shown=False)


_OWN_SERVER = "--serve starts a server of its own: omit --base-url"


@declares
class ServeOptions(EndpointOptions):
    """Whether capeval starts the server.

    Parameters
    ----------
    serve : Start the model's server, then end it.
    gpus : With --serve: share the work among N GPUs.
    on_notice : Called with one line for each notice.
    """

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("serve", "base_url", _OWN_SERVER),
        Rule("serve", "client", _OWN_SERVER),
        Rule("gpus", "serve", "--gpus is for --serve", needs=True),
    )
    _: KW_ONLY
    serve: bool = option(False, panel=JUDGE)
    gpus: int | None = option(None, panel=JUDGE, metavar="N", min=1)
    on_notice: Callable[[str], None] = python_only(ignore, shown=False)


@declares
class ChatOptions(EndpointOptions):
    """Which chat model is asked.

    Parameters
    ----------
    judge : The chat model. By default gpt-6-luna, or the server's only model.
    on_notice : Called with each notice, which is one line.
    """

    _: KW_ONLY
    judge: str | None = option(None, panel=JUDGE, metavar="MODEL")
    reasoning: Effort | None = python_only(None, "How much it reasons, as in `capeval judge`.")
    on_notice: Callable[[str], None] = python_only(ignore, shown=False)
