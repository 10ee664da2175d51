"""TUNA-MCQ: parquet as published, or the table that the benchmark's code makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from capeval.mcq.formats.layout import Layout, Notices, as_question, records_of
from capeval.mcq.formats.letters import Answered, letters_of, without_letters
from capeval.mcq.formats.records import Source
from capeval.schema.question import Question

_NEEDED = frozenset({"video", "question", "answer", "candidates"})
_CHARACTERISTIC = "visual_characteristic"


def _fits(source: Source) -> bool:
    return source.columns() >= _NEEDED


def _read(source: Source, _: Notices) -> Iterator[tuple[str, Question]]:
    records = records_of(source)
    has_index = any("index" in record.fields for record in records)
    rows = [
        Answered(record, record.options("candidates"), record.text("answer")) for record in records
    ]
    letters = letters_of(rows)
    for position, (row, letter) in enumerate(zip(rows, letters, strict=True)):
        record = row.record
        tags = record.tags(*_NEEDED, "index")
        if _CHARACTERISTIC in tags:
            tags[_CHARACTERISTIC] = _split(tags[_CHARACTERISTIC])
        yield as_question(
            record,
            # The benchmark's own code numbers the rows from 0.
            id=record.name("index") if has_index else str(position),
            benchmark="tuna",
            video=record.name("video"),
            question=record.text("question"),
            options=without_letters(row.options),
            answer=letter,
            tags=tags,
        )


def _split(value: Any) -> Any:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


LAYOUT = Layout(_fits, _read)
