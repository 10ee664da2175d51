"""Drafts of annotations, exports of annotators, and which existing work may be replaced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from capeval.errors import InputError, UsageError
from capeval.files.jsonl import numbered_lines, write_atomic
from capeval.files.judgments import short_hash
from capeval.files.reading import parse_json, read_text
from capeval.files.validation import validated
from capeval.schema import Characteristic, ElementType
from capeval.schema.annotation import Sentence, Weight
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
    reviewers : the annotators whose pages have the video
    exported : when the annotator exported it, in ISO 8601 and UTC
    adjudicates : the two annotators between whose versions `annotator` decided
    """

    index: Sentence
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
    return {
        index: validated(Draft, line, file=file, where=f"index {shown(index)}")
        for index, line in stored_lines(file).items()
        if "reason" not in line
    }


def read_exports(files: Iterable[Path]) -> list[tuple[Path, Draft]]:
    """Return the newest export of each annotator for each video, with its file.

    Raises
    ------
    InputError
        A file is not an export, or two exports of one time differ.
    """
    newest: dict[tuple[str, str | None, bool], tuple[Path, Draft]] = {}
    for file in files:
        for draft in _read_export(file):
            key = (draft.index, draft.annotator, bool(draft.adjudicates))
            _, other = newest.setdefault(key, (file, draft))
            if draft.exported > other.exported:
                newest[key] = file, draft
            elif draft.exported == other.exported and draft != other:
                message = f"another file has a different version of {draft.annotator}"
                raise InputError(message, file=file, where=f"index {shown(draft.index)}")
    return [*newest.values()]


def _read_export(file: Path) -> tuple[Draft, ...]:
    value = parse_json(read_text(file), file=file)
    if not isinstance(value, list):
        raise InputError("must be the JSON that a review page exports", file=file)
    found = tuple(
        validated(Draft, one, file=file, where=f"video {number}")
        for number, one in enumerate(value, start=1)
    )
    for draft in found:
        if draft.annotator is None or not draft.exported:
            where = f"index {shown(draft.index)}"
            raise InputError("has no annotator or time; export it again", file=file, where=where)
    return found


# ---- Which existing work may be replaced -------------------------------------------------------


def stored_lines(file: Path) -> dict[str, Line]:
    """Return the lines of a file by index; a failure does not replace an earlier success."""
    found: dict[str, Line] = {}
    for number, line in numbered_lines(file):
        if not isinstance(index := line.get("index"), str):
            raise InputError("must be a text", file=file, where=f"line {number}", field="index")
        if "reason" not in line or "reason" in found.get(index, line):
            found[index] = line
    return found


def sealed(line: Line) -> Line:
    """Return a line with a hash of its values, which shows later whether a person edited it."""
    return {**line, "hash": short_hash(line)}


def is_edited(line: Line) -> bool:
    """Return whether a person wrote or edited a line."""
    return line.get("hash") != short_hash({k: v for k, v in line.items() if k != "hash"})


def check_unedited(file: Path, *, force: bool | None = None) -> None:
    """Raise `UsageError` if a person edited what `write_sealed` wrote, or wrote it.

    With `force` it may be replaced; None if the command has no such option.
    """
    if file.exists() and not force:
        seal = _seal(file)
        if not seal.exists() or read_text(seal) != short_hash(read_text(file)):
            how = "rename it" if force is None else "rename it, or replace it with --force"
            raise UsageError(f"{file} was edited, or not written by this command; {how}")


def write_sealed(file: Path, text: str) -> None:
    """Write a file, and beside it the hash that `check_unedited` reads."""
    write_atomic(file, text)
    write_atomic(_seal(file), short_hash(text))


def _seal(file: Path) -> Path:
    return file.with_name(f".{file.name}.hash")
