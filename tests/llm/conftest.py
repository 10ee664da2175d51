from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capeval.llm.asker import Asker
from capeval.llm.cache import ReplyCache
from capeval.llm.client import OpenAIChatClient
from capeval.llm.meter import Meter
from capeval.llm.types import ChatRequest

KEY = "sk-verysecretkey-1234567890"


@pytest.fixture(autouse=True)
def _no_ambient_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name.lower().endswith("_proxy") or name.startswith("OPENAI_"):
            monkeypatch.delenv(name)


def ask_for(text: str = "hello", **more: Any) -> ChatRequest:
    """A request of a text."""
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


@pytest.fixture
def cache(tmp_path: Path) -> Any:
    store = ReplyCache(tmp_path / "store" / "replies.sqlite")
    yield store
    store.close()


@pytest.fixture
def asker_of(cache: ReplyCache) -> Callable[..., Asker]:
    """Makes an asker over the test's cache."""

    def make(client: Any, **more: Any) -> Asker:
        settings: dict[str, Any] = {
            "cache": cache,
            "base_url": "http://judge/v1",
            "meter": Meter(),
        } | more
        return Asker(client, **settings)

    return make
