"""One chat client for every OpenAI-compatible endpoint: retry, cache, usage and price, a fake."""

from capeval.llm.asker import Asker, CheckedClient
from capeval.llm.cache import CacheInfo, ReplyCache, default_cache_path
from capeval.llm.client import OpenAIChatClient, endpoint_url
from capeval.llm.fake import ScriptedClient
from capeval.llm.limiter import AdaptiveLimiter
from capeval.llm.meter import Meter, Price, price_of, read_prices
from capeval.llm.redact import Redactor, public_url
from capeval.llm.retry import RetryDecision
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
    "AdaptiveLimiter",
    "Answer",
    "Asker",
    "CacheInfo",
    "ChatClient",
    "ChatReply",
    "ChatRequest",
    "CheckedClient",
    "Meter",
    "OpenAIChatClient",
    "Price",
    "Redactor",
    "ReplyBroken",
    "ReplyCache",
    "ReplyRefused",
    "ReplySchema",
    "RetryDecision",
    "ScriptedClient",
    "default_cache_path",
    "endpoint_url",
    "price_of",
    "public_url",
    "read_prices",
]
