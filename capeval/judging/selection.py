"""Choosing a judge and opening it: a registered or given judge, or a chat model."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from capeval.config import CONFIG, read_config
from capeval.errors import InputError, UsageError
from capeval.judging.llm_judge import LLMJudge
from capeval.judging.options import DEFAULT_PROMPTS, JudgeOptions
from capeval.judging.prompts import PromptSet, load_prompts
from capeval.judging.protocol import PreparedJudge
from capeval.judging.registry import JUDGES, load_judge, prepare_judge
from capeval.llm import Asker, Meter, endpoint_url, public_url
from capeval.llm.asker import open_asker
from capeval.llm.client import DEFAULT_URL
from capeval.text import shown

DEFAULT_MODEL = "gpt-4o-2024-08-06"


def is_configured(options: JudgeOptions) -> bool:
    """Return whether a chat model can be reached: a key or a base URL is known."""
    known = (options.base_url, options.api_key, os.environ.get("OPENAI_API_KEY"))
    return any(known) or bool(os.environ.get("OPENAI_BASE_URL")) or options.client is not None


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
    options: JudgeOptions,
    *,
    offline: bool = False,
    on_notice: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[OpenJudge]:
    """Open a judge; its connections close with the block.

    It is a registered judge, an object with the attributes of `Judge`, or a chat model: without a
    name the default one or, with a `base_url`, the endpoint's only model. An `offline` one uses
    only cached replies: it needs no key and calls nothing.
    """
    judge = options.judge
    if judge is None or (isinstance(judge, str) and judge not in JUDGES):
        async with _open_chat_model(options, judge, offline, on_notice) as opened:
            yield opened
        return
    for option, given in (
        ("--base-url", options.base_url),
        ("--prompts", options.prompts != DEFAULT_PROMPTS),
    ):
        if given:
            what = shown(judge if isinstance(judge, str) else judge.name)
            raise UsageError(f"{option} is for chat models; the judge {what} does not use it")
    prepared = load_judge(judge) if isinstance(judge, str) else prepare_judge(judge)
    try:
        concurrency = min(prepared.concurrency, options.max_concurrency)
        yield OpenJudge(prepared, Meter(), concurrency, None, prepared.base_url, prepared)
    finally:
        prepared.close()


@asynccontextmanager
async def _open_chat_model(
    options: JudgeOptions, model: str | None, offline: bool, on_notice: Callable[[str], None]
) -> AsyncIterator[OpenJudge]:
    prompts = load_prompts(options.prompts)
    base_url = endpoint_url(options.base_url)
    endpoint = _configured_names(CONFIG).get(public_url(base_url))
    key = options.api_key or os.environ.get("OPENAI_API_KEY") or None
    if options.client is not None or base_url == DEFAULT_URL:
        model = model or DEFAULT_MODEL
    offline = offline and model is not None
    if key is None and base_url == DEFAULT_URL and options.client is None and not offline:
        raise UsageError(
            "no key: set OPENAI_API_KEY, name a local server with --base-url, "
            "or use the baseline with --judge lexical"
        )
    async with open_asker(
        base_url,
        key,
        client=options.client,
        offline=offline,
        cache=options.cache,
        max_cost=options.max_cost,
        on_notice=on_notice,
        timeout=options.timeout,
        max_concurrency=options.max_concurrency,
    ) as asker:
        named = model or await asker.only_model("--judge")
        unpaid = Asker(None, asker.cache, base_url=base_url, meter=Meter())
        judge, cached = (
            LLMJudge(
                each,
                named,
                prompts,
                base_url=public_url(base_url),
                endpoint=endpoint,
                concurrency=options.max_concurrency,
            )
            for each in (asker, unpaid)
        )
        yield OpenJudge(judge, asker.meter, judge.concurrency, prompts, judge.base_url, cached)


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
