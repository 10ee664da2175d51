"""The judge that the options name: a chat model in three stages, or any other judge."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from capeval.config import config_file, keyless_addresses, read_config
from capeval.errors import InputError, UsageError
from capeval.files.jsonl import short_hash
from capeval.judging.contracts import (
    EventToClassify,
    Labels,
    PromptSet,
    Reasons,
    Stage,
    contract_of,
    load_prompts,
)
from capeval.judging.protocol import (
    DEFAULT_PROMPTS,
    JUDGES,
    LEXICAL,
    MODELS_OWN,
    JudgingOptions,
    PreparedJudge,
    RunOptions,
    Tally,
    load_judge,
    prepare_judge,
)
from capeval.language import segments, words
from capeval.llm.asker import Chat, key_for, open_asker
from capeval.llm.client import DEFAULT_URL, ChatOptions, EndpointOptions, endpoint_url
from capeval.llm.money import JudgeModel, Meter, find_judge, serve_of
from capeval.llm.replies import ChatReply, ChatRequest, FormError, read_reply
from capeval.llm.serving import Server, find_server
from capeval.llm.tracing import about, public_url
from capeval.runs.concurrency import UnderWay, in_thread
from capeval.runs.folder import JudgeFolder, RunFolder
from capeval.schema import Annotation, Verdict, endpoint_name, lacking
from capeval.text import Loss, counted, nearest, shown, storable

DEFAULT_MODEL = "gpt-6-luna"
"""The cheapest of OpenAI's models without an announced end."""
_PUBLISHED = "the published scores are by gpt-4o-2024-08-06"

_ENVIRONMENT = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
# Enough to judge with both the old and the new judge, and to review the result.
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

    If nothing will be called (`offline`), no key is needed.
    """
    known = (options.base_url, options.api_key, *map(os.environ.get, _ENVIRONMENT))
    if options.client is None and not any(known):
        if is_sample:
            return LEXICAL, "the default for the sample, because no key and no endpoint are set"
        if not offline:
            raise UsageError(
                "no judge is configured: set OPENAI_API_KEY, name a local server with --base-url "
                "(--judge-url of `capeval eval`), or use --judge lexical, the baseline that only "
                "compares words"
            )
    if options.client is None and public_url(endpoint_url(options.base_url)) != DEFAULT_URL:
        return None, "the only model of this endpoint"
    return DEFAULT_MODEL, "the default"


def entry_for(model: str, base_url: str) -> JudgeModel | None:
    """Return what is documented about a model at an endpoint.

    An entry about a model of OpenAI's API says nothing about other services that use the name.
    """
    entry = find_judge(model)
    fits = entry and (entry.serve or endpoint_name(base_url) == "openai")
    return entry if fits else None


def ending(model: str, entry: JudgeModel | None) -> Loss | None:
    """Return the notice about a judge that is or will be retired, else None.

    It is a `Loss`: after that day, an unfinished run cannot be finished, and no score can be
    compared with a new one by the same judge.
    """
    if entry is None or entry.days_left is None or entry.days_left > WARNED_DAYS:
        return None
    if entry.is_retired:
        new = f" {entry.successor}, which its provider recommends" if entry.successor else ""
        return Loss(
            f"the judge {model} was retired on {entry.shutdown}: choose another with --judge{new}; "
            "stored verdicts are scored and compared as before"
        )
    new = f"its provider recommends --judge {entry.successor}" if entry.successor else "any other"
    return Loss(
        f"the judge {model} retires in {counted(entry.days_left, 'day')}, on {entry.shutdown}: "
        "finish its runs by then; to compare with another judge later, judge a sample with both "
        f"before ({new})"
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
    """The reason for this judge, if the user named none; shown as a run begins."""
    thinks: bool = False
    """Whether it is documented to reason: reasoning is billed, but not in the estimate."""
    under_way: UnderWay = field(default_factory=UnderWay)
    """The captions that it judges now, of all runs."""
    running: Callable[[bool], AbstractAsyncContextManager[bool]] = nullcontext
    """It judges within `running(is_needed)`, which starts and ends its server, if it has one."""

    @property
    def title(self) -> str:
        return "; ".join((self.judge.title, *self.reasons))

    def folder_in(self, run: RunFolder) -> JudgeFolder:
        """Return the judge's folder in a run, which is named for the prompts without their hash."""
        judge, label = self.judge, self.judge.prompts
        prompts = label and (label.rpartition("@")[0] or label)
        identity = short_hash(judge.identity)
        return run.judge(judge.name, prompts, judge.reasoning, identity=identity)


def judge_server(o: RunOptions, *, offline: bool) -> Server:
    name = o.judge
    if not isinstance(name, str) or name in JUDGES:
        what = shown(name) if isinstance(name, str) else type(name).__name__
        raise UsageError(f"only a chat model has a server to start; the judge {what} is not one")
    return find_server(o, "judges", name, serve_of(name, config_file()), name, offline=offline)


@asynccontextmanager
async def open_judge(
    options: JudgingOptions,
    *,
    offline: bool = False,
    is_sample: bool = False,
    keeps_replies: bool = True,
    server: Server | None = None,
) -> AsyncIterator[OpenJudge]:
    """Open a judge; its connections close with the block.

    It is a registered judge, a `CaptionJudge` of the user's, or a chat model; without a name it is
    the one that `default_judge` chooses. An `offline` one is for an estimate: it needs no key and
    calls nothing. Replies are cached if it `keeps_replies`. A `server` is started later.
    """
    judge, reason = options.judge, ""
    if judge is None:
        judge, reason = default_judge(options, is_sample=is_sample, offline=offline)
    if judge is None or (isinstance(judge, str) and judge not in JUDGES):
        prompts = load_prompts(options.prompts, explain=options.explain)
        near = nearest(judge, JUDGES.names()) if isinstance(options.judge, str) else ""
        unknown = f"no installed judge is called {shown(judge)}{near} For a chat model, there is "
        key = key_for(options, f"{unknown if near else ''}no key", offline=offline)
        opening = _opened(options, judge, key, keeps_replies=keeps_replies, server=server)
        async with opening as chat:
            asks = LLMJudge(chat, prompts, options.on_notice)
            published = _PUBLISHED if judge == DEFAULT_MODEL and reason else ""
            reasons = tuple(filter(None, (reason, chat.why_reasoning, published)))
            yield OpenJudge(
                *(asks, chat.asker.meter, asks.concurrency, prompts, reasons, chat.thinks),
                running=chat.asker.running,
            )
        return
    for name in ("reasoning", "base_url", "prompts", "explain"):
        # capeval.toml may set a server for all judges; this one does not use it.
        is_default = name == "base_url" and options.base_url in keyless_addresses
        if not is_default and getattr(options, name) not in (None, False, DEFAULT_PROMPTS):
            which = shown(judge) if isinstance(judge, str) else type(judge).__name__
            typed = f"--{name.replace('_', '-')}"
            if name == "base_url":
                typed += " (--judge-url of `capeval eval`)"
            raise UsageError(f"{typed} is for chat models; the judge {which} is not one")
    # It may load a model for minutes: Ctrl-C works meanwhile.
    prepared = (
        await in_thread(partial(load_judge, judge))
        if isinstance(judge, str)
        else prepare_judge(judge)
    )
    try:
        concurrency = min(prepared.concurrency, options.max_concurrency)
        yield OpenJudge(prepared, Meter(), concurrency, reasons=(reason,) if reason else ())
    finally:
        prepared.close()


def open_chat(o: ChatOptions, *, offline: bool) -> AbstractAsyncContextManager[Chat]:
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
    server: Server | None = None,
) -> AsyncIterator[Chat]:
    """Open a chat model, by default the endpoint's only one.

    A notice says if the model is or will be retired.
    """
    async with open_asker(o, key, keeps_replies=keeps_replies, server=server) as asker:
        name = model or await asker.only_model("--judge")
        entry = entry_for(name, asker.base_url)
        notice = ending(name, entry)
        # A user's own client, as in tests, retires no model.
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
    """Return the reasoning effort for a model, and the reason if the user did not choose it."""
    if reasoning is not None:
        return (None if reasoning == MODELS_OWN else reasoning), ""
    least = entry.least_effort if entry else None
    # With "none" a temperature is accepted; "minimal" leaves the least to chance.
    why = "its lowest reasoning effort (--reasoning sets another)"
    return least, why if least else ""


def captions_at_once(calls: int) -> int:
    """Return how many captions are judged at the same time with `calls` calls.

    There are half as many again as calls. While the reply about one caption is read and stored,
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


# ---- The three stages with a chat model: split, match, classify (TUNA, section 3.2.2) ------------

T = TypeVar("T")

# Enough to assess a model, and few enough that a run has cost little.
FIRST_REPLIES = 20


class LLMJudge(PreparedJudge):
    """Asks any chat model, one call per stage; a reply that breaks the contract is requested again.

    With another effort or other weights, a model is another judge.
    """

    def __init__(
        self, chat: Chat, prompts: PromptSet, on_notice: Callable[[str], None] = lambda _: None
    ) -> None:
        self.asker, self.templates, self._on_notice = chat.asker, prompts, on_notice
        self.name, self.prompts, self.concurrency = chat.model, prompts.label, chat.concurrency
        self.base_url, self.endpoint = chat.asker.base_url, chat.endpoint
        self.reasoning, self.description = chat.reasoning, chat.weights
        named = f"endpoint {chat.endpoint or endpoint_name(chat.asker.base_url)}"
        effort = (f"reasoning {chat.reasoning}",) if chat.reasoning else ()
        behind = (f"weights {chat.weights}",) if chat.weights else ()
        self.identity = (chat.model, named, prompts.hash, *effort, *behind)
        self._replies = self._unreadable = 0

    async def judge(
        self, annotation: Annotation, caption: str, *, repeat: int, tally: Tally
    ) -> Verdict:
        return await _Stages(self, repeat, tally).verdict(annotation, caption)

    def count(self, reply: ChatReply, *, is_readable: bool) -> None:
        if reply.cached or self._replies == FIRST_REPLIES:
            return
        self._replies += 1
        self._unreadable += not is_readable
        if self._replies == FIRST_REPLIES and self._unreadable > FIRST_REPLIES // 2:
            self._on_notice(
                Loss(
                    f"{self._unreadable} of the first {FIRST_REPLIES} replies of {self.name} are "
                    "requested again because they contain more than JSON: let the server enforce "
                    "response_format and separate the reasoning; see docs/judging.md"
                )
            )


class _Stages:
    """The stages of one repeat for one caption."""

    def __init__(self, judge: LLMJudge, repeat: int, tally: Tally) -> None:
        self.judge, self.repeat, self.tally = judge, repeat, tally
        self.contract = contract_of(judge.templates)
        tally.notes = []

    async def verdict(self, annotation: Annotation, caption: str) -> Verdict:
        about(index=annotation.index, repeat=self.repeat)
        events = await self.split(storable(caption))
        matches = await self.match(events, [storable(event.event) for event in annotation.events])
        numbered = list(enumerate(annotation.events, start=1))
        parts = [
            EventToClassify(
                event=number,
                text=" ".join(e for e, m in zip(events, matches, strict=True) if m == number),
                elements=tuple(storable(element.content) for element in event.visual_elements),
            )
            for number, event in numbered
            if number in matches
        ]
        labels, reasons = await self.classify(parts) if parts else ([], [])
        judged = {part.event: given for part, given in zip(parts, labels, strict=True)}
        explained = {part.event: given for part, given in zip(parts, reasons, strict=True)}
        explanations = tuple(
            explained.get(number) or ("",) * len(event.visual_elements)
            for number, event in numbered
        )
        return Verdict(
            candidate_events=tuple(events),
            matches=tuple(matches),
            relations=tuple(judged.get(number) or lacking(event) for number, event in numbered),
            explanations=explanations if self.judge.templates.explain else None,
            notes=tuple(self.tally.notes),
        )

    async def split(self, caption: str) -> list[str]:
        found = segments(caption)
        if len(found) == 1:
            return [caption.strip()]  # one segment is one event: no call is needed
        return await self._ask(
            "split",
            {"caption": self.contract.show_caption(caption)},
            lambda value, notes: self.contract.read_split(value, caption, notes),
            items=len(found),
            material=(caption,),
        )

    async def match(self, events: Sequence[str], references: Sequence[str]) -> list[int | None]:
        matches = await self._ask(
            "match",
            {
                "candidate_events": self.contract.show_events(events),
                "reference_events": self.contract.show_events(references),
            },
            lambda value, _: self.contract.read_matches(value, len(events), len(references)),
            items=len(events),
            material=(*events, *references),
        )
        repaired = repair_order(matches, [len(words(event)) for event in events])
        for number, (before, after) in enumerate(zip(matches, repaired, strict=True), start=1):
            if before != after:
                self.tally.notes.append(
                    f"match: candidate event {number} to reference event {before} goes "
                    "back in time; treated as unmatched"
                )
        return repaired

    async def classify(self, parts: Sequence[EventToClassify]) -> tuple[Labels, Reasons]:
        return await self._ask(
            "classify",
            {"match_data": self.contract.show_parts(parts)},
            lambda value, notes: self.contract.read_relations(value, parts, notes),
            items=sum(len(part.elements) for part in parts),
            material=tuple(part.text for part in parts),
        )

    async def _ask(
        self,
        stage: Stage,
        data: Mapping[str, str],
        read: Callable[[Any, list[str]], T],
        *,
        items: int,
        material: Sequence[str],
    ) -> T:
        self.tally.stage = stage
        about(stage=stage)
        judge, contract = self.judge, self.contract
        request = ChatRequest(
            model=judge.name,
            messages=({"role": "user", "content": judge.templates.render(stage, data)},),
            max_tokens=contract.max_tokens(stage, items),
            repeat=self.repeat,
            schema=contract.schemas.get(stage),
            reasoning=judge.reasoning,
        )

        def check(reply: ChatReply) -> tuple[T, list[str]]:
            is_readable = True
            try:
                return read_reply(
                    *(reply.text, read, material),
                    printed=contract.prints_python,
                    enforced=request.is_enforced_in(reply),
                )
            except FormError:
                is_readable = False
                raise
            finally:
                judge.count(reply, is_readable=is_readable)

        value, notes = await self.tally.ask(judge.asker, request, check, stage)
        self.tally.notes += notes
        return value


def repair_order(matches: Sequence[int | None], sizes: Sequence[int]) -> list[int | None]:
    """Return the matches, with None for each that breaks the chronological order.

    The longest non-decreasing subsequence is kept; among several, the one with the most words,
    then the one whose events come earliest.
    `matches` are reference numbers (from 1) or None, `sizes` the words, per candidate event.

    >>> repair_order([1, 3, 2, None, 3], [5, 9, 4, 1, 6])
    [1, 3, None, None, 3]
    """
    end = len(matches)
    # By the reference that a subsequence begins with, the best of the places seen: its length, its
    # words, and its first place, negative because the earliest is preferred.
    best: dict[int, tuple[int, int, int]] = {}
    following: dict[int, int] = {}
    for place, number in reversed([*enumerate(matches)]):
        if number is None:
            continue
        later = [each for first, each in best.items() if first >= number]
        length, words, rest = max(later, default=(0, 0, -end))
        following[place] = -rest
        found = (length + 1, words + sizes[place], -place)
        best[number] = max(found, best.get(number, found))
    repaired: list[int | None] = [None] * end
    place = -max(best.values(), default=(0, 0, -end))[2]
    while place < end:
        repaired[place] = matches[place]
        place = following[place]
    return repaired
