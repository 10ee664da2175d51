"""Tokens and dollars that a run spends, and the cap on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from capeval.errors import BudgetReached, UsageError
from capeval.llm.prices import Price, price_of
from capeval.llm.types import ChatReply, ChatRequest
from capeval.schema.judgment import Usage

# Before a model's first reply is in, its calls are taken to answer at this length.
GUESSED_OUTPUT_TOKENS = 1000
TOKENS_PER_IMAGE = 1000


class Meter:
    """Counts tokens and US dollars of real calls, and calls that the cache answered.

    `prices` are the user's own. With a `cap` in US dollars, no call is admitted that would pass it,
    by the mean cost of the calls before.
    """

    def __init__(
        self, *, prices: Mapping[str, Price] | None = None, cap: float | None = None
    ) -> None:
        self.cap = cap
        self.spent = 0.0
        self.usage = Usage()
        self.cached_calls = 0
        self.guessed = 0
        """Calls for which the endpoint reported no tokens; their cost is estimated."""
        self.too_long = 0
        """Calls that were refused because they do not fit the model's context."""
        self.in_flight = 0
        """Real calls under way."""
        self._prices = dict(prices or {})
        self._ended = asyncio.Event()

    @property
    def calls(self) -> int:
        """Real calls that were answered."""
        return self.usage.calls

    def unused(self) -> Meter:
        """Return a meter with the same prices that has counted nothing."""
        return Meter(prices=self._prices, cap=self.cap)

    def include(self, other: Meter) -> None:
        """Add what another meter has counted."""
        self.spent += other.spent
        self.usage = self.usage + other.usage
        self.cached_calls += other.cached_calls
        self.guessed += other.guessed
        self.too_long += other.too_long

    def price(self, model: str) -> Price | None:
        """Return the expected price of a model, or None where it is not known."""
        return price_of(model, self._prices)

    def cost(self, model: str, usage: Usage) -> float | None:
        """Return what calls of a model cost, or None without a price."""
        price = self.price(model)
        return 0.0 if not usage.calls else price.cost(usage) if price else None

    @asynccontextmanager
    async def admit(self, request: ChatRequest) -> AsyncIterator[Callable[[ChatReply], None]]:
        """Admit one real call for the block, whose reply is passed to the function that it gets.

        Near the cap it waits for calls in flight, whose cost decides whether this one may go;
        raises `BudgetReached`, `UsageError`.
        """
        await self._room_for(request)
        self.in_flight += 1

        def paid(reply: ChatReply) -> None:
            usage = reply.usage
            if not (usage.input_tokens and usage.output_tokens):
                self.guessed += 1
                usage = usage.model_copy(
                    update={
                        "input_tokens": usage.input_tokens or _input_tokens(request),
                        "output_tokens": usage.output_tokens or len(reply.text) // 4 + 1,
                    }
                )
            self.paid(request.model, reply, billed=usage)

        try:
            yield paid
        finally:
            self.in_flight -= 1
            self._ended.set()

    async def _room_for(self, request: ChatRequest) -> None:
        """Wait until a call like those in flight is expected to stay below the cap."""
        if self.cap is None:
            return
        price = self.price(request.model)
        if price is None:
            raise UsageError(
                f"a cost cap needs the price of {request.model}: "
                f'write [prices."{request.model}"] with input = and output = into capeval.toml'
            )
        output = min(request.max_tokens, GUESSED_OUTPUT_TOKENS)
        first = price.cost(Usage(input_tokens=_input_tokens(request), output_tokens=output))
        while True:
            each = self.spent / self.calls if self.calls else first
            if self.spent + each * (self.in_flight + 1) <= self.cap:
                return
            if not self.in_flight:
                raise BudgetReached(
                    f"the cost cap of ${_dollars(self.cap)} leaves no room for another call: "
                    f"${self.spent:.4f} spent"
                )
            self._ended.clear()
            await self._ended.wait()

    def room_for(self, count: int, cost: float | None) -> Callable[[int], bool]:
        """Return whether another item may be begun beside so many; `count` of them cost `cost`.

        Under a cap, only as many are begun as can be finished.
        """
        each = (cost or 0.0) / max(count, 1)
        return lambda begun: self.cap is None or self.spent + (begun + 1) * each <= self.cap

    def served(self, usage: Usage) -> None:
        """Count a call that the cache answered."""
        self.cached_calls += usage.calls or 1

    def paid(self, model: str, reply: ChatReply, *, billed: Usage | None = None) -> None:
        """Count a real call; `billed` are its tokens where the endpoint reported none."""
        self.usage = self.usage + reply.usage
        price = self.price(model)
        if price is not None:
            self.spent += price.cost(billed or reply.usage)


def _input_tokens(request: ChatRequest) -> int:
    return sum(
        len(part) // 4 if isinstance(part, str) else TOKENS_PER_IMAGE for part in request.parts()
    )


def _dollars(amount: float) -> str:
    # A cap of a hundredth of a cent is not one of $0.00.
    return f"{amount:.2f}" if amount >= 0.01 else f"{amount:g}"
