"""The two questions of AutoDQ and what the model may reply: events, and one relation for each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, Literal

from capeval.errors import ReplyError
from capeval.files.packaged import tag_free_json
from capeval.llm.replies import (
    COUNT,
    TEXT,
    Number,
    ReplyForm,
    array_of,
    each_once,
    in_form,
    object_of,
)
from capeval.llm.types import ReplySchema
from capeval.metrics.chat_metric import Question
from capeval.text import counted, normal_form, shown, storable

PROMPTS = "autodq-v1"
EXTRACT, ENTAIL = "extract", "entail"
"""The templates, each with its call."""

Label = Literal["entailment", "neutral", "contradiction"]
LABELS: Final[tuple[Label, ...]] = ("entailment", "neutral", "contradiction")

MOST_EVENTS = 10
"""As many events the prompt asks for; more are counted, and noted."""

_EVENTS = ReplySchema("events", object_of(events=array_of(TEXT)))
_RELATION = object_of(id=COUNT, relation={"type": "string", "enum": list(LABELS)})
_RELATIONS = ReplySchema("relations", object_of(events=array_of(_RELATION)))


class _EventsForm(ReplyForm):
    events: list[str]


class _RelationForm(ReplyForm):
    id: Number
    relation: str


class _RelationsForm(ReplyForm):
    events: list[_RelationForm]


_WORD = re.compile(r"[^\W_]")

# Of an event of ten words with its quotes, and of an answer with its keys.
EVENT_TOKENS, ANSWER_TOKENS = 14, 14
# Far more than ten events: a model in a loop is cut off.
_MOST_EXTRACTED_TOKENS = 1024


def extracting(stage: str, text: str) -> Question:
    """Return the question for the events of a description."""
    return Question(
        stage,
        PROMPTS,
        EXTRACT,
        {"description": tag_free_json(text)},
        _EVENTS,
        _MOST_EXTRACTED_TOKENS,
        (text,),
    )


def judging(stage: str, events: Sequence[str], text: str) -> Question:
    """Return the question which of some events a description entails: all of them in one call."""
    lines = (tag_free_json({"id": n, "event": one}) for n, one in enumerate(events, start=1))
    return Question(
        stage,
        PROMPTS,
        ENTAIL,
        {"description": tag_free_json(text), "events": "\n".join(lines)},
        _RELATIONS,
        256 + 3 * ANSWER_TOKENS * len(events),
        (text, *events),
    )


def read_events(value: Any, notes: list[str], stage: str) -> tuple[str, ...]:
    """Return the events of a reply, each once; raises `ReplyError`.

    >>> read_events({"events": ["A dog barks.", "a dog barks."]}, [], "events")
    ('A dog barks.',)
    """
    found: dict[str, str] = {}
    items = in_form(_EventsForm, value).events
    for item in items:
        if not _WORD.search(item):
            raise ReplyError(f"every event must be a sentence, not {shown(item)}")
        found.setdefault(" ".join(normal_form(item).casefold().split()), storable(item.strip()))
    if len(found) < len(items):
        notes.append(f"{stage}: {counted(len(items) - len(found), 'repeated event')} left out")
    if len(found) > MOST_EVENTS:
        notes.append(f"{stage}: {len(found)} events, where at most {MOST_EVENTS} were asked for")
    return tuple(found.values())


def read_relations(value: Any, notes: list[str], stage: str, events: int) -> tuple[Label, ...]:
    """Return the relation of each event, in their order; raises `ReplyError`."""
    answers = [(one.id, one.relation) for one in in_form(_RelationsForm, value).events]
    labels = enumerate(each_once(answers, events, "event"), start=1)
    return tuple(_label(label, stage, number, notes) for number, label in labels)


def _label(value: str, stage: str, number: int, notes: list[str]) -> Label:
    label = value.strip().lower()
    if label not in LABELS:
        raise ReplyError(
            f"event {number}: the relation must be one of {', '.join(LABELS)}, not {shown(value)}"
        )
    if label != value:
        notes.append(f"{stage}: event {number}: the label {shown(value)} was read as {label}")
    return label
