"""Annotated videos: events in chronological order, each with its visual elements (TUNA, 3.1)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from itertools import chain
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic.dataclasses import dataclass


def id_text(value: Any) -> Any:
    """Return an id as text in the Unicode form NFC; other values are returned unchanged.

    A whole number is its digits: parquet and pandas store 12 as 12.0 where a cell is empty.

    >>> id_text(12), id_text(12.0), id_text("e\\u0301") == "\\xe9", id_text(1.5), id_text(True)
    ('12', '12', True, 1.5, True)
    """
    if type(value) is int or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    return unicodedata.normalize("NFC", value) if isinstance(value, str) else value


Id = Annotated[str, StringConstraints(strict=True, pattern=r"\S"), BeforeValidator(id_text)]
"""An id in a user's file: text that is not blank, or a whole number."""


ElementType = Literal["camera", "scene", "action", "attribute"]
ELEMENT_TYPES: tuple[ElementType, ...] = get_args(ElementType)

Characteristic = Literal["Low-Dynamic", "High-Dynamic", "Multi-Scene", "Multi-Subject"]
CHARACTERISTICS: tuple[Characteristic, ...] = get_args(Characteristic)

Weight = Literal[1, 2, 3]

Sentence = Annotated[str, StringConstraints(strict=True, pattern=r"\S")]


def _as_list(value: Any) -> Any:
    # Published as "A,B" or "A, B"; a user's own data may have a list or nothing.
    if value is None:
        return []
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def element_ids(sizes: Iterable[int]) -> list[str]:
    """Return the ids of a video's elements, given how many each event has.

    >>> element_ids([2, 1])
    ['1.1', '1.2', '2.1']
    """
    return [f"{event}.{n}" for event, size in enumerate(sizes, 1) for n in range(1, size + 1)]


# A set has twenty of them for each video: without slots, they would be four fifths of its memory.
@dataclass(frozen=True, slots=True, kw_only=True)
class VisualElement:
    """One atomic statement about the video, with its type and its weight (3 = main and salient)."""

    content: Sentence
    type: ElementType
    weight: Weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event: its sentence(s) and its visual elements; `start` is in seconds, where known."""

    event: Sentence
    start: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None
    visual_elements: Annotated[tuple[VisualElement, ...], Field(min_length=1)]


class Video(BaseModel):
    """A video to caption; `question` is the prompt for the captioner, if the data have one."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    index: Id
    video: Annotated[str | None, BeforeValidator(id_text)] = None
    question: str | None = None


class Annotation(Video):
    """One annotated video.

    `visual_characteristic` and `domain` may be absent in a user's own data. `drafted_by` are the
    models whose drafts the annotation was made from, or which chose the video.
    """

    visual_characteristic: Annotated[tuple[Characteristic, ...], BeforeValidator(_as_list)] = ()
    domain: str | None = None
    drafted_by: tuple[str, ...] = ()
    events: tuple[Event, ...] = Field(min_length=1)

    def __hash__(self) -> int:
        """Hash the index alone: what depends on a set is cached by its annotations."""
        return hash(self.index)

    @property
    def elements(self) -> dict[str, VisualElement]:
        """The visual elements by id (EVENT.ELEMENT, both from 1), in order."""
        elements = chain.from_iterable(event.visual_elements for event in self.events)
        return dict(zip(element_ids(self.sizes), elements, strict=True))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of visual elements of each event."""
        return tuple(len(event.visual_elements) for event in self.events)

    @property
    def element_count(self) -> int:
        return sum(self.sizes)
