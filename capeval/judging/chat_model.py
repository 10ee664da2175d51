"""The chat model of commands other than judging."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from capeval.errors import UsageError
from capeval.judging.options import JudgeOptions
from capeval.judging.registry import JUDGES
from capeval.judging.selection import captions_at_once, default_judge, open_chat_model
from capeval.llm.client import DEFAULT_URL, endpoint_url
from capeval.llm.meter import Meter
from capeval.llm.questions import Chat
from capeval.llm.types import ChatOptions
from capeval.text import shown


@dataclass(frozen=True)
class OpenChat:
    """A chat model.

    `title` names it where a run begins; `thinks` says whether it reasons, as far as is known.
    """

    chat: Chat
    meter: Meter
    title: str
    thinks: bool


@asynccontextmanager
async def open_chat(
    o: ChatOptions, *, offline: bool, on_notice: Callable[[str], None]
) -> AsyncIterator[OpenChat]:
    """Open the chat model that the options name; its connections close with the block.

    Raises
    ------
    UsageError
        No endpoint is configured, or the model is none.
    """
    key = o.api_key or os.environ.get("OPENAI_API_KEY") or None
    if o.judge in JUDGES:
        raise UsageError(f"--judge {shown(o.judge)} is not a chat model")
    if not offline and not key and o.client is None and endpoint_url(o.base_url) == DEFAULT_URL:
        raise UsageError(
            "there is no key for the chat model: set OPENAI_API_KEY, or name a local server with "
            "--base-url"
        )
    settings = JudgeOptions(
        captions={},
        judge=o.judge,
        base_url=o.base_url,
        api_key=o.api_key,
        reasoning=o.reasoning,
        client=o.client,
        cache=o.cache,
        max_cost=o.max_cost,
        timeout=o.timeout,
        max_concurrency=o.max_concurrency,
    )
    model, reason = o.judge, ""
    if model is None:
        model, reason = default_judge(settings, offline=offline)
    async with open_chat_model(settings, model, offline=offline, on_notice=on_notice) as found:
        chat = Chat(
            asker=found.asker,
            model=found.name,
            reasoning=found.effort,
            identity="@".join(
                filter(None, (found.name, found.endpoint, found.effort, found.weights))
            ),
            concurrency=captions_at_once(o.max_concurrency),
        )
        effort = f"reasoning {found.effort}" if found.effort else ""
        title = "; ".join(filter(None, (f"{found.name} at {found.address}", effort, reason)))
        yield OpenChat(chat, found.asker.meter, title, found.thinks)
