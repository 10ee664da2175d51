"""Load multiple-choice questions from any layout, and select some by their tags."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from capeval.errors import InputError, UsageError
from capeval.files.annotations import split_format
from capeval.files.jsonl import dumps
from capeval.files.reading import why_missing
from capeval.files.validation import validated
from capeval.mcq.layouts import Layout, Notices, Source, read_source
from capeval.plugins import Registry, blaming
from capeval.schema.question import Question, Response, Tag
from capeval.text import describe, listed, nearest, shown

QuestionReader = Callable[[Path], Iterable[tuple[str, Any]]]
"""Reads a file or a folder of questions and yields `(place, question)`.

The place is shown in error messages, such as "line 3". A question is a `Question` or a dict with
its fields.
"""

_Tagged = TypeVar("_Tagged", Question, Response)

_NEEDED = ("id", "video", "question", "options", "answer")
_MOST_NAMED = 12  # Names in one message: more do not fit on a line that a user can read.


def _problem(reader: Any) -> str | None:
    usable = callable(reader) and not isinstance(reader, type)
    return None if usable else "it must be a function that takes a path"


_PACKAGED = {
    "tuna": "capeval.mcq.layouts:TUNA",
    "tomato": "capeval.mcq.layouts:TOMATO",
    "tomato-harness": "capeval.mcq.layouts:HARNESS",
    "video-mme": "capeval.mcq.layouts:VIDEO_MME",
    "own": "capeval.mcq.layouts:OWN",
}
FORMATS: Registry[QuestionReader] = Registry(
    "capeval.questions", "layout of questions", _PACKAGED, _problem
)


def load_questions(path: Path | str, on_notice: Notices = lambda _: None) -> tuple[Question, ...]:
    """Return the questions of a file or a folder, in its order.

    `path` is a path, whose layout is recognised from its content, or `NAME:PATH`, where NAME is
    one of `FORMATS`; UsageError if that cannot be loaded.
    """
    name, file = split_format(path, FORMATS)
    found = _recognised(file, on_notice) if name is None else _named(name, file, on_notice)
    places: dict[str, str] = {}
    questions = []
    for place, question in found:
        if question.id in places:
            raise InputError(
                f"{shown(question.id)} is duplicated ({places[question.id]} and {place})",
                file=file,
                field="id",
            )
        places[question.id] = place
        questions.append(question)
    if not questions:
        raise InputError("has no questions", file=file)
    return tuple(questions)


def _recognised(file: Path, on_notice: Notices) -> Iterator[tuple[str, Question]]:
    source = read_source(file)
    for name in _PACKAGED:
        layout = FORMATS.load(name)
        if isinstance(layout, Layout) and layout.fits(source):
            yield from layout.questions(source, on_notice)
            return
    raise source.fault or _unknown(source)


def _unknown(source: Source) -> InputError:
    columns = sorted(source.columns())
    if len(lacking := [name for name in _NEEDED if name not in columns]) <= 2:
        what = listed([f"{shown(one)}{nearest(one, columns)}" for one in lacking])
        message = f"lacks {what}; questions need {', '.join(_NEEDED)}"
    else:
        has = listed(columns, _MOST_NAMED) or "no fields"
        message = (
            f"has no known layout of questions ({has}); give your own as JSON lines with "
            f"{', '.join(_NEEDED)}, or name the layout as in tuna:{source.file.name} "
            f"({', '.join(FORMATS.names())})"
        )
    place = source.records[0].place if source.records else ""
    return InputError(message, file=source.file, where=place)


def _named(name: str, file: Path, on_notice: Notices) -> Iterator[tuple[str, Question]]:
    read = FORMATS.load(name)
    if not file.exists():
        raise InputError(why_missing(file), file=file)
    if isinstance(read, Layout):
        yield from read.questions(read_source(file), on_notice)
        return
    where = f"the layout of questions {shown(name)}"
    with blaming(lambda e: InputError(f"{where} cannot read it: {describe(e)}", file=file)):
        entries: Iterable[Any] = read(file)
        for entry in entries:
            if not (isinstance(entry, tuple) and len(entry) == 2):
                message = f"{where} must yield (place, question), not {shown(entry)}"
                raise InputError(message, file=file)
            place, record = entry
            fields = record.model_dump() if isinstance(record, Question) else record
            yield str(place), validated(Question, fields, file=file, where=str(place))


def questions_hash(questions: Sequence[Question]) -> str:
    """Return the SHA-256 (hex) of what is answered: ids, videos, questions, options, answers."""
    digest = hashlib.sha256()
    for question in questions:
        digest.update(dumps(question.model_dump(exclude={"tags"})).encode("utf-8") + b"\n")
    return digest.hexdigest()


def select(questions: Sequence[_Tagged], where: Sequence[str]) -> tuple[_Tagged, ...]:
    """Return the questions that have every `TAG=VALUE` of `where`.

    Values are compared as text, true, false and null as JSON writes them; of a tag with several
    values, any can be the one. UsageError if a tag or a value is unknown, or nothing is selected.
    """
    chosen = list(questions)
    for condition in where:
        tag, equals, value = condition.partition("=")
        if not equals:
            raise UsageError(
                f"--where {shown(condition)} must be TAG=VALUE, such as {_example(questions)}"
            )
        tags = list(dict.fromkeys(name for question in questions for name in question.tags))
        if tag not in tags:
            raise UsageError(
                f"--where {condition}: no question has the tag {shown(tag)}; there are "
                f"{listed(sorted(tags), _MOST_NAMED) or 'no tags'}{nearest(tag, tags)}"
            )
        found = [texts_of(q.tags[tag]) if tag in q.tags else () for q in questions]
        values = list(dict.fromkeys(text for texts in found for text in texts))
        if value not in values:
            raise UsageError(
                f"--where {condition}: no question has this value; {tag} can be "
                f"{listed(sorted(values), _MOST_NAMED)}{nearest(value, values)}"
            )
        chosen = [q for q in chosen if tag in q.tags and value in texts_of(q.tags[tag])]
    if not chosen:
        raise UsageError(f"no question has all of --where {' --where '.join(where)}")
    return tuple(chosen)


def texts_of(tag: Tag) -> tuple[str, ...]:
    """Return the values of a tag as text.

    >>> texts_of(1), texts_of(True), texts_of(["Multi-Scene", "High-Dynamic"])
    (('1',), ('true',), ('Multi-Scene', 'High-Dynamic'))
    """
    if isinstance(tag, list):
        return tuple(tag)
    return (tag if isinstance(tag, str) else json.dumps(tag),)


def _example(questions: Sequence[Question] | Sequence[Response]) -> str:
    for question in questions:
        for name, tag in question.tags.items():
            for text in texts_of(tag):
                return f"{name}={text}"
    return "task=count"
