"""Open the judge that the options name: a chat model, a registered judge, or an object."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from capeval.config import config_file, keyless_addresses, read_config
from capeval.errors import InputError, UsageError
from capeval.files.jsonl import short_hash
from capeval.judging.contracts import PromptSet, load_prompts
from capeval.judging.llm_judge import LLMJudge
from capeval.judging.protocol import (
    DEFAULT_PROMPTS,
    JUDGES,
    LEXICAL,
    MODELS_OWN,
    JudgingOptions,
    PreparedJudge,
    load_judge,
    prepare_judge,
)
from capeval.llm.asker import Chat, key_for, open_asker
from capeval.llm.client import DEFAULT_URL, ChatOptions, EndpointOptions, endpoint_url
from capeval.llm.money import JudgeModel, Meter, find_judge
from capeval.llm.tracing import public_url
from capeval.runs.concurrency import UnderWay, in_thread
from capeval.runs.folder import JudgeFolder, RunFolder
from capeval.schema import endpoint_name
from capeval.text import Loss, counted, nearest, shown

DEFAULT_MODEL = "gpt-6-luna"
"""The cheapest of OpenAI's models without an announced end."""

_ENVIRONMENT = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
# Enough to judge with the old and the new judge, and to have the result looked at.
WARNED_DAYS = 90


def default_judge(
    options: EndpointOptions,
    *,
    is_sample: bool = False,
    offline: bool = False,
) -> tuple[str | None, str]:
    """Return the judge for options that name none, and why it is chosen.

    1. Without a key or an endpoint, the bundled sample is judged by the lexical baseline.
    2. OpenAI's own API has `DEFAULT_MODEL`, whatever the date.
    3. Any other endpoint has its only model: its name is None.

    Parameters
    ----------
    is_sample : whether only the bundled sample is to be judged
    offline : whether nothing will be called, so that no key is needed

    Raises
    ------
    UsageError
        No judge is configured.
    """
    known = (options.base_url, options.api_key, *map(os.environ.get, _ENVIRONMENT))
    if options.client is None and not any(known):
        if is_sample:
            return LEXICAL, "the default for the sample, because no key and no endpoint are set"
        if not offline:
            raise UsageError(
                "no judge is configured: set OPENAI_API_KEY, name a local server with --base-url "
                "(of eval: --judge-url), or use the baseline that only compares words with "
                "--judge lexical"
            )
    if options.client is None and public_url(endpoint_url(options.base_url)) != DEFAULT_URL:
        return None, "the only model of this endpoint"
    return DEFAULT_MODEL, "the default; published scores were made by gpt-4o-2024-08-06"


def entry_for(model: str, base_url: str) -> JudgeModel | None:
    """Return what is documented about a model at an endpoint.

    An entry about a model of OpenAI's API says nothing about other services that use the name.
    """
    entry = find_judge(model)
    fits = entry and (entry.serve or endpoint_name(base_url) == "openai")
    return entry if fits else None


def ending(model: str, entry: JudgeModel | None) -> Loss | None:
    """Return the notice about a judge that ends soon, or has ended, else None.

    It is a `Loss`: after that day, a run that is not finished cannot be, and no score can be
    compared with a new one by the same judge.
    """
    if entry is None or entry.days_left is None or entry.days_left > WARNED_DAYS:
        return None
    if entry.is_retired:
        return Loss(retired(model, entry))
    new = f"its provider recommends --judge {entry.successor}" if entry.successor else "any other"
    return Loss(
        f"the judge {model} ends in {counted(entry.days_left, 'day')}, on {entry.shutdown}: finish "
        "its runs by then; to compare with another judge later, judge a sample with both before "
        f"({new})"
    )


def retired(model: str, entry: JudgeModel) -> str:
    """Return what to do about a retired judge."""
    new = f" {entry.successor}, which its provider recommends" if entry.successor else ""
    return (
        f"the judge {model} was retired on {entry.shutdown}: choose another with --judge{new}; "
        "stored verdicts are scored and compared as before"
    )


@dataclass
class OpenJudge:
    """An open judge and the meter of its calls."""

    judge: PreparedJudge
    meter: Meter
    concurrency: int
    prompts: PromptSet | None = None
    """The templates of a chat model; None for any other judge."""
    reasons: tuple[str, ...] = ()
    """Why it is this judge, where the user did not name it; for the beginning of a run."""
    thinks: bool = False
    """Whether it reasons, as far as is documented: that is paid for, and no part of an estimate."""
    under_way: UnderWay = field(default_factory=UnderWay)
    """The captions that it judges now, of all runs."""

    @property
    def title(self) -> str:
        """The judge in words, and why it is this one."""
        return "; ".join((self.judge.title, *self.reasons))

    def folder_in(self, run: RunFolder) -> JudgeFolder:
        """Return the judge's folder in a run, which is named for the prompts without their hash."""
        judge, label = self.judge, self.judge.prompts
        prompts, identity = (
            label and (label.rpartition("@")[0] or label),
            short_hash(judge.identity),
        )
        return run.judge(judge.name, prompts, judge.reasoning, identity=identity)


@asynccontextmanager
async def open_judge(
    options: JudgingOptions,
    *,
    offline: bool = False,
    is_sample: bool = False,
    keeps_replies: bool = True,
) -> AsyncIterator[OpenJudge]:
    """Open a judge; its connections close with the block.

    It is a registered judge, a `CaptionJudge` of the user's, or a chat model; without a name it is
    the one that `default_judge` chooses. An `offline` one is for an estimate: it needs no key and
    calls nothing. Replies are cached if it `keeps_replies`.
    """
    judge, reasons = options.judge, tuple[str, ...]()
    if judge is None:
        judge, reason = default_judge(options, is_sample=is_sample, offline=offline)
        reasons = (reason,)
    if judge is None or (isinstance(judge, str) and judge not in JUDGES):
        prompts = load_prompts(options.prompts, explain=options.explain)
        near = nearest(judge, JUDGES.names()) if isinstance(options.judge, str) else ""
        unknown = f"no installed judge is called {shown(judge)}{near} For a chat model, there is "
        key = key_for(options, f"{unknown if near else ''}no key", offline=offline)
        async with _opened(options, judge, key, keeps_replies=keeps_replies) as chat:
            asks = LLMJudge(chat, prompts, options.on_notice)
            reasons = (*reasons, chat.why_reasoning) if chat.why_reasoning else reasons
            meter = chat.asker.meter
            yield OpenJudge(asks, meter, asks.concurrency, prompts, reasons, chat.thinks)
        return
    for name in ("reasoning", "base_url", "prompts", "explain"):
        # capeval.toml may set a server for all judges; this one does not use it.
        is_default = name == "base_url" and options.base_url in keyless_addresses
        if not is_default and getattr(options, name) not in (None, False, DEFAULT_PROMPTS):
            which = shown(judge) if isinstance(judge, str) else type(judge).__name__
            raise UsageError(
                f"--{name.replace('_', '-')} is for chat models; the judge {which} is not one"
            )
    # It may load a model for minutes: Ctrl-C works meanwhile.
    prepared = (
        await in_thread(partial(load_judge, judge))
        if isinstance(judge, str)
        else prepare_judge(judge)
    )
    try:
        concurrency = min(prepared.concurrency, options.max_concurrency)
        yield OpenJudge(prepared, Meter(), concurrency, reasons=reasons)
    finally:
        prepared.close()


def open_chat(o: ChatOptions, *, offline: bool) -> AbstractAsyncContextManager[Chat]:
    """Open the chat model that the options name; its connections close with the block.

    Raises
    ------
    UsageError
        No endpoint is configured, or the model is none.
    """
    if o.judge in JUDGES:
        raise UsageError(f"--judge {shown(o.judge)} is not a chat model")
    key = key_for(o, "there is no key for the chat model", offline=offline)
    model, why = (o.judge, "") if o.judge else default_judge(o, offline=offline)
    return _opened(o, model, key, why)


@asynccontextmanager
async def _opened(
    o: ChatOptions | JudgingOptions,
    model: str | None,
    key: str | None,
    why: str = "",
    *,
    keeps_replies: bool = True,
) -> AsyncIterator[Chat]:
    """Open a chat model, by default the endpoint's only one.

    A notice says that the model ends soon, or has ended.
    """
    async with open_asker(o, key, keeps_replies=keeps_replies, on_notice=o.on_notice) as asker:
        name = model or await asker.only_model("--judge")
        entry = entry_for(name, asker.base_url)
        notice = ending(name, entry)
        # A client of the user's own, as in tests, retires no model.
        if notice is not None and o.client is None:
            o.on_notice(notice)
        effort, why_effort = _effort(o.reasoning, entry)
        yield Chat(
            asker,
            name,
            effort,
            captions_at_once(o.max_concurrency),
            configured_names(config_file()).get(asker.base_url),
            await asker.weights(name),
            thinks=effort != "none" if effort else bool(entry and entry.reasons_by_default),
            why=why,
            why_reasoning=why_effort,
        )


def _effort(reasoning: str | None, entry: JudgeModel | None) -> tuple[str | None, str]:
    """Return the reasoning effort to ask a model for, and why, where the user did not say so."""
    if reasoning is not None:
        return (None if reasoning == MODELS_OWN else reasoning), ""
    least = entry.least_effort if entry else None
    # With "none" a temperature is accepted; "minimal" leaves the least to chance.
    return least, "the least effort that it takes (--reasoning sets another)" if least else ""


def captions_at_once(calls: int) -> int:
    """Return how many captions are judged at the same time with so many calls.

    There are half as many again as calls: while the reply about one caption is read and stored,
    another caption's request is sent.
    """
    return calls + calls // 2


def configured_names(file: Path) -> dict[str, str]:
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
