"""Verdicts in files: JSON lines of capeval, a table of elements, and TUNA's result files.

A table (CSV or parquet) has a row for each visual element. Its columns are not those of human
labels: a judge's verdicts must not be taken for them. A video without a verdict has no rows.

A result file of the TUNA repository (three stages) is a list of `{"index", "candidate_caption",
"candidate_events", "match_ids": [[candidate, reference or null]], "relationship":
[{"candidate_event", "visual_elements": [{"content", "relationship"}]}]}`: events are matched by
position, elements by their normalised content.
"""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    StrictStr,
    ValidationError,
)

from capeval.errors import InputError, ReplyError, needing
from capeval.files.jsonl import json_records, numbered_lines, short_hash, validated, write_jsonl
from capeval.files.tables import csv_of_rows, escape
from capeval.language import normalised
from capeval.schema import (
    JUDGMENT,
    RELATIONS,
    Annotation,
    Caption,
    Id,
    Judgment,
    Provenance,
    Relation,
    Scored,
    Unscored,
    flaw_of,
    lacking,
)
from capeval.text import complaint, nearest, shown, storable

# ---- JSON lines --------------------------------------------------------------------------------


def judgment_line(judgment: Judgment) -> dict[str, Any]:
    return judgment.model_dump(mode="json")


def unknown_video(index: str, known: Collection[str], *, file: Path) -> InputError:
    """Return the error about a verdict on a video that is not annotated."""
    return InputError(
        f"is not in the annotations{nearest(index, list(known))}; "
        "name the matching --annotations, or set ignore_unknown in capeval.toml to skip it",
        file=file,
        where=f"index {shown(index)}",
    )


def load_judgments(
    path: Path, data: bytes | None = None, *, in_run: bool = True
) -> dict[str, Judgment]:
    """Return the judgments by index; if a video has several lines, the last one is used.

    A video that was judged again has its newer line further down. Outside a run, two verdicts on a
    video are refused: they may be of two runs. `data` is the file's content, if that is known.
    """
    found: dict[str, Judgment] = {}
    for one in judgment_lines(path, data):
        if not in_run and isinstance(one, Scored) and isinstance(found.get(one.index), Scored):
            where = f"index {shown(one.index)}"
            raise InputError("has two verdicts; keep those of one run", file=path, where=where)
        found[one.index] = one
    return found


def judgment_lines(path: Path, data: bytes | None = None) -> Iterator[Judgment]:
    for _, value in numbered_lines(path, data):
        if isinstance(value, dict) and "status" not in value:
            raise InputError(
                "has no judgments (lines with a status); name a judgments.jsonl, a judged run, "
                "or a TUNA result file",
                file=path,
            )
        try:
            yield JUDGMENT.validate_python(value)
        except ValidationError as faults:
            index = value.get("index") if isinstance(value, dict) else value
            field, message = complaint(faults)
            raise InputError(
                message,
                file=path,
                where=f"index {shown(index)}",
                # The path of a field in a union begins with the name of the variant.
                field=re.sub(r"^(un)?scored(\.|$)", "", field),
            ) from None


def write_judgments(path: Path, judgments: Sequence[Judgment]) -> None:
    write_jsonl(path, map(judgment_line, judgments))


def caption_hash(text: str) -> str:
    return short_hash(text)


def caption_hashes(
    captions: Iterable[Caption], judgments: Iterable[Judgment] = ()
) -> dict[str, str]:
    """Return the hash of each video's caption, or else of the caption that was judged."""
    judged = {one.index: one.inputs.caption for one in judgments if one.inputs}
    return judged | {one.index: caption_hash(one.caption) for one in captions}


@lru_cache(maxsize=20_000)  # many runs are of one set
def reference_hash(annotation: Annotation) -> str:
    return short_hash(
        [[e.event, *(v.content for v in e.visual_elements)] for e in annotation.events]
    )


# ---- A table of elements -----------------------------------------------------------------------

TABLE_SUFFIXES = (".csv", ".parquet")


def element_rows(
    run: str, judged: Iterable[tuple[Annotation, Scored]]
) -> Iterator[dict[str, str | int]]:
    """Yield the verdict on each element: a row of the table.

    `candidate` are the caption's events that are matched to the element's event, one a line, and
    `unmatched` the caption's events without a match. With repeats, the relation is the majority's
    and the matches are the first repeat's.
    """
    for annotation, verdict in judged:
        made = verdict.provenance
        pairs = enumerate(zip(annotation.events, verdict.relations, strict=True), start=1)
        for number, (event, relations) in pairs:
            elements = enumerate(zip(event.visual_elements, relations, strict=True), start=1)
            for n, (element, relation) in elements:
                yield {
                    "index": annotation.index,
                    "run": storable(run),
                    "judge": made.judge,
                    "baseline": "yes" if made.is_baseline else "no",
                    "prompts": made.prompts or "",
                    "element_id": f"{number}.{n}",
                    "relation": relation,
                    "type": element.type,
                    "weight": element.weight,
                    "content": element.content,
                    "event": event.event,
                    "candidate": _events(verdict, number),
                    "unmatched": _events(verdict, None),
                }


def _events(verdict: Scored, number: int | None) -> str:
    pairs = zip(verdict.candidate_events, verdict.matches, strict=True)
    texts = (text.replace("\n", " ") or " " for text, match in pairs if match == number)
    return "\n".join(texts)


def table_bytes(rows: Iterable[dict[str, str | int]], suffix: str) -> bytes:
    """Return rows, at least one, as `.csv`, in which no cell is a formula, or `.parquet`.

    MissingExtra if that needs pyarrow, which is not installed.
    """
    found = [*rows]
    if suffix == ".csv":
        cells = ([escape(v) if isinstance(v, str) else v for v in row.values()] for row in found)
        # Without quotes, a carriage return in a cell would end its line.
        return csv_of_rows([*found[0]], cells, quoted=True).encode("utf-8")
    with needing("writing parquet needs pyarrow", "data"):
        import pyarrow
        from pyarrow import parquet
    sink = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(found), sink)
    return sink.getvalue()


# ---- Labels of elements by content -------------------------------------------------------------


def read_relation(value: Any, of: str) -> Relation:
    """Return a label of the closed set; case is ignored."""
    label = value.strip().strip(".'\"").lower() if isinstance(value, str) else value
    for relation in RELATIONS:
        if label == relation:
            return relation
    raise ReplyError(
        f"{of} has the relation {shown(value)}; it must be one of {', '.join(RELATIONS)}"
    )


def match_labels(
    elements: Sequence[str],
    labels: Sequence[tuple[str, Relation]],
    name: str,
    notes: list[str],
) -> tuple[Relation, ...]:
    """Return the label of each element, matched by content and not by position.

    Content may differ in case, punctuation and spaces where only one element can be meant.
    ReplyError if elements are missing, invented, or duplicated with different labels.
    """
    keys = [normalised(element) for element in elements]
    found: dict[int, Relation] = {}
    last: dict[str, Relation] = {}
    for content, relation in labels:
        key = normalised(content)
        alike = [place for place, other in enumerate(keys) if other == key]
        exact = [place for place in alike if elements[place].strip() == content.strip()]
        # "+5" and "-5" are equal when normalised: a content that is exactly neither is ambiguous.
        if not exact and len({elements[place].strip() for place in alike}) == 1:
            exact = alike
        place = next((place for place in exact if place not in found), None)
        if place is not None:
            found[place] = last[key] = relation
        elif key not in last:
            raise ReplyError(f"{name} has no visual element {shown(content)}; copy them exactly")
        elif last[key] != relation:
            raise ReplyError(f"{name}: the element {shown(content)} is answered twice, differently")
        else:
            notes.append(f"classify: {name}: an element was answered twice, alike")
    missing = [shown(element) for place, element in enumerate(elements) if place not in found]
    if missing:
        raise ReplyError(f"{name}: element(s) not answered: {', '.join(missing[:10])}")
    return tuple(found[place] for place in range(len(elements)))


# ---- The result files of the TUNA repository ---------------------------------------------------


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Element(_Part):
    content: StrictStr
    relationship: Any


class _Event(_Part):
    visual_elements: tuple[_Element, ...]


_Match = Annotated[
    Annotated[StrictInt, Field(ge=1)] | None,
    BeforeValidator(lambda value: None if value in ("None", "null") else value),
]


class _Result(_Part):
    candidate_events: tuple[StrictStr, ...]
    match_ids: tuple[tuple[StrictInt, _Match], ...]
    relationship: tuple[_Event, ...]


class _Indexed(_Part):
    index: Id


def load_tuna_results(
    path: Path, text: str, annotations: Sequence[Annotation], *, ignore_unknown: bool = False
) -> list[Judgment]:
    """Return one judgment per record; a record that contradicts its annotation is unscored.

    `text` is that of the file.
    """
    known = {annotation.index: annotation for annotation in annotations}
    result: dict[str, Judgment] = {}
    for place, value in json_records(path, text):
        index = validated(_Indexed, value, file=path, where=place).index
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
    made = Provenance(judge="tuna-results")
    try:
        stored = _Result.model_validate(value)
        numbers = [candidate for candidate, _ in stored.match_ids]
        if numbers != [*range(1, len(stored.candidate_events) + 1)]:
            raise ReplyError(f"match_ids do not name the {len(numbers)} candidate events in order")
        matches = tuple(reference for _, reference in stored.match_ids)
        notes: list[str] = []
        in_caption = [number for number in matches if number is not None]
        if in_caption != sorted(in_caption):
            notes.append("match: the matches go back in time; scored as they were judged")
        judged = Scored(
            index=annotation.index,
            candidate_events=stored.candidate_events,
            matches=matches,
            relations=tuple(_relations(stored, annotation, matches, notes)),
            notes=tuple(notes),
            provenance=made,
        )
        if not (reason := flaw_of(annotation, judged)):
            return judged
    except ValidationError as faults:
        reason = ": ".join(complaint(faults))
    except ReplyError as error:
        reason = str(error)
    return Unscored(index=annotation.index, reason=reason, provenance=made)


def _relations(
    stored: _Result, annotation: Annotation, matches: Sequence[int | None], notes: list[str]
) -> Iterator[tuple[Relation, ...]]:
    if len(stored.relationship) != len(annotation.events):
        raise ReplyError(
            f"relationship has {len(stored.relationship)} events, "
            f"the annotation {len(annotation.events)}"
        )
    pairs = zip(annotation.events, stored.relationship, strict=True)
    for number, (event, judged) in enumerate(pairs, start=1):
        name = f"event {number}"
        labels = [
            (one.content, read_relation(one.relationship, name)) for one in judged.visual_elements
        ]
        contents = [element.content for element in event.visual_elements]
        labelled = match_labels(contents, labels, name, notes)
        if number not in matches and set(labelled) != {"lack"}:
            notes.append(f"classify: {name} has no match, so it lacks every element")
            labelled = lacking(event)
        yield labelled
