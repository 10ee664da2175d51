"""AutoDQ, the metric of DREAM-1K (Wang et al. 2024, "Tarsier"): precision and recall of events.

Recall is the share of the reference's events that the caption entails, precision the share of the
caption's events that the reference entails. docs/metrics.md lists the differences from
the authors' code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from capeval.config import prompt_of, prompts_label
from capeval.llm.asker import Asked, ChatQuestion
from capeval.llm.replies import Number, ReplyForm, Words, each_once
from capeval.metrics.protocol import (
    ChatMetric,
    Context,
    Item,
    MetricOutput,
    Settings,
    Summary,
    Values,
    mean_of,
)
from capeval.schema import Usage
from capeval.text import counted, normal_form, tag_free_json

PRECISION, RECALL, F1 = "autodq-precision", "autodq-recall", "autodq-f1"
PROMPTS = "autodq-v1"

Label = Literal["entailment", "neutral", "contradiction"]
_NO_EVENTS = {PRECISION: "the caption has no events", RECALL: "the reference has no events"}
UNGROUPED = "(no group)"
"""The group of videos without a group, if others have one."""

# The maximum that the prompt asks for; further events are used too, with a note.
_MOST_EVENTS = 10
_MOST_EXTRACTED_TOKENS = 1024
_ANSWER_TOKENS = 14


class Events(ReplyForm):
    """The events of a text."""

    events: list[Words]


class Relation(ReplyForm):
    """Whether a text entails an event; `id` is its number from 1."""

    id: Number
    relation: Label


class Relations(ReplyForm):
    """The relations of all requested events."""

    events: list[Relation]


class AutoDQSettings(Settings):
    """Whether a text without events counts 1.0, as in the authors' code, or is undefined."""

    upstream_empties: bool = False


class AutoDQ(ChatMetric):
    """AutoDQ: precision, recall and F1 of events, each a fraction.

    F1 of a caption is the harmonic mean of its precision and recall, and 0 where both are 0. F1 of
    all captions is computed from the averaged precision and recall; it is not the mean of F1.

    An empty caption has recall and F1 0, and no precision; the model is not asked about it.
    """

    name = "autodq"
    outputs = (MetricOutput(PRECISION), MetricOutput(RECALL), MetricOutput(F1))
    # Two calls extract events and two check them. The prompts have 209 and 161 tokens. DREAM-1K has
    # 6.3 events of 9 tokens for each video; each is written once (11 tokens with its quotes), sent
    # once with its number (17) and answered once (10).
    usual = Usage(calls=4, input_tokens=960, output_tokens=270)
    times_sent = 2
    form = AutoDQSettings
    chosen: AutoDQSettings

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.settings = {
            "version": "1",
            "prompts": prompts_label(PROMPTS),
            "no-events": "upstream" if self.chosen.upstream_empties else "undefined",
            "empty-caption": "0",
            "case": "lower",
            "repeats": "once",
            "references": "joined",
            "failures": "unscored",
            "judge": self.chat.identity,
        }

    async def ask_about(self, item: Item, asked: Asked) -> Values:
        reference, caption = _text(item.references), _text([item.caption])
        # TUNA's annotated events are whole passages, with camera and scene.
        listed = None if item.annotation is not None else item.events
        if listed is None:
            listed = await self._events("reference's events", reference, asked)
        events: tuple[str, ...] = ()
        # An empty caption entails and contradicts nothing.
        recalled: Sequence[Label] = ["neutral"] * len(listed)
        if not item.is_empty:
            events = await self._events("caption's events", caption, asked)
            recalled = await self._relations("recall", listed, caption, asked)
        precise = await self._relations("precision", events, reference, asked)
        values, undefined = self._values(precise, recalled, is_empty=item.is_empty)
        details = {
            "caption_events": [list(pair) for pair in zip(events, precise, strict=True)],
            "reference_events": [list(pair) for pair in zip(listed, recalled, strict=True)],
        }
        return Values(values, undefined, details)

    async def _events(self, stage: str, text: str, asked: Asked) -> tuple[str, ...]:
        prompt = prompt_of(PROMPTS, "extract", {"description": tag_free_json(text)})
        question = ChatQuestion(stage, prompt, Events, _MOST_EXTRACTED_TOKENS, (text,))
        items = await self.ask(question, asked, lambda reply: reply.events)
        found: dict[str, str] = {}
        for item in items:
            found.setdefault(" ".join(normal_form(item).casefold().split()), item)
        if len(found) < len(items):
            repeated = counted(len(items) - len(found), "repeated event")
            asked.notes.append(f"{stage}: {repeated} left out")
        if len(found) > _MOST_EVENTS:
            what = f"{len(found)} events, where at most {_MOST_EVENTS} were asked for"
            asked.notes.append(f"{stage}: {what}")
        return tuple(found.values())

    async def _relations(
        self, stage: str, events: Sequence[str], text: str, asked: Asked
    ) -> Sequence[Label]:
        if not events:
            return ()
        lines = (tag_free_json({"id": n, "event": one}) for n, one in enumerate(events, start=1))
        values = {"description": tag_free_json(text), "events": "\n".join(lines)}
        most = 256 + 3 * _ANSWER_TOKENS * len(events)
        prompt = prompt_of(PROMPTS, "entail", values)
        question = ChatQuestion(stage, prompt, Relations, most, (text, *events))

        def in_order(reply: Relations) -> Sequence[Label]:
            answers = [(one.id, one.relation) for one in reply.events]
            return each_once(answers, len(events), "event")

        return await self.ask(question, asked, in_order)

    def _values(
        self, precise: Sequence[Label], recalled: Sequence[Label], *, is_empty: bool
    ) -> tuple[dict[str, float], dict[str, str]]:
        values: dict[str, float] = {}
        undefined: dict[str, str] = {}
        for name, labels in ((PRECISION, precise), (RECALL, recalled)):
            if labels:
                values[name] = labels.count("entailment") / len(labels)
            elif self.chosen.upstream_empties:
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

    def summarise(self, scored: Sequence[tuple[Item, Values]]) -> Mapping[str, Summary]:
        """Return precision and recall averaged within groups and then over them, and their F1."""
        precision, recall = _averaged(PRECISION, scored), _averaged(RECALL, scored)
        return {PRECISION: precision, RECALL: recall, F1: _f1_of(precision, recall, scored)}


def harmonic_mean(precision: float, recall: float) -> float:
    """Return F1, 0 where both are 0.

    >>> harmonic_mean(0.5, 1.0), harmonic_mean(0, 0)
    (0.6666666666666666, 0.0)
    """
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


def _text(texts: Sequence[str]) -> str:
    """Return the text to send: in lower case, as in the authors' code."""
    return "\n".join(texts).lower()


def _averaged(name: str, scored: Sequence[tuple[Item, Values]]) -> Summary:
    whole = mean_of(name, scored)
    groups: dict[str | None, list[tuple[Item, Values]]] = {}
    for item, one in scored:
        groups.setdefault(item.group, []).append((item, one))
    means = {group: mean_of(name, of).value for group, of in groups.items()}
    known = {group or UNGROUPED: mean for group, mean in means.items() if mean is not None}
    if not {*known} - {UNGROUPED}:
        return whole
    named = sorted(known.items(), key=lambda pair: (pair[0] == UNGROUPED, pair[0]))
    return Summary(sum(known.values()) / len(known), whole.n, whole.undefined, groups=dict(named))


def _f1_of(precision: Summary, recall: Summary, scored: Sequence[tuple[Item, Values]]) -> Summary:
    n = sum(bool({PRECISION, RECALL} & one.values.keys()) for _, one in scored)
    if precision.value is None or recall.value is None:
        missing = "precision" if precision.value is None else "recall"
        return Summary(None, n, len(scored) - n, f"there is no {missing}")
    both = [group for group in precision.groups if group in recall.groups]
    groups = {group: harmonic_mean(precision.groups[group], recall.groups[group]) for group in both}
    value = harmonic_mean(precision.value, recall.value)
    return Summary(value, n, len(scored) - n, groups=groups)
