"""Questions of users: records with `id, video, question, options, answer` and any other field."""

from __future__ import annotations

from collections.abc import Iterator

from capeval.mcq.formats.layout import Layout, Notices, as_question, records_of
from capeval.mcq.formats.letters import Answered, letters_of, without_letters
from capeval.mcq.formats.records import Source
from capeval.schema.question import Question

NEEDED = ("id", "video", "question", "options", "answer")


def _fits(source: Source) -> bool:
    return source.columns() >= {*NEEDED}


def _read(source: Source, _: Notices) -> Iterator[tuple[str, Question]]:
    rows = [
        Answered(record, record.options("options"), record.text("answer"))
        for record in records_of(source)
    ]
    for row, letter in zip(rows, letters_of(rows), strict=True):
        record = row.record
        yield as_question(
            record,
            id=record.name("id"),
            benchmark=record.name("benchmark") if "benchmark" in record.fields else "own",
            video=record.name("video"),
            question=record.text("question"),
            options=without_letters(row.options),
            answer=letter,
            tags=record.tags(*NEEDED, "benchmark"),
        )


LAYOUT = Layout(_fits, _read)
