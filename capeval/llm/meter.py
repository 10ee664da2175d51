"""Tokens and dollars that a run spends, and the cap on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal

from capeval.errors import BudgetReached, UsageError
from capeval.llm.prices import Price, price_of
from capeval.llm.types import ChatReply, ChatRequest
from capeval.schema.usage import Usage

# Before a model's first reply is in, its calls are taken to answer at this length.
GUESSED_OUTPUT_TOKENS = 1000
TOKENS_PER_IMAGE = 1000


class Meter:
    """Counts tokens and US dollars of real calls, and calls that the cache answered.

    `prices` are the user's own; with a `cap` in US dollars, `require()` raises `BudgetReached`
    once the money spent, plus the expected cost of the calls in flight, reaches it.
    """

    def __init__(
        self, *, prices: Mapping[str, Price] | None = None, cap: float | None = None
    ) -> None:
        self.cap = cap
        self.spent = 0.0
        self.usage = Usage()
        self.cached_calls = 0
        self.unpriced: set[str] = set()
        self.guessed = 0
        """Calls for which the endpoint reported no tokens; their cost is estimated."""
        self._prices = dict(prices or {})
        self._costs: dict[str, tuple[int, float]] = {}
        self.expected = 0.0
        """US dollars that the calls in flight are expected to cost."""
        self.in_flight = 0
        """Real calls under way."""
        self._gate = asyncio.Lock()
        self._changed = asyncio.Event()

    @property
    def calls(self) -> int:
        """Real calls that were answered."""
        return self.usage.calls

    def unused(self) -> Meter:
        """Return a meter with the same prices that has counted nothing."""
        return Meter(prices=self._prices, cap=self.cap)

    def price(self, model: str) -> Price | None:
        """Return the price of a model, or None where it is not known."""
        return price_of(model, self._prices)

    def require(self) -> None:
        """Raise `BudgetReached` if no further call may be made."""
        if self.cap is not None and self.spent + self.expected >= self.cap:
            self._refuse()

    @asynccontextmanager
    async def admit(self, request: ChatRequest) -> AsyncIterator[Callable[[ChatReply], None]]:
        """Admit one real call for the block, whose reply is passed to the function that it gets.

        Near the cap it waits for calls in flight, whose cost decides whether this one may go;
        raises `BudgetReached`, `UsageError`.
        """
        expected = await self._start(request)

        def paid(reply: ChatReply) -> None:
            guess = None
            if not (reply.usage.input_tokens and reply.usage.output_tokens):
                asked, answered = _input_tokens(request), len(reply.text) // 4 + 1
                guess = Usage(calls=1, input_tokens=asked, output_tokens=answered)
            self.paid(request.model, reply.usage, guess)

        try:
            yield paid
        finally:
            self.in_flight -= 1
            self.expected = self.expected - expected if self.in_flight else 0.0
            self._changed.set()

    async def _start(self, request: ChatRequest) -> float:
        """Return what a call is expected to cost, counted as in flight once there is room."""
        if self.cap is None:
            self.in_flight += 1
            return 0.0
        if self.price(request.model) is None:
            raise UsageError(
                f"a cost cap needs the price of {request.model}: "
                f'add [prices."{request.model}"] with input and output to capeval.toml'
            )
        async with self._gate:
            expected = self._estimate(request)
            while self.in_flight and self.spent + self.expected + expected > self.cap:
                self._changed.clear()
                await self._changed.wait()
            if self.spent + expected > self.cap:
                self._refuse()
            self.in_flight += 1
            self.expected += expected
            return expected

    def served(self, usage: Usage) -> None:
        """Count a call that the cache answered."""
        self.cached_calls += usage.calls or 1

    def paid(self, model: str, usage: Usage, guess: Usage | None = None) -> None:
        """Count a real call; `guess` is used where the endpoint reported no tokens."""
        self.usage = self.usage + usage
        if guess is not None:
            self.guessed += 1
            usage = usage.model_copy(
                update={
                    "input_tokens": usage.input_tokens or guess.input_tokens,
                    "output_tokens": usage.output_tokens or guess.output_tokens,
                }
            )
        price = self.price(model)
        if price is None:
            self.unpriced.add(model)
            return
        cost = price.cost(usage)
        calls, total = self._costs.get(model, (0, 0.0))
        self._costs[model] = (calls + 1, total + cost)
        self.spent += cost

    def _refuse(self) -> None:
        raise BudgetReached(
            f"the cost cap of ${_amount(self.cap)} leaves no room for another call: "
            f"${self.spent:.4f} spent"
            + (f", ${self.expected:.4f} under way" if self.in_flight else "")
        )

    def _estimate(self, request: ChatRequest) -> float:
        calls, total = self._costs.get(request.model, (0, 0.0))
        if calls:
            return total / calls
        price = self.price(request.model)
        output = min(request.max_tokens, GUESSED_OUTPUT_TOKENS)
        tokens = Usage(input_tokens=_input_tokens(request), output_tokens=output)
        return 0.0 if price is None else price.cost(tokens)


def _amount(dollars: float | None) -> str:
    # A cap of a hundredth of a cent is not one of $0.00, nor one of $1e-04.
    if not dollars or dollars >= 0.01:
        return f"{dollars:.2f}"
    return format(Decimal(f"{dollars:.2g}"), "f")


def _input_tokens(request: ChatRequest) -> int:
    return sum(
        len(part) // 4 if isinstance(part, str) else TOKENS_PER_IMAGE for part in request.parts()
    )
