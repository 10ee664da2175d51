"""Metrics of a test's own: some work, and some do not keep what the protocol asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from capeval.errors import ReplyError
from capeval.llm.types import ChatReply, ChatRequest
from capeval.metrics.protocol import (
    CaptionMetric,
    Context,
    HasRoom,
    Item,
    Metric,
    Outcome,
    Output,
    Record,
    Scored,
    Summary,
    Unscored,
)
from capeval.schema import Usage

SCORED: list[str] = []
"""The captions that `Letters` has scored, in order."""


class Letters(CaptionMetric):
    """The number of letters, and their share, which is undefined for an empty caption."""

    name = "letters"
    outputs: tuple[Output, ...] = (Output("letters", unit="number"), Output("letter-share"))
    settings: Mapping[str, str] = {"version": "1"}

    async def score_caption(self, item: Item) -> Outcome:
        SCORED.append(item.index)
        if "fail" in item.caption:
            return Unscored("it fails")
        letters = sum(map(str.isalpha, item.caption))
        if not item.caption:
            return Scored({"letters": 0.0}, {"letter-share": "the caption is empty"})
        return Scored({"letters": letters, "letter-share": letters / len(item.caption)})

    def summarise(self, scored: Sequence[tuple[Item, Scored]]) -> Mapping[str, Summary]:
        """The share over all letters and characters, which is not the mean."""
        means = super().summarise(scored)
        total = sum(one.values["letters"] for _, one in scored)
        share = total / max(1, sum(len(item.caption) for item, _ in scored))
        return {**means, "letter-share": Summary(share, len(scored), groups={"all": share})}


class Hostile(CaptionMetric):
    """Returns or raises what the caption names."""

    name = "hostile"
    outputs = (Output("hostile"),)
    settings: Mapping[str, str] = {"version": "1"}

    async def score_caption(self, item: Item) -> Any:
        returned: dict[str, Any] = {
            "nan": Scored({"hostile": float("nan")}),
            "infinite": Scored({"hostile": float("inf")}),
            "text": Scored({"hostile": "1"}),  # type: ignore[dict-item]
            "true": Scored({"hostile": True}),
            "other": Scored({"other": 1.0}),
            "none": Scored({}),
            "both": Scored({"hostile": 1.0}, {"hostile": "undefined"}),
            "number": 1.0,
            "nothing": None,
            "surrogate": Unscored("\ud800"),
            "refused": Unscored(""),
            "endless": Scored({"hostile": 10**5000}),
            "number as a reason": Scored({}, {"hostile": 5}),  # type: ignore[dict-item]
            "no values": Scored(None),  # type: ignore[arg-type]
            "nothing as the reason": Unscored(None),  # type: ignore[arg-type]
            "object in details": Scored({"hostile": 1.0}, details={"x": object()}),
            "nan in details": Scored({"hostile": 1.0}, details={"x": float("nan")}),
            "no details": Scored({"hostile": 1.0}, details=None),  # type: ignore[arg-type]
            "no usage": Scored({"hostile": 1.0}, usage=None),  # type: ignore[arg-type]
        }
        if item.caption == "reply":
            raise ReplyError("no number")
        return returned.get(item.caption, Scored({"hostile": 0.5}))


class Raising(CaptionMetric):
    """Fails as a bug would."""

    name = "raising"
    outputs = (Output("raising"),)
    settings: Mapping[str, str] = {}

    async def score_caption(self, item: Item) -> Outcome:
        if item.caption == "exit":
            raise SystemExit(0)
        raise KeyError("no\nsuch key")


class Silent(Metric):
    """Leaves captions out."""

    name = "silent"
    outputs = (Output("silent"),)
    settings: Mapping[str, str] = {}

    async def score(self, items: Sequence[Item], record: Record, has_room: HasRoom) -> None:
        record(items[0], Scored({"silent": 1.0}))


class Twice(Metric):
    """Records a caption twice."""

    name = "twice"
    outputs = (Output("twice"),)
    settings: Mapping[str, str] = {}

    async def score(self, items: Sequence[Item], record: Record, has_room: HasRoom) -> None:
        for item in (*items, items[0]):
            record(item, Scored({"twice": 1.0}))


class Unasked(Metric):
    """Records a caption that it did not get."""

    name = "unasked"
    outputs = (Output("unasked"),)
    settings: Mapping[str, str] = {}

    async def score(self, items: Sequence[Item], record: Record, has_room: HasRoom) -> None:
        record(Item("other", None, "", ("x",)), Scored({"unasked": 1.0}))


class Copying(Letters):
    """Records a copy of a caption, with another text."""

    name = "copying"

    async def score(self, items: Sequence[Item], record: Record, has_room: HasRoom) -> None:
        for item in items:
            values = {"letters": 1.0, "letter-share": 1.0}
            record(Item(item.index, item.system, "other", ("x",)), Scored(values))


class Misnamed(Letters):
    """Has the name of another metric."""

    name = "length"


class Replaced(Letters):
    """Makes nothing of the captions."""

    name = "replaced"

    def for_captions(self, items: Sequence[Item]) -> Any:
        return None


class Summing(Letters):
    """Has a sum that is none."""

    name = "summing"

    def summarise(self, scored: Sequence[tuple[Item, Scored]]) -> Mapping[str, Summary]:
        return {**super().summarise(scored), "letters": Summary(float("nan"), 1)}


class Unmade(Letters):
    """Cannot be made."""

    name = "unmade"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        raise RuntimeError("no weights")


class Asking(CaptionMetric):
    """A number from 0 to 1."""

    name = "asking"
    outputs = (Output("asking"),)
    uses_chat = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._chat = context.the_chat
        self.settings = {"version": "1", "judge": self._chat.identity}
        self.concurrency = self._chat.concurrency

    def expected(self, item: Item) -> Usage:
        return Usage(calls=1, input_tokens=1000 + len(item.caption), output_tokens=10)

    async def score_caption(self, item: Item) -> Outcome:
        chat = self._chat
        message = {"role": "user", "content": f"Rate: {item.caption}"}
        request = ChatRequest(chat.model, (message,), 16, reasoning=chat.reasoning)
        answer = await chat.asker.ask(request, _number)
        return Scored({"asking": answer.value})


def _number(reply: ChatReply) -> float:
    try:
        return float(reply.text)
    except ValueError:
        raise ReplyError("reply with one number") from None
