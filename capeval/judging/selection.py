"""Choosing a judge and opening it: a registered or given judge, or a chat model."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from capeval.config import CONFIG, read_config
from capeval.errors import InputError, UsageError
from capeval.judging.llm_judge import LLMJudge
from capeval.judging.prompts import DEFAULT_PROMPTS, PromptSet, load_prompts
from capeval.judging.protocol import Judge, PreparedJudge
from capeval.judging.registry import JUDGES, load_judge, prepare_judge
from capeval.llm import (
    Asker,
    ChatClient,
    CheckedClient,
    Meter,
    OpenAIChatClient,
    ReplyCache,
    endpoint_url,
    public_url,
    read_prices,
)
from capeval.llm.client import DEFAULT_URL
from capeval.text import shown

DEFAULT_MODEL = "gpt-4o-2024-08-06"


@dataclass(frozen=True)
class JudgeChoice:
    """Which judge, and how it is reached.

    `model` is a registered judge's name, an object with the attributes of `Judge`, or a chat
    model's name. None is the default model or, with a `base_url`, the endpoint's only model.
    `client` replaces the network (in tests and recordings).
    """

    model: str | Judge | None = None
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    prompts: str | Path = DEFAULT_PROMPTS
    max_concurrency: int = 64
    timeout: float = 120.0
    max_cost: float | None = None
    cache_path: Path | None = None
    offline: bool = False
    """Use only cached replies: no key is needed and nothing is called."""
    client: ChatClient | None = field(default=None, repr=False)


def is_configured(choice: JudgeChoice) -> bool:
    """Return whether a chat model can be reached: a key or a base URL is known."""
    known = (choice.base_url, choice.api_key, os.environ.get("OPENAI_API_KEY"))
    return any(known) or bool(os.environ.get("OPENAI_BASE_URL")) or choice.client is not None


@dataclass
class OpenJudge:
    """A judge that is ready to work, the meter of what it spends, and its offline counterpart."""

    judge: PreparedJudge
    meter: Meter
    concurrency: int
    prompts: PromptSet | None = None
    """The templates of a chat model; None for any other judge."""
    base_url: str | None = None
    offline: PreparedJudge | None = None
    """The same judge without a client: it raises `CacheMiss` where a call would be paid for."""

    @property
    def is_baseline(self) -> bool:
        """Whether the scores are a baseline's."""
        return self.judge.is_baseline

    @property
    def prompt_name(self) -> str | None:
        """The prompts' name without their hash, as the judge's folder has it."""
        label = self.judge.prompts
        return label and (label.rpartition("@")[0] or label)


@asynccontextmanager
async def open_judge(
    choice: JudgeChoice, *, on_notice: Callable[[str], None] = lambda _: None
) -> AsyncIterator[OpenJudge]:
    """Open a judge; its connections close with the block."""
    model = choice.model
    if model is None or (isinstance(model, str) and model not in JUDGES):
        async with _open_chat_model(choice, model, on_notice) as opened:
            yield opened
        return
    with _open_local(choice, model) as opened:
        yield opened


@contextmanager
def _open_local(choice: JudgeChoice, judge: str | Judge) -> Iterator[OpenJudge]:
    for option, given in (
        ("--base-url", choice.base_url),
        ("--prompts", choice.prompts != DEFAULT_PROMPTS),
    ):
        if given:
            what = shown(judge if isinstance(judge, str) else judge.name)
            raise UsageError(f"{option} is for chat models; the judge {what} does not use it")
    prepared = load_judge(judge) if isinstance(judge, str) else prepare_judge(judge)
    try:
        yield OpenJudge(
            judge=prepared,
            meter=Meter(),
            concurrency=min(prepared.concurrency, choice.max_concurrency),
            base_url=prepared.base_url,
            offline=prepared,
        )
    finally:
        prepared.close()


@asynccontextmanager
async def _open_chat_model(
    choice: JudgeChoice, model: str | None, on_notice: Callable[[str], None]
) -> AsyncIterator[OpenJudge]:
    prompts = load_prompts(choice.prompts)
    meter = Meter(prices=read_prices(CONFIG), cap=choice.max_cost)
    base_url = endpoint_url(choice.base_url)
    endpoint = _configured_names(CONFIG).get(public_url(base_url))
    cache = ReplyCache(choice.cache_path, on_notice=on_notice)

    def opened(model: str, client: ChatClient | None) -> OpenJudge:
        judge, offline = (
            LLMJudge(
                Asker(who, cache, base_url=base_url, meter=counted),
                model,
                prompts,
                base_url=public_url(base_url),
                endpoint=endpoint,
                concurrency=choice.max_concurrency,
            )
            for who, counted in ((client, meter), (None, Meter()))
        )
        return OpenJudge(
            judge=judge,
            meter=meter,
            concurrency=judge.concurrency,
            prompts=prompts,
            base_url=judge.base_url,
            offline=offline,
        )

    try:
        if choice.client is not None:
            yield opened(model or DEFAULT_MODEL, choice.client)
            return
        key = choice.api_key or os.environ.get("OPENAI_API_KEY") or None
        if choice.offline and (model or base_url == DEFAULT_URL):
            yield opened(model or DEFAULT_MODEL, None)
            return
        if key is None and base_url == DEFAULT_URL:
            raise UsageError(
                "no key: set OPENAI_API_KEY, name a local server with --base-url, "
                "or use the baseline with --judge lexical"
            )
        async with OpenAIChatClient(
            base_url,
            key,
            timeout=choice.timeout,
            max_concurrency=choice.max_concurrency,
            on_notice=on_notice,
        ) as client:
            model = model or await _default_model(client, base_url)
            yield opened(model, CheckedClient(client, meter))
    finally:
        cache.close()


def _configured_names(file: Path) -> dict[str, str]:
    """Return the names that `[endpoints]` of a file gives to addresses: `"URL" = "NAME"`."""
    table = read_config(file, "endpoints")
    names: dict[str, str] = {}
    for url, name in table.items():
        where = f"endpoints.{shown(url)}"
        if not isinstance(name, str) or not name.strip():
            raise InputError("must be the endpoint's name", file=file, field=where)
        try:
            names[public_url(url)] = name.strip()
        except UsageError as fault:
            raise InputError(str(fault), file=file, field=where) from None
    return names


async def _default_model(client: OpenAIChatClient, base_url: str) -> str:
    if base_url == DEFAULT_URL:
        return DEFAULT_MODEL
    models = await client.models()
    if len(models) == 1:
        return models[0]
    named = f"; it has {', '.join(models[:20])}" if models else ""
    raise UsageError(f"name one of the endpoint's models with --judge{named}")
