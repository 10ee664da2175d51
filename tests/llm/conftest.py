import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from capeval.llm.asker import Asker
from capeval.llm.cache import ReplyCache
from capeval.llm.client import OpenAIChatClient
from capeval.llm.money import Meter
from capeval.llm.replies import ChatRequest
from tests.server import LoopbackServer, Responder, echo

CACHE = Path("replies.sqlite")
KEY = "sk-verysecretkey-1234567890"


def ask_for(text: str = "hello", **more: Any) -> ChatRequest:
    settings: dict[str, Any] = {"model": "judge-model", "max_tokens": 100} | more
    return ChatRequest(messages=({"role": "user", "content": text},), **settings)


class Naps:
    """A sleep that takes no time and remembers what was asked of it."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


def client_of(url: str, **more: Any) -> OpenAIChatClient:
    """A client with a key, that does not really sleep."""
    return OpenAIChatClient(url, KEY, **({"sleep": Naps()} | more))


def asker_of(client: Any, base_url: str = "http://judge/v1") -> Asker:
    return Asker(client, ReplyCache(CACHE), base_url=base_url, meter=Meter())


@asynccontextmanager
async def served(
    responder: Responder = echo,
    *,
    acts: Iterable[Any] = (),
    models: Iterable[str] = ("judge-model",),
    latency: float = 0.0,
    **client: Any,
) -> AsyncIterator[tuple[LoopbackServer, OpenAIChatClient]]:
    async with (
        LoopbackServer(responder, acts=acts, models=models, latency=latency) as server,
        client_of(server.url, **client) as made,
    ):
        yield server, made
