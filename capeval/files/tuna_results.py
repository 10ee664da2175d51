"""The result files of the TUNA repository (three stages), read and written as judgments.

A list of `{"index", "candidate_caption", "candidate_events", "match_ids": [[candidate, reference
or null]], "relationship": [{"candidate_event", "visual_elements": [{"content",
"relationship"}]}]}`: events are matched by position, elements by their normalised content.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError

from capeval.errors import InputError, ReplyError
from capeval.files.judgments import unknown_video
from capeval.files.label_matching import match_labels, read_relation
from capeval.files.reading import json_records
from capeval.schema import Annotation, Judgment, Provenance, Relation, Scored, Unscored, lacking
from capeval.schema.annotation import id_text
from capeval.text import complaint, shown

_PROVENANCE = Provenance(judge="tuna-results")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Element(_Part):
    content: StrictStr
    relationship: Any


class _Event(_Part):
    visual_elements: tuple[_Element, ...]


class _Result(_Part):
    candidate_events: tuple[StrictStr, ...]
    match_ids: tuple[
        tuple[StrictInt, Annotated[StrictInt, Field(ge=1)] | Literal["None", "null"] | None], ...
    ]
    relationship: tuple[_Event, ...]


def load_tuna_results(
    path: Path, annotations: Sequence[Annotation], *, ignore_unknown: bool = False
) -> list[Judgment]:
    """Return one judgment per record; a record that contradicts its annotation is unscored."""
    known = {annotation.index: annotation for annotation in annotations}
    result: dict[str, Judgment] = {}
    for place, value in json_records(path):
        index = id_text(value.get("index")) if isinstance(value, dict) else None
        if not isinstance(index, str):
            raise InputError("is missing or not a string", file=path, where=place, field="index")
        if index in result:
            raise InputError("is duplicated", file=path, where=f"index {shown(index)}")
        if index in known:
            result[index] = _judgment(value, known[index])
        elif not ignore_unknown:
            raise unknown_video(index, known, file=path)
    return list(result.values())


def tuna_result(annotation: Annotation, caption: str, judged: Scored) -> dict[str, Any]:
    """Return the record of a judgment of one repeat, as the TUNA repository's script writes it."""
    matched = [*zip(judged.candidate_events, judged.matches, strict=True)]
    events = enumerate(zip(annotation.events, judged.relations, strict=True), start=1)
    return {
        "index": annotation.index,
        "candidate_caption": caption,
        "candidate_events": [*judged.candidate_events],
        "match_ids": [[n, match] for n, (_, match) in enumerate(matched, start=1)],
        "relationship": [
            {
                "candidate_event": " ".join(text for text, match in matched if match == number),
                "visual_elements": [
                    {"content": element.content, "relationship": relation}
                    for element, relation in zip(event.visual_elements, relations, strict=True)
                ],
            }
            for number, (event, relations) in events
        ],
    }


def _judgment(value: dict[str, Any], annotation: Annotation) -> Judgment:
    try:
        stored = _Result.model_validate(value)
        notes: list[str] = []
        matches = _matches(stored, len(annotation.events))
        numbers = [number for number in matches if number is not None]
        if numbers != sorted(numbers):
            notes.append("match: the matches go back in time; scored as they were judged")
        return Scored(
            index=annotation.index,
            candidate_events=stored.candidate_events,
            matches=matches,
            relations=_relations(stored, annotation, matches, notes),
            notes=tuple(notes),
            provenance=_PROVENANCE,
        )
    except ValidationError as faults:
        place = ".".join(map(str, faults.errors(include_url=False)[0]["loc"]))
        reason = f"{place}: {complaint(faults)[1]}"
    except ReplyError as error:
        reason = str(error)
    return Unscored(index=annotation.index, reason=reason, provenance=_PROVENANCE)


def _matches(stored: _Result, references: int) -> tuple[int | None, ...]:
    expected = list(range(1, len(stored.candidate_events) + 1))
    if [candidate for candidate, _ in stored.match_ids] != expected:
        raise ReplyError(f"match_ids do not name the {len(expected)} candidate events in order")
    matches = tuple(r if isinstance(r, int) else None for _, r in stored.match_ids)
    for number in matches:
        if number is not None and number > references:
            raise ReplyError(f"match_ids name reference event {number} of {references}")
    return matches


def _relations(
    stored: _Result,
    annotation: Annotation,
    matches: Sequence[int | None],
    notes: list[str],
) -> tuple[tuple[Relation, ...], ...]:
    if len(stored.relationship) != len(annotation.events):
        raise ReplyError(
            f"relationship has {len(stored.relationship)} events, "
            f"the annotation {len(annotation.events)}"
        )
    relations = []
    pairs = zip(annotation.events, stored.relationship, strict=True)
    for number, (event, judged) in enumerate(pairs, start=1):
        labels = [
            (element.content, read_relation(element.relationship, f"event {number}"))
            for element in judged.visual_elements
        ]
        contents = [element.content for element in event.visual_elements]
        labelled = match_labels(contents, labels, f"event {number}", notes)
        if number not in matches and set(labelled) != {"lack"}:
            notes.append(f"classify: event {number} has no match, so it lacks every element")
            labelled = lacking(event)
        relations.append(labelled)
    return tuple(relations)
