"""Metrics of a test's own: some work, and some break the protocol."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from capeval.errors import ReplyError
from capeval.metrics.protocol import (
    CaptionMetric,
    Context,
    Item,
    MetricOutput,
    NoValues,
    Outcome,
    Summary,
    Values,
)

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


def _refused() -> None:
    raise ReplyError("no number")


class Hostile(CaptionMetric):
    """Returns or raises what the caption names."""

    name = "hostile"
    outputs = (MetricOutput("hostile"),)
    settings: Mapping[str, str] = {"version": "1"}

    async def score_caption(self, item: Item) -> Any:
        returned: dict[str, Callable[[], Any]] = {
            "not finite": lambda: Values({"hostile": float("nan")}),
            "text": lambda: Values({"hostile": "1"}),  # type: ignore[dict-item]
            "endless": lambda: Values({"hostile": 10**5000}),
            "surrogate": lambda: NoValues("\ud800"),
            "reply": _refused,
            "another output": lambda: Values({"another": 1.0}),
            "bug": lambda: vars(item)["no\nsuch key"],
        }
        return returned.get(item.caption, lambda: Values({"hostile": 0.5}))()


class Unmade(Letters):
    """Cannot be made."""

    name = "unmade"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        raise RuntimeError("no weights")
