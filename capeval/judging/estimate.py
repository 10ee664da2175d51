"""What judging is expected to cost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import cast

from capeval.errors import CacheMiss, CapevalError
from capeval.judging.contracts import EventToClassify, PromptSet, Stage, contract_of
from capeval.judging.protocol import Tally
from capeval.judging.segments import size
from capeval.judging.selection import OpenJudge
from capeval.schema import Annotation, Caption, Usage

_STAGES: tuple[Stage, ...] = ("split", "match", "classify")

# Of `segments.size`. English prose has about four characters a token, and 25 words an event.
_CHARACTERS = 4
_EVENT_CHARACTERS = 150


@dataclass
class JudgingEstimate:
    """Calls, tokens and US dollars that are expected; `cost` is None without a price."""

    captions: int = 0
    stages: dict[Stage, Usage] = field(default_factory=dict)
    cost: float | None = None

    def __add__(self, other: JudgingEstimate) -> JudgingEstimate:
        stages = {
            stage: self.stages.get(stage, Usage()) + other.stages.get(stage, Usage())
            for stage in _STAGES
            if stage in self.stages or stage in other.stages
        }
        cost = None if self.cost is None or other.cost is None else self.cost + other.cost
        return JudgingEstimate(self.captions + other.captions, stages, cost)

    @property
    def usage(self) -> Usage:
        """All stages together."""
        return sum(self.stages.values(), Usage())


async def estimate(
    work: Sequence[tuple[Annotation, Caption]],
    opened: OpenJudge,
    *,
    repeats: int,
    done: Mapping[str, int] = MappingProxyType({}),
) -> JudgingEstimate:
    """Return the expected cost of judging `work`, without making a call.

    `done` are the repeats of a video that are stored already.
    """
    result = JudgingEstimate(captions=len(work))
    if opened.offline is None or opened.prompts is None:
        result.cost = 0.0
        return result
    stages = dict.fromkeys(_STAGES, Usage())
    for annotation, caption in work:
        await asyncio.sleep(0)  # Ctrl-C is noticed between captions
        for repeat in range(done.get(caption.index, 0), 0 if caption.is_empty else repeats):
            tally = Tally()
            try:
                await opened.offline.judge(annotation, caption.caption, repeat=repeat, tally=tally)
            except CacheMiss:
                expected = _expected(annotation, caption.caption, opened.prompts)
                for stage in _STAGES[_STAGES.index(cast(Stage, tally.stage)) :]:
                    stages[stage] += expected[stage]
            except CapevalError:
                # A stored failure: its cost is unknown, and it is requested again anyway.
                continue
    result.stages = {stage: usage for stage, usage in stages.items() if usage.calls}
    result.cost = opened.meter.cost(opened.judge.name, result.usage)
    return result


def _expected(annotation: Annotation, caption: str, prompts: PromptSet) -> dict[Stage, Usage]:
    contract = contract_of(prompts)
    references = [event.event for event in annotation.events]
    # As if the events of the caption were of one length and matched the reference events in order.
    events = _parts(caption, max(1, size(caption) // _EVENT_CHARACTERS))
    parts = [
        EventToClassify(number, text, tuple(element.content for element in event.visual_elements))
        for number, (text, event) in enumerate(
            zip(_parts(caption, len(references)), annotation.events, strict=True), start=1
        )
    ]
    both = {
        "candidate_events": contract.show_events(events),
        "reference_events": contract.show_events(references),
    }
    # What the prompt shows, and how many items the reply lists.
    asked: dict[Stage, tuple[dict[str, str], int]] = {
        "split": ({"caption": contract.show_caption(caption)}, len(events)),
        "match": (both, len(events)),
        "classify": ({"match_data": contract.show_parts(parts)}, annotation.element_count),
    }
    return {
        stage: Usage(
            calls=1,
            input_tokens=_tokens(prompts.render(stage, data)),
            output_tokens=contract.reply_tokens(stage, items),
        )
        for stage, (data, items) in asked.items()
    }


def _tokens(text: str) -> int:
    return size(text) // _CHARACTERS


def _parts(text: str, count: int) -> list[str]:
    """Return a text in parts of one length."""
    edges = [len(text) * number // count for number in range(count + 1)]
    return [text[start:end] for start, end in pairwise(edges)]
