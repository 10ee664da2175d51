"""What a reader of one layout is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capeval.errors import InputError
from capeval.files.validation import validated
from capeval.mcq.formats.records import Record, Source, is_folder, read_source
from capeval.schema.question import Question

Notices = Callable[[str], None]
PlacedQuestions = Iterable[tuple[str, Question]]


@dataclass(frozen=True)
class Layout:
    """A packaged layout; called with a path, it yields `(place, question)` like a plugin's reader.

    Attributes
    ----------
    fits : whether a file has this layout, judged by its first record
    read : yields the questions with their places
    trailing_commas : whether JSON with trailing commas is accepted, with a notice
    """

    fits: Callable[[Source], bool]
    read: Callable[[Source, Notices], PlacedQuestions]
    trailing_commas: bool = False

    def __call__(self, path: Path) -> Iterator[tuple[str, Question]]:
        """Yield the questions of a file; its notices are ignored."""
        yield from self.questions(read_source(path), lambda _: None)

    def questions(self, source: Source, on_notice: Notices) -> Iterator[tuple[str, Question]]:
        """Yield the questions of a file that has been read."""
        if source.fault is not None:
            if not self.trailing_commas:
                raise source.fault
            on_notice(
                f"{source.file}: has trailing commas, which JSON forbids; they are ignored "
                f"(the first at {source.fault.where})"
            )
        yield from self.read(source, on_notice)


def records_of(source: Source) -> list[Record]:
    """Return the records of a file; InputError for a folder."""
    if not source.records:
        raise InputError(
            "is a folder; name a file" if is_folder(source.file) else "has no questions",
            file=source.file,
        )
    return list(source.records)


def as_question(record: Record, **fields: Any) -> tuple[str, Question]:
    """Validate a question; return it with its place."""
    return record.place, validated(Question, fields, file=record.file, where=record.place)
