"""Prices and documented facts of models, the spending of a run, and its cap."""

from __future__ import annotations

import asyncio
import re
import tomllib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from capeval.config import read_config
from capeval.errors import BudgetReached, InputError, UsageError
from capeval.llm.replies import ChatReply, ChatRequest
from capeval.schema import Usage
from capeval.text import complaint

TABLE = Path(__file__).with_name("judges.toml")
EntryT = TypeVar("EntryT", bound=BaseModel)
SNAPSHOT = re.compile(r"-\d{4}-\d{2}-\d{2}$")

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How much a model reasons before it answers: the documented values of `reasoning_effort`."""

# The efforts with which a model hardly reasons, the least first.
LEAST: tuple[Effort, ...] = ("none", "minimal")

# Before a model's first reply, its replies are assumed to have this length.
GUESSED_OUTPUT_TOKENS = 1000
TOKENS_PER_IMAGE = 1000
CHARACTERS = 4
"""Characters per token of an English prompt, for estimates."""


def today() -> date:
    return datetime.now(UTC).date()


class JudgeModel(BaseModel):
    """What is documented about one model that can judge; None is unknown.

    `shutdown` is the first day without the model, and `replacement` what its provider recommends
    instead. `temperature` is accepted, refused, or refused "unless reasoning" is switched off;
    `efforts` are the values of `reasoning_effort` that it accepts, and `default_effort` is the one
    if none is sent. `serve` is the command line that serves open weights; without one, the entry
    is about api.openai.com.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    aliases: tuple[str, ...] = ()
    shutdown: date | None = None
    replacement: str | None = None
    temperature: Literal["accepted", "refused", "unless reasoning"] | None = None
    efforts: tuple[Effort, ...] = ()
    default_effort: Effort | None = None
    serve: str | None = None

    @property
    def days_left(self) -> int | None:
        """Days until the shutdown; 0 or less is a retired model."""
        return None if self.shutdown is None else (self.shutdown - today()).days

    @property
    def is_retired(self) -> bool:
        return self.days_left is not None and self.days_left <= 0

    @property
    def successor(self) -> str | None:
        """The model that the provider recommends instead, if it is not retired itself."""
        following = find_judge(self.replacement) if self.replacement else None
        if following is not None and following.is_retired:
            return following.successor
        return self.replacement

    @property
    def reasons_by_default(self) -> bool:
        """Whether the model reasons, or may, without being asked to."""
        if self.default_effort is None:
            return self.temperature in ("refused", "unless reasoning")
        return self.default_effort != "none"

    @property
    def least_effort(self) -> Effort | None:
        """The effort to ask for by default: none or minimal reasoning, if the model would reason.

        None if nothing is to be sent: the model does not reason by itself, always reasons, or
        takes a temperature while it does.
        """
        if self.temperature in (None, "accepted") or self.default_effort in (None, *LEAST):
            return None
        return next((effort for effort in LEAST if effort in self.efforts), None)


@cache
def judge_models() -> Mapping[str, JudgeModel]:
    tables = tomllib.loads(TABLE.read_text(encoding="utf-8"))["judges"]
    return {name: JudgeModel(name=name, **table) for name, table in tables.items()}


def find_judge(model: str) -> JudgeModel | None:
    """Return the entry of a model, by its name, an alias or its undated name.

    >>> find_judge("openai/gpt-4o").name, find_judge("gpt-5-mini-2025-08-07").name
    ('gpt-4o-2024-08-06', 'gpt-5-mini')
    >>> find_judge("my-own-model") is None
    True
    """
    entries = judge_models()
    by_alias = {alias: entry for entry in entries.values() for alias in entry.aliases}
    found = (entries.get(name) or by_alias.get(name) for name in _names_of(model))
    return next((entry for entry in found if entry), None)


def _names_of(model: str) -> tuple[str, ...]:
    """Return the names under which a model may be listed: its own first, the undated one last."""
    bare = model.removeprefix("openai/")
    return (model, bare, SNAPSHOT.sub("", bare))


class Price(BaseModel):
    """US dollars for a million tokens; without `cached_input`, cached ones cost the same.

    >>> Price(input=2.5, cached_input=1.25, output=10).cost(Usage(input_tokens=400_000))
    1.0
    """

    # TOML has types: `input = true` is an error.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    input: float = Field(ge=0, allow_inf_nan=False)
    cached_input: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)

    def cost(self, usage: Usage) -> float:
        cached = min(usage.cached_tokens, usage.input_tokens)
        cached_input = self.input if self.cached_input is None else self.cached_input
        fresh = (usage.input_tokens - cached) * self.input
        return (fresh + cached * cached_input + usage.output_tokens * self.output) / 1_000_000


def price_of(model: str, own: Mapping[str, Price] | None = None) -> Price | None:
    """Return the price of a model, or None if unknown.

    The user's `own` prices come first; one for an undated name is that of its snapshots too.

    >>> price_of("gpt-4.1-2025-04-14") == price_of("gpt-4.1")
    True
    >>> price_of("my-own-model") is None
    True
    """
    given = (own[name] for name in _names_of(model) if own and name in own)
    return next(given, None) or list_price(model)


@cache
def list_price(model: str) -> Price | None:
    """Return the list price of an OpenAI model for short requests; None if it is unknown."""
    entry = find_judge(model)
    if entry is not None and entry.serve:
        return None  # a user's own server has no list price
    import genai_prices  # it takes 0.2 s to import

    name = model.removeprefix("openai/")
    try:
        found = genai_prices.calc_price(genai_prices.Usage(), name, provider_id="openai")
    except LookupError:
        return None
    of = found.model_price
    asked, cached, answered = (
        None if price is None else float(getattr(price, "base", price))  # type: ignore[arg-type]
        for price in (of.input_mtok, of.cache_read_mtok, of.output_mtok)
    )
    if asked is None or answered is None:
        return None
    return Price(input=asked, cached_input=cached, output=answered)


class OwnJudge(BaseModel):
    """What the user's file says of a judge: the command that serves it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    serve: str


def read_prices(path: Path) -> dict[str, Price]:
    """Return the `[prices."MODEL"]` tables of a file; raises `InputError`."""
    return _read(path, "prices", Price)


def serve_of(judge: str, path: Path) -> str | None:
    """Return the command that serves a judge: of `[judges."MODEL"]` in a file, or packaged."""
    entry = _read(path, "judges", OwnJudge).get(judge) or find_judge(judge)
    return entry.serve if entry else None


def _read(path: Path, table: str, kind: type[EntryT]) -> dict[str, EntryT]:
    try:
        return TypeAdapter(dict[str, kind]).validate_python(read_config(path, table))  # type: ignore[valid-type]
    except ValidationError as faults:
        field, message = complaint(faults)
        raise InputError(message, file=path, field=f"{table}.{field}") from None


class Meter:
    """Counts tokens and US dollars of real calls, and calls that the cache answered.

    With a `cap` in US dollars, no call is admitted that would exceed it at the mean cost of earlier
    calls; the short test call does not count. `guessed` calls reported no tokens, so their cost is
    estimated; `too_long` ones do not fit the model's context.
    """

    def __init__(
        self, *, prices: Mapping[str, Price] | None = None, cap: float | None = None
    ) -> None:
        self.cap = cap
        self.spent = 0.0
        self.usage = Usage()
        self.cached_calls = self.guessed = self.too_long = self.in_flight = 0
        self.prices = dict(prices or {})
        self._answered, self._cost_of_answered = 0, 0.0
        self._ended = asyncio.Event()

    @property
    def calls(self) -> int:
        return self.usage.calls

    def include(self, other: Meter) -> None:
        self.spent += other.spent
        self.usage = self.usage + other.usage
        self.cached_calls += other.cached_calls
        self.guessed += other.guessed
        self.too_long += other.too_long

    def price(self, model: str) -> Price | None:
        return price_of(model, self.prices)

    def cost(self, model: str, usage: Usage) -> float | None:
        price = self.price(model)
        return 0.0 if not usage.calls else price.cost(usage) if price else None

    @asynccontextmanager
    async def admit(self, request: ChatRequest) -> AsyncIterator[Callable[[ChatReply], None]]:
        """Admit one real call for the block, which passes its reply to the yielded function.

        Near the cap it waits until the cost of the calls in flight is known. Raises
        `BudgetReached`, `UsageError`.
        """
        await self._room_for(request)
        self.in_flight += 1

        def paid(reply: ChatReply) -> None:
            usage = reply.usage
            if not (usage.input_tokens and usage.output_tokens):
                self.guessed += 1
                tokens_in = usage.input_tokens or _input_tokens(request)
                tokens_out = usage.output_tokens or len(reply.text) // CHARACTERS + 1
                new = {"input_tokens": tokens_in, "output_tokens": tokens_out}
                usage = usage.model_copy(update=new)
            before = self.spent
            self.paid(request.model, reply, billed=usage)
            self._answered += 1
            self._cost_of_answered += self.spent - before

        try:
            yield paid
        finally:
            self.in_flight -= 1
            self._ended.set()

    async def _room_for(self, request: ChatRequest) -> None:
        if self.cap is None:
            return
        price = self.price(request.model)
        if price is None:
            raise UsageError(
                f"a cost cap needs the price of {request.model}: "
                f'add [prices."{request.model}"] to capeval.toml, with input = and output ='
            )
        output = min(request.max_tokens, GUESSED_OUTPUT_TOKENS)
        first = price.cost(Usage(input_tokens=_input_tokens(request), output_tokens=output))
        while True:
            each = self._cost_of_answered / self._answered if self._answered else first
            if self.spent + each * (self.in_flight + 1) <= self.cap:
                return
            if not self.in_flight:
                # A cap of a hundredth of a cent is not one of $0.00.
                cap = f"{self.cap:.2f}" if self.cap >= 0.01 else f"{self.cap:g}"
                raise BudgetReached(
                    f"the cost cap of ${cap} leaves no room for another call: "
                    f"${self.spent:.4f} spent"
                )
            self._ended.clear()
            await self._ended.wait()

    def room_for(self, count: int, cost: float | None) -> Callable[[int], bool]:
        """Return a test whether one more item may start beside n; `count` items cost `cost`."""
        each = (cost or 0.0) / max(count, 1)
        return lambda begun: self.cap is None or self.spent + (begun + 1) * each <= self.cap

    def served(self, usage: Usage) -> None:
        self.cached_calls += usage.calls or 1

    def paid(self, model: str, reply: ChatReply, *, billed: Usage | None = None) -> None:
        """Count a real call; `billed` are its tokens where the endpoint reported none."""
        self.usage = self.usage + reply.usage
        price = self.price(model)
        if price is not None:
            self.spent += price.cost(billed or reply.usage)


def _input_tokens(request: ChatRequest) -> int:
    return sum(
        len(part) // CHARACTERS if isinstance(part, str) else TOKENS_PER_IMAGE
        for part in request.parts()
    )
