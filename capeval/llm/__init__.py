"""One chat client for every OpenAI-compatible endpoint: retry, cache, usage and price, a fake."""

from capeval.llm.asker import Asker
from capeval.llm.cache import ReplyCache
from capeval.llm.client import OpenAIChatClient, endpoint_url
from capeval.llm.fake import ScriptedClient
from capeval.llm.meter import Meter
from capeval.llm.redact import public_url
from capeval.llm.types import (
    Answer,
    ChatClient,
    ChatReply,
    ChatRequest,
    ReplyBroken,
    ReplyRefused,
    ReplySchema,
)

__all__ = [
    "Answer",
    "Asker",
    "ChatClient",
    "ChatReply",
    "ChatRequest",
    "Meter",
    "OpenAIChatClient",
    "ReplyBroken",
    "ReplyCache",
    "ReplyRefused",
    "ReplySchema",
    "ScriptedClient",
    "endpoint_url",
    "public_url",
]
