"""Annotations in the making: drafts of a model, blank pages, and what annotators made of them."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from capeval.errors import InputError
from capeval.files.jsonl import whole_lines
from capeval.files.reading import parse_json, read_text
from capeval.files.validation import validated
from capeval.schema import Characteristic, ElementType
from capeval.schema.annotation import Sentence, Weight
from capeval.schema.ids import Id
from capeval.text import counted, shown

DRAFTS = "drafts.jsonl"
"""The drafts of a folder of videos, one a line."""

DOMAINS = (
    *("Film", "Daily Life", "Cooking", "Sports Activity", "Driving", "Animals & Pets"),
    *("Natural Landscape", "Cityscape", "Urban Activity", "Foods", "Plants", "Autos & Vehicles"),
)
"""The domains of TUNA-1K (appendix A.1)."""


Place = tuple[int, int]
"""An event and an element of it, both from 0."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class DraftElement(_Part):
    """A visual element; `source` is the model or annotator that wrote it.

    `other` is what the second of two annotators wrote in its place, where they differ.
    """

    content: Sentence
    type: ElementType
    weight: Weight
    source: str
    confirmed_by: tuple[str, ...] = ()
    other: DraftElement | None = None

    @property
    def claim(self) -> tuple[str, ElementType, int]:
        """What it states, whoever wrote it."""
        return self.content, self.type, self.weight


class DraftEvent(_Part):
    """An event; `start` is in seconds.

    `other` is the sentence of the second of two annotators, where they differ.
    """

    event: str
    start: float | None = Field(None, ge=0)
    other: str | None = None
    visual_elements: tuple[DraftElement, ...]


class Draft(_Part):
    """The annotation of one video as far as it is made.

    Attributes
    ----------
    drafted_by : the models that wrote its caption, its events and its elements
    annotator : who reviewed it; None for a draft
    adjudicates : the two annotators between whose versions `annotator` decided
    """

    index: Id
    video: str
    visual_characteristic: tuple[Characteristic, ...] = ()
    domain: str | None = None
    drafted_by: tuple[str, ...] = ()
    annotator: str | None = None
    adjudicates: tuple[str, ...] = ()
    comment: str = ""
    events: tuple[DraftEvent, ...] = ()

    @property
    def elements(self) -> list[DraftElement]:
        """The elements of all events, in order."""
        return [element for event in self.events for element in event.visual_elements]

    def element(self, place: Place) -> DraftElement:
        """Return the element at a place."""
        event, element = place
        return self.events[event].visual_elements[element]

    @property
    def open(self) -> list[str]:
        """What is still to be done before it is an annotation."""
        unconfirmed = sum(not element.confirmed_by for element in self.elements)
        dynamic = {"Low-Dynamic", "High-Dynamic"} & {*self.visual_characteristic}
        found = {
            "no events": not self.events,
            "an event without a sentence": any(not one.event.strip() for one in self.events),
            "an event without elements": any(not one.visual_elements for one in self.events),
            "two sentences of an event": any(one.other is not None for one in self.events),
            counted(unconfirmed, "unconfirmed element"): unconfirmed > 0,
            "neither Low- nor High-Dynamic, or both": len(dynamic) != 1,
            "no domain": not self.domain,
        }
        return [what for what, is_so in found.items() if is_so]


def read_drafts(folder: Path) -> dict[str, Draft]:
    """Return the drafts of a folder of videos by index; lines that failed are left out."""
    file = folder / DRAFTS
    drafts = [
        validated(Draft, line, file=file, where=f"index {shown(line.get('index'))}")
        for line in whole_lines(file)
        if "reason" not in line
    ]
    return {draft.index: draft for draft in drafts}


def read_reviewed(file: Path) -> tuple[Draft, ...]:
    """Return what an annotator exported from a page; raises `InputError`."""
    value = parse_json(read_text(file), file=file)
    if not isinstance(value, list):
        raise InputError("must be the JSON that a review page exports", file=file)
    found = tuple(
        validated(Draft, one, file=file, where=f"video {number}")
        for number, one in enumerate(value, start=1)
    )
    for draft in found:
        if draft.annotator is None:
            where = f"index {shown(draft.index)}"
            raise InputError("has no annotator; export it again", file=file, where=where)
    return found
