"""The chat model of the metrics that ask one."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from capeval.config import CONFIG
from capeval.errors import UsageError
from capeval.judging.default_judge import default_judge
from capeval.judging.options import MODELS_OWN, JudgeOptions
from capeval.judging.registry import JUDGES
from capeval.judging.retirement import RetirementWatch, entry_for
from capeval.judging.selection import captions_at_once, configured_names
from capeval.llm.asker import Asker, open_asker
from capeval.llm.client import DEFAULT_URL, endpoint_url
from capeval.llm.judge_models import read_judges
from capeval.llm.meter import Meter
from capeval.llm.redact import public_url
from capeval.metrics.options import MetricsOptions
from capeval.metrics.protocol import Chat
from capeval.text import shown


@dataclass(frozen=True)
class OpenChat:
    """A chat model for metrics, and the same without a client, for estimates.

    `title` names it where a run begins; `thinks` says whether it reasons, as far as is known.
    """

    chat: Chat
    offline: Chat
    meter: Meter
    title: str
    thinks: bool


@asynccontextmanager
async def open_chat(
    o: MetricsOptions, *, offline: bool, on_notice: Callable[[str], None]
) -> AsyncIterator[OpenChat]:
    """Open the chat model that the options name; its connections close with the block.

    Raises
    ------
    UsageError
        No endpoint is configured, or the model is none.
    """
    base_url = endpoint_url(o.base_url)
    key = o.api_key or os.environ.get("OPENAI_API_KEY") or None
    if o.judge in JUDGES:
        raise UsageError(f"--judge {shown(o.judge)} is no chat model, which these metrics ask")
    if not offline and not key and o.client is None and base_url == DEFAULT_URL:
        raise UsageError(
            "there is no key for the chat model: set OPENAI_API_KEY, or name a local server with "
            "--base-url"
        )
    model, reason = o.judge, ""
    if model is None:
        settings = JudgeOptions(
            captions={}, base_url=o.base_url, api_key=o.api_key, client=o.client
        )
        default = default_judge(settings, offline=offline)
        model, reason = default.name, default.reason
    address = public_url(base_url)
    judges = read_judges(CONFIG)
    offline = offline and model is not None
    watch = None if o.client else RetirementWatch(address, judges, on_notice)
    async with open_asker(
        base_url,
        key,
        watch=watch,
        client=o.client,
        offline=offline,
        cache=o.cache,
        max_cost=o.max_cost,
        on_notice=on_notice,
        timeout=o.timeout,
        patience=max(300.0, 2 * o.timeout),
        max_concurrency=o.max_concurrency,
    ) as asker:
        named = model or await asker.only_model("--judge")
        entry = entry_for(named, address, judges)
        effort: str | None = entry.least_effort if entry else None
        if o.reasoning is not None:
            effort = None if o.reasoning == MODELS_OWN else o.reasoning
        retired = watch.begin(named, offline=offline) if watch else ""
        unpaid = Asker(None, asker.cache, base_url=base_url, meter=Meter(), explains_misses=False)
        endpoint = configured_names(CONFIG).get(address)
        identity = "@".join(part for part in (named, endpoint, effort) if part)
        chat, cached = (
            Chat(
                asker=each,
                model=named,
                reasoning=effort,
                identity=identity,
                concurrency=captions_at_once(o.max_concurrency),
            )
            for each in (asker, unpaid)
        )
        effort_words = f"reasoning {effort}" if effort else ""
        title = "; ".join(
            part for part in (f"{named} at {address}", effort_words, reason, retired) if part
        )
        thinks = effort != "none" if effort else bool(entry and entry.reasons_by_default)
        yield OpenChat(chat, cached, asker.meter, title, thinks)
