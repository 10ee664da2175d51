"""Choosing a judge, opening it, and what judging with it is expected to cost."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from capeval.config import CONFIG, read_config
from capeval.errors import CacheMiss, CapevalError, InputError, UsageError
from capeval.judging.llm_judge import LLMJudge
from capeval.judging.options import DEFAULT_PROMPTS, JudgeOptions
from capeval.judging.prompts import PromptSet, Stage, load_prompts
from capeval.judging.protocol import PreparedJudge, Tally
from capeval.judging.registry import JUDGES, load_judge, prepare_judge
from capeval.llm import Asker, Meter, endpoint_url, public_url
from capeval.llm.asker import open_asker
from capeval.llm.client import DEFAULT_URL
from capeval.schema import Annotation, Caption, Usage
from capeval.text import nearest, shown

DEFAULT_MODEL = "gpt-4o-2024-08-06"


def is_configured(options: JudgeOptions) -> bool:
    """Return whether a chat model can be reached: a key or a base URL is known."""
    known = (options.base_url, options.api_key, os.environ.get("OPENAI_API_KEY"))
    return any(known) or bool(os.environ.get("OPENAI_BASE_URL")) or options.client is not None


@dataclass
class OpenJudge:
    """An open judge, the meter of its calls, and its offline counterpart."""

    judge: PreparedJudge
    meter: Meter
    concurrency: int
    prompts: PromptSet | None = None
    """The templates of a chat model; None for any other judge."""
    offline: PreparedJudge | None = None
    """The same judge without a client: it raises `CacheMiss` where a call would be paid for."""

    @property
    def prompt_name(self) -> str | None:
        """The prompts' name without their hash, as in the name of the judge's folder."""
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
        yield OpenJudge(prepared, Meter(), concurrency, None, prepared)
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
        near = nearest(model, JUDGES.names()) if isinstance(options.judge, str) else ""
        unknown = f"no installed judge is called {shown(model)}{near}. For a chat model, there is "
        raise UsageError(
            f"{unknown if near else ''}no key: set OPENAI_API_KEY, name a local server with "
            "--base-url, or use the baseline with --judge lexical"
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
                concurrency=captions_at_once(options.max_concurrency),
            )
            for each in (asker, unpaid)
        )
        yield OpenJudge(judge, asker.meter, judge.concurrency, prompts, cached)


def captions_at_once(calls: int) -> int:
    """Return how many captions are judged at the same time with so many calls.

    There are half as many again as calls: while the reply about one caption is read and stored,
    another caption's request is sent.
    """
    return calls + calls // 2


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


_STAGES: tuple[Stage, ...] = ("split", "match", "classify")

# English prose: about four characters a token, about 25 words an event.
_CHARACTERS = 4
_EVENT_CHARACTERS = 150


@dataclass
class Estimate:
    """Calls, tokens and US dollars that are expected; `cost` is None without a price."""

    captions: int = 0
    stages: dict[str, Usage] = field(default_factory=dict)
    cost: float | None = None

    def __add__(self, other: Estimate) -> Estimate:
        stages = {
            stage: self.stages.get(stage, Usage()) + other.stages.get(stage, Usage())
            for stage in {**self.stages, **other.stages}
        }
        known = self.cost is not None and other.cost is not None
        cost = (self.cost or 0.0) + (other.cost or 0.0) if known else None
        return Estimate(self.captions + other.captions, stages, cost)

    @property
    def usage(self) -> Usage:
        """All stages together."""
        return sum(self.stages.values(), Usage())


async def estimate(
    work: Sequence[tuple[Annotation, Caption]], opened: OpenJudge, *, repeats: int
) -> Estimate:
    """Return the expected cost of judging `work`, without making a call."""
    result = Estimate(captions=len(work))
    if opened.offline is None or opened.prompts is None:
        result.cost = 0.0
        return result
    for annotation, caption in work:
        for repeat in range(0 if caption.is_empty else repeats):
            tally = Tally()
            try:
                await opened.offline.judge(annotation, caption.caption, repeat=repeat, tally=tally)
            except CacheMiss:
                expected = _expected(annotation, caption.caption, opened.prompts)
                for stage in _STAGES[_STAGES.index(tally.stage) if tally.stage in _STAGES else 0 :]:
                    before = result.stages.get(stage, Usage())
                    result.stages[stage] = before + expected[stage]
            except CapevalError:
                # A stored failure: its cost is unknown, and it is requested again anyway.
                continue
    price = opened.meter.price(opened.judge.name)
    if not result.stages:
        result.cost = 0.0
    elif price is not None:
        result.cost = price.cost(result.usage)
    return result


def _tokens(*texts: str) -> int:
    return sum(map(len, texts)) // _CHARACTERS


def _expected(annotation: Annotation, caption: str, prompts: PromptSet) -> dict[Stage, Usage]:
    told = _tokens(caption)
    events = max(1, len(caption) // _EVENT_CHARACTERS)
    references = _tokens(*(event.event for event in annotation.events))
    elements = [e.content for event in annotation.events for e in event.visual_elements]
    shown = _tokens(*elements) + 6 * len(elements)
    template = {stage: _tokens(prompts.templates[stage]) for stage in _STAGES}
    echoed = told + shown if prompts.contract == "tuna" else 0
    return {
        "split": Usage(calls=1, input_tokens=template["split"] + told, output_tokens=told + 20),
        "match": Usage(
            calls=1,
            input_tokens=template["match"] + told + references + 12 * events,
            output_tokens=12 * events + 10,
        ),
        "classify": Usage(
            calls=1,
            input_tokens=template["classify"] + told + shown,
            output_tokens=14 * len(elements) + 10 + echoed,
        ),
    }
