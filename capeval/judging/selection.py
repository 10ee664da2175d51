"""Choosing a judge, and opening it: client, cache, meter and prompts of an LLM, or rules."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from capeval.config import CONFIG
from capeval.errors import UsageError
from capeval.judging.lexical import LexicalJudge
from capeval.judging.llm_judge import LLMJudge
from capeval.judging.prompts import DEFAULT_PROMPTS, PromptSet, load_prompts
from capeval.judging.protocol import EmbeddedJudge, Judge
from capeval.llm import (
    Asker,
    ChatClient,
    CheckedClient,
    Meter,
    OpenAIChatClient,
    ReplyCache,
    endpoint_url,
    read_prices,
)
from capeval.llm.client import DEFAULT_URL

DEFAULT_MODEL = "gpt-4o-2024-08-06"
LEXICAL = "lexical"


@dataclass(frozen=True)
class JudgeChoice:
    """Which judge, and how it is reached.

    `model` is a model's name, `lexical`, or None: then the default model, or with a `base_url`
    the endpoint's sole model. `client` stands in for the network (tests, recordings).
    """

    model: str | None = None
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    prompts: str | Path = DEFAULT_PROMPTS
    max_concurrency: int = 64
    timeout: float = 120.0
    max_cost: float | None = None
    cache_path: Path | None = None
    offline: bool = False
    """Only what the cache holds is needed: no key, no call."""
    client: ChatClient | None = field(default=None, repr=False)

    @property
    def is_lexical(self) -> bool:
        """Say whether this is the embedded baseline."""
        return self.model == LEXICAL


def is_configured(choice: JudgeChoice) -> bool:
    """Say whether an LLM can be reached: a key or a base URL is known."""
    known = (choice.base_url, choice.api_key, os.environ.get("OPENAI_API_KEY"))
    return any(known) or bool(os.environ.get("OPENAI_BASE_URL")) or choice.client is not None


@dataclass
class OpenJudge:
    """A judge ready to work, with what it consumes and what its offline twin knows."""

    judge: Judge
    meter: Meter
    concurrency: int
    prompts: PromptSet | None = None
    base_url: str | None = None
    offline: Judge | None = None
    """The same judge without a client: it raises `CacheMiss` where a call would be paid."""

    @property
    def is_baseline(self) -> bool:
        """Say whether the scores are those of the lexical baseline."""
        return self.prompts is None


@asynccontextmanager
async def open_judge(
    choice: JudgeChoice, *, on_notice: Callable[[str], None] = lambda _: None
) -> AsyncIterator[OpenJudge]:
    """Open a judge; its connections close with the block.

    Raises
    ------
    UsageError
        The choice does not make a judge.
    InputError
        The prompts or the user's prices are not right.
    EndpointRefused
        The endpoint cannot be asked for its models.
    """
    if choice.is_lexical:
        if choice.base_url:
            raise UsageError("--judge lexical works without an endpoint; leave --base-url off")
        judge = EmbeddedJudge(LexicalJudge())
        yield OpenJudge(judge=judge, offline=judge, meter=Meter(), concurrency=1)
        return
    prompts = load_prompts(choice.prompts)
    meter = Meter(prices=read_prices(CONFIG), cap=choice.max_cost)
    cache = ReplyCache(choice.cache_path, on_notice=on_notice)
    base_url = endpoint_url(choice.base_url)
    try:
        if choice.client is not None:
            model = choice.model or DEFAULT_MODEL
            yield _opened(choice, model, choice.client, prompts, meter, cache, base_url)
            return
        key = choice.api_key or os.environ.get("OPENAI_API_KEY") or None
        if choice.offline and (choice.model or base_url == DEFAULT_URL):
            model = choice.model or DEFAULT_MODEL
            yield _opened(choice, model, None, prompts, meter, cache, base_url)
            return
        if key is None and base_url == DEFAULT_URL:
            raise UsageError(
                "no key: set OPENAI_API_KEY, name a local server with --base-url, "
                "or take the baseline with --judge lexical"
            )
        async with OpenAIChatClient(
            base_url,
            key,
            timeout=choice.timeout,
            max_concurrency=choice.max_concurrency,
            on_notice=on_notice,
        ) as client:
            model = choice.model or await _default_model(client, base_url)
            yield _opened(
                choice, model, CheckedClient(client, meter), prompts, meter, cache, base_url
            )
    finally:
        cache.close()


def _opened(
    choice: JudgeChoice,
    model: str,
    client: ChatClient | None,
    prompts: PromptSet,
    meter: Meter,
    cache: ReplyCache,
    base_url: str,
) -> OpenJudge:
    asker = Asker(client, cache, base_url=base_url, meter=meter)
    reader = Asker(None, cache, base_url=base_url, meter=Meter())
    return OpenJudge(
        judge=LLMJudge(asker, model, prompts, base_url=asker.base_url),
        offline=LLMJudge(reader, model, prompts, base_url=asker.base_url),
        meter=meter,
        concurrency=choice.max_concurrency,
        prompts=prompts,
        base_url=asker.base_url,
    )


async def _default_model(client: OpenAIChatClient, base_url: str) -> str:
    if base_url == DEFAULT_URL:
        return DEFAULT_MODEL
    models = await client.models()
    if len(models) == 1:
        return models[0]
    named = f"; it has {', '.join(models[:20])}" if models else ""
    raise UsageError(f"name one of the endpoint's models with --judge{named}")
