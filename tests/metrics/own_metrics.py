"""Metrics of a test's own: some work, and some do not keep what the protocol asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from capeval.errors import ReplyError
from capeval.llm.types import ChatReply, ChatRequest
from capeval.metrics.protocol import (
    CaptionMetric,
    Context,
    Item,
    Metric,
    MetricOutput,
    NoValues,
    Outcome,
    Record,
    Summary,
    Values,
)
from capeval.schema import Usage

SCORED: list[str] = []
"""The captions that `Letters` has scored, in order."""


class Letters(CaptionMetric):
    """The number of letters, and their share, which is undefined for an empty caption."""

    name = "letters"
    outputs: tuple[MetricOutput, ...] = (
        MetricOutput("letters", unit="number"),
        MetricOutput("letter-share"),
    )
    settings: Mapping[str, str] = {"version": "1"}

    async def score_caption(self, item: Item) -> Outcome:
        SCORED.append(item.index)
        if "fail" in item.caption:
            return NoValues("it fails")
        letters = sum(map(str.isalpha, item.caption))
        if not item.caption:
            return Values({"letters": 0.0}, {"letter-share": "the caption is empty"})
        return Values({"letters": letters, "letter-share": letters / len(item.caption)})

    def summarise(self, scored: Sequence[tuple[Item, Values]]) -> Mapping[str, Summary]:
        """The share over all letters and characters, which is not the mean."""
        means = super().summarise(scored)
        total = sum(one.values["letters"] for _, one in scored)
        share = total / max(1, sum(len(item.caption) for item, _ in scored))
        return {**means, "letter-share": Summary(share, len(scored), groups={"all": share})}


class Hostile(CaptionMetric):
    """Returns or raises what the caption names."""

    name = "hostile"
    outputs = (MetricOutput("hostile"),)
    settings: Mapping[str, str] = {"version": "1"}

    async def score_caption(self, item: Item) -> Any:
        returned: dict[str, Callable[[], Any]] = {
            "not finite": lambda: Values({"hostile": float("nan")}),
            "infinite": lambda: Values({"hostile": float("inf")}),
            "text": lambda: Values({"hostile": "1"}),  # type: ignore[dict-item]
            "endless": lambda: Values({"hostile": 10**5000}),
            "surrogate": lambda: NoValues("\ud800"),
            "reply": _refused,
        }
        return returned.get(item.caption, lambda: Values({"hostile": 0.5}))()


def _refused() -> None:
    raise ReplyError("no number")


class Raising(CaptionMetric):
    """Fails as a bug would."""

    name = "raising"
    outputs = (MetricOutput("raising"),)
    settings: Mapping[str, str] = {}

    async def score_caption(self, item: Item) -> Outcome:
        raise KeyError("no\nsuch key")


class Other(CaptionMetric):
    """Gives a value to an output that it has not declared."""

    name = "other"
    outputs = (MetricOutput("other"),)
    settings: Mapping[str, str] = {}

    async def score_caption(self, item: Item) -> Outcome:
        return Values({"another": 1.0})


class Silent(Metric):
    """Leaves captions out."""

    name = "silent"
    outputs = (MetricOutput("silent"),)
    settings: Mapping[str, str] = {}

    async def score(self, items: Sequence[Item], record: Record) -> None:
        record(items[0], Values({"silent": 1.0}))


class Twice(Metric):
    """Records a caption twice."""

    name = "twice"
    outputs = (MetricOutput("twice"),)
    settings: Mapping[str, str] = {}

    async def score(self, items: Sequence[Item], record: Record) -> None:
        for item in (*items, items[0]):
            record(item, Values({"twice": 1.0}))


class Misnamed(Letters):
    """Has the name of another metric."""

    name = "length"


class Unmade(Letters):
    """Cannot be made."""

    name = "unmade"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        raise RuntimeError("no weights")


class Asking(CaptionMetric):
    """A number from 0 to 1."""

    name = "asking"
    outputs = (MetricOutput("asking"),)
    uses_chat = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._chat = context.the_chat
        self.settings = {"version": "1", "judge": self._chat.identity}
        self.concurrency = self._chat.concurrency

    def expected(self, items: Sequence[Item]) -> Usage:
        return Usage(calls=len(items), input_tokens=1000 * len(items), output_tokens=10)

    async def score_caption(self, item: Item) -> Outcome:
        chat = self._chat
        message = {"role": "user", "content": f"Rate: {item.caption}"}
        request = ChatRequest(chat.model, (message,), 16, reasoning=chat.reasoning)
        answer = await chat.asker.ask(request, _number)
        return Values({"asking": answer.value})


def _number(reply: ChatReply) -> float:
    try:
        return float(reply.text)
    except ValueError:
        raise ReplyError("reply with one number") from None
