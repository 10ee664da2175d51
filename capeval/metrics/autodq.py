"""AutoDQ, the metric of DREAM-1K (Wang et al. 2024, "Tarsier"): precision and recall of events.

Recall is the share of the reference's events that the caption entails, precision the share of the
caption's events that the reference entails. docs/metrics-autodq.md lists what differs from the
authors' code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from capeval.files.packaged import prompts_label
from capeval.llm.types import ReplyBroken, ReplyRefused
from capeval.metrics.autodq_replies import (
    ANSWER_TOKENS,
    EVENT_TOKENS,
    PROMPTS,
    Label,
    extracting,
    judging,
    read_events,
    read_relations,
)
from capeval.metrics.chat_metric import Asked, ChatMetric
from capeval.metrics.protocol import Context, Item, Output, Scored, Summary
from capeval.schema import Usage

PRECISION, RECALL, F1 = "autodq-precision", "autodq-recall", "autodq-f1"

# DREAM-1K's references have 6.3 events on average.
_EXPECTED_EVENTS = 6
_UNSAID: Label = "neutral"
"""What an empty caption is to every event."""

_NO_EVENTS = {PRECISION: "the caption has no events", RECALL: "the reference has no events"}
UNGROUPED = "(no group)"
"""Where only some videos have a group, the group of the others."""


class AutoDQ(ChatMetric):
    """AutoDQ: precision, recall and F1 of events, each a fraction.

    F1 of a caption is the harmonic mean of its precision and recall, and 0 where both are 0. F1 of
    all captions is computed from the averaged precision and recall, and is not the mean of theirs.

    An empty caption has recall and F1 0, and no precision; the model is not asked about it.
    """

    name = "autodq"
    outputs = (Output(PRECISION), Output(RECALL), Output(F1))

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._one_if_none = context.options.upstream_empties
        self.settings = {
            "version": "1",
            "prompts": prompts_label(PROMPTS),
            "no-events": "upstream" if self._one_if_none else "undefined",
            "empty-caption": "0",
            "case": "lower",
            "repeats": "once",
            "references": "joined",
            "failures": "unscored",
            "judge": self.chat.identity,
        }
        self._failed: dict[str, ReplyBroken | ReplyRefused] = {}
        self._first: dict[str, str] = {}

    async def ask_about(self, item: Item, asked: Asked) -> Scored:
        """Return precision, recall and F1, with the events and their relations in the details."""
        reference, caption = _text(item.references), _text([item.caption])
        listed = listed_events(item)
        if listed is None:
            listed = await self._reference_events(reference, asked)
        events: tuple[str, ...] = ()
        recalled = (_UNSAID,) * len(listed)
        if not item.is_empty:
            question = extracting("caption's events", caption)
            events = await self.ask(question, partial(read_events, stage=question.stage), asked)
            recalled = await self._relations("recall", listed, caption, asked)
        precise = await self._relations("precision", events, reference, asked)
        values, undefined = self._values(precise, recalled, is_empty=item.is_empty)
        details = {
            "caption_events": [list(pair) for pair in zip(events, precise, strict=True)],
            "reference_events": [list(pair) for pair in zip(listed, recalled, strict=True)],
        }
        return Scored(values, undefined, details)

    async def _reference_events(self, reference: str, asked: Asked) -> tuple[str, ...]:
        # The same request for every caption of the video: it is paid for once. A failure is no
        # stored reply, and would be paid for again with each of them.
        if reference in self._failed:
            raise self._failed[reference]
        question = extracting("reference's events", reference)
        try:
            return await self.ask(question, partial(read_events, stage=question.stage), asked)
        except (ReplyBroken, ReplyRefused) as failure:
            self._failed[reference] = failure
            raise

    async def _relations(
        self, stage: str, events: Sequence[str], text: str, asked: Asked
    ) -> tuple[Label, ...]:
        if not events:
            return ()
        read = partial(read_relations, stage=stage, events=len(events))
        return await self.ask(judging(stage, events, text), read, asked)

    def _values(
        self, precise: Sequence[Label], recalled: Sequence[Label], *, is_empty: bool
    ) -> tuple[dict[str, float], dict[str, str]]:
        values: dict[str, float] = {}
        undefined: dict[str, str] = {}
        for name, labels in ((PRECISION, precise), (RECALL, recalled)):
            if labels:
                values[name] = labels.count("entailment") / len(labels)
            elif self._one_if_none:
                values[name] = 1.0
            else:
                undefined[name] = _NO_EVENTS[name]
        if len(values) == 2:
            values[F1] = harmonic_mean(values[PRECISION], values[RECALL])
        elif is_empty and RECALL in values:
            values[F1] = 0.0
        else:
            undefined[F1] = " and ".join(undefined.values())
        return values, undefined

    def summarise(self, scored: Sequence[tuple[Item, Scored]]) -> Mapping[str, Summary]:
        """Return precision and recall averaged within groups and then over them, and their F1."""
        precision, recall = (_averaged(name, scored) for name in (PRECISION, RECALL))
        return {PRECISION: precision, RECALL: recall, F1: _f1_of(precision, recall, scored)}

    def expected(self, item: Item) -> Usage:
        """Return the calls and tokens, with the reference's events once for all its captions."""
        reference, caption = _text(item.references), _text([item.caption])
        listed, usage = listed_events(item), Usage()
        if listed is None:
            listed = _guessed()
            if self._first.setdefault(reference, item.key) == item.key:
                usage += extracting("", reference).expected(EVENT_TOKENS * len(listed))
        if item.is_empty:
            return usage
        usage += extracting("", caption).expected(EVENT_TOKENS * _EXPECTED_EVENTS)
        for events, text in ((listed, caption), (_guessed(), reference)):
            if events:
                usage += judging("", events, text).expected(ANSWER_TOKENS * len(events))
        return usage


def listed_events(item: Item) -> tuple[str, ...] | None:
    """Return the events that the data list, or None where they are to be extracted.

    TUNA's annotated events are passages with camera and scene, and not what AutoDQ calls events.
    """
    return None if item.annotation is not None else item.events


def harmonic_mean(precision: float, recall: float) -> float:
    """Return F1, 0 where both are 0.

    >>> harmonic_mean(0.5, 1.0), harmonic_mean(0, 0)
    (0.6666666666666666, 0.0)
    """
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


def _text(texts: Sequence[str]) -> str:
    """Return the text that is sent: in lower case, as the authors' code sends it."""
    return "\n".join(texts).lower()


def _guessed() -> tuple[str, ...]:
    return ("a person in the video does something",) * _EXPECTED_EVENTS


def _averaged(name: str, scored: Sequence[tuple[Item, Scored]]) -> Summary:
    groups: dict[str | None, list[float]] = {}
    for item, one in scored:
        if name in one.values:
            groups.setdefault(item.group, []).append(one.values[name])
    undefined = sum(name in one.undefined for _, one in scored)
    if not groups:
        return Summary(None, 0, undefined, "no caption has a value")
    means = {group: sum(values) / len(values) for group, values in groups.items()}
    shown = {UNGROUPED if group is None else group: mean for group, mean in sorted_by_name(means)}
    return Summary(
        sum(means.values()) / len(means),
        sum(map(len, groups.values())),
        undefined,
        groups={} if [*means] == [None] else shown,
    )


def sorted_by_name(means: Mapping[str | None, float]) -> list[tuple[str | None, float]]:
    """Return means by the name of their group; those without a group are last."""
    return sorted(means.items(), key=lambda pair: (pair[0] is None, pair[0] or ""))


def _f1_of(precision: Summary, recall: Summary, scored: Sequence[tuple[Item, Scored]]) -> Summary:
    n = sum(bool({PRECISION, RECALL} & one.values.keys()) for _, one in scored)
    if precision.value is None or recall.value is None:
        missing = "precision" if precision.value is None else "recall"
        return Summary(None, n, len(scored) - n, f"there is no {missing}")
    both = [group for group in precision.groups if group in recall.groups]
    groups = {group: harmonic_mean(precision.groups[group], recall.groups[group]) for group in both}
    value = harmonic_mean(precision.value, recall.value)
    return Summary(value, n, len(scored) - n, groups=groups)


__all__ = ["F1", "PRECISION", "RECALL", "AutoDQ", "harmonic_mean", "listed_events"]
