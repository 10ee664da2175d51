"""Drafts of annotations, exports of annotators, and which existing work may be replaced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from capeval.errors import InputError, UsageError
from capeval.files.jsonl import (
    parse_json,
    read_text,
    short_hash,
    validated,
    whole_lines,
    write_atomic,
)
from capeval.schema import Characteristic, ElementType
from capeval.schema.annotation import Id, Sentence, Weight, id_text
from capeval.text import counted, shown

DRAFTS = "drafts.jsonl"
"""The drafts of a folder of videos, one a line."""

Line = Mapping[str, Any]
"""A line of a file of drafts or checks."""


DOMAINS = (
    *("Film", "Daily Life", "Cooking", "Sports Activity", "Driving", "Animals & Pets"),
    *("Natural Landscape", "Cityscape", "Urban Activity", "Foods", "Plants", "Autos & Vehicles"),
)
"""The domains of TUNA-1K (appendix A.1)."""


Place = tuple[int, int]
"""An event and an element of it, both from 0."""


class _DraftPart(BaseModel):
    model_config = ConfigDict(frozen=True)


class DraftElement(_DraftPart):
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
        return self.content, self.type, self.weight


class DraftEvent(_DraftPart):
    """An event; `start` is in seconds.

    `other` is the sentence of the second of two annotators, where they differ.
    """

    event: str
    start: float | None = Field(None, ge=0)
    other: str | None = None
    visual_elements: tuple[DraftElement, ...]


class Draft(_DraftPart):
    """The annotation of one video as far as it is made.

    Attributes
    ----------
    drafted_by : the models that wrote its caption, its events and its elements
    annotator : who reviewed it; None for a draft
    reviewers : the annotators whose pages have the video
    exported : when the annotator exported it, in ISO 8601 and UTC
    adjudicates : the two annotators between whose versions `annotator` decided
    """

    index: Id
    video: str
    visual_characteristic: tuple[Characteristic, ...] = ()
    domain: str | None = None
    drafted_by: tuple[str, ...] = ()
    annotator: str | None = None
    reviewers: tuple[str, ...] = ()
    exported: str = ""
    adjudicates: tuple[str, ...] = ()
    comment: str = ""
    events: tuple[DraftEvent, ...] = ()

    @property
    def elements(self) -> list[DraftElement]:
        return [element for event in self.events for element in event.visual_elements]

    def element(self, place: Place) -> DraftElement:
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
    lines = {index: line for index, line in stored_lines(file).items() if "reason" not in line}
    return {
        index: validated(Draft, line, file=file, where=f"index {shown(index)}")
        for index, line in lines.items()
    }


def read_exports(files: Iterable[Path]) -> list[tuple[Path, Draft]]:
    """Return each annotator's newest export of each video, with its file; raises `InputError`."""
    newest: dict[tuple[str, str, bool], tuple[Path, Draft]] = {}
    for file in files:
        value = parse_json(read_text(file), file=file)
        if not isinstance(value, list):
            raise InputError("must be the JSON that a review page exports", file=file)
        for number, one in enumerate(value, start=1):
            draft = validated(Draft, one, file=file, where=f"video {number}")
            where = f"index {shown(draft.index)}"
            if draft.annotator is None or not draft.exported:
                message = "has no annotator or time; export it again"
                raise InputError(message, file=file, where=where)
            key = (draft.index, draft.annotator, bool(draft.adjudicates))
            _, other = newest.setdefault(key, (file, draft))
            if draft.exported == other.exported and draft != other:
                message = f"another file has a different version of {draft.annotator}"
                raise InputError(message, file=file, where=where)
            if draft.exported > other.exported:
                newest[key] = file, draft
    return [*newest.values()]


# ---- Which existing work may be replaced -------------------------------------------------------


def stored_lines(file: Path) -> dict[str, Line]:
    """Return the lines of a file by index; a failure does not replace an earlier success."""
    found: dict[str, Line] = {}
    for line in whole_lines(file):
        index = str(id_text(line.get("index")))
        if "reason" not in line or "reason" in found.get(index, line):
            found[index] = line
    return found


def is_edited(line: Line) -> bool:
    """Return whether a person wrote or edited a line: its `hash` is of other values, or absent."""
    return line.get("hash") != short_hash({k: v for k, v in line.items() if k != "hash"})


def check_unedited(file: Path, *, force: bool | None = None) -> None:
    """Raise `UsageError` if a person edited a file since `seal`; None is a command without --force.

    A file without a seal counts as edited.
    """
    if file.exists() and not force:
        sealed, found = _seal_of(file)
        if not sealed.exists() or sealed.read_text("utf-8") != found:
            how = "rename it" if force is None else "rename it, or replace it with --force"
            raise UsageError(f"{file} was edited, or not written by this command; {how}")


def seal(file: Path) -> None:
    """Write the hash of a finished file beside it."""
    write_atomic(*_seal_of(file))


def _seal_of(file: Path) -> tuple[Path, str]:
    return file.with_name(f".{file.name}.hash"), short_hash(file.read_bytes().hex())
