"""Load multiple-choice questions from any layout, and select some by their tags."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from capeval.errors import InputError, UsageError
from capeval.files.annotations import (
    QUESTIONS,
    benchmark_folder,
    is_benchmark,
    split_format,
    tables_of,
)
from capeval.files.jsonl import dumps
from capeval.mcq.layouts import LAYOUTS, QuestionFile, QuestionLayout, read_source
from capeval.options import Notices, ignore
from capeval.schema.question import Question, Response, Tag
from capeval.text import listed, nearest, shown

_Tagged = TypeVar("_Tagged", Question, Response)

_NEEDED = ("id", "video", "question", "options", "answer")
_MOST_NAMED = 12  # Names in one message: more do not fit on a line that a user can read.


def load_questions(path: Path | str, on_notice: Notices = ignore) -> tuple[Question, ...]:
    """Return the questions of a file or a folder, in its order.

    `path` is a path, whose layout is recognised from its content, or `NAME:PATH`, where NAME is
    one of `LAYOUTS`; UsageError if there is no such layout.
    """
    name, file = split_format(path, LAYOUTS)
    if name is None:
        file = question_file(file)
    if name is not None and name not in LAYOUTS:
        raise UsageError(
            f"no layout of questions is called {shown(name)}; there are {', '.join(LAYOUTS)}"
            f"{nearest(name, [*LAYOUTS])}"
        )
    source = read_source(file, on_notice)
    layout = _recognised(source) if name is None else LAYOUTS[name]
    places: dict[str, str] = {}
    questions = []
    for place, question in layout.questions(source, on_notice):
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


def question_file(named: Path | str) -> Path:
    """Return the file that a path names, with or without its layout.

    For TUNA-MCQ's name, which is downloaded if need be, or its folder, it is the file in there.
    """
    _, path = split_format(named, LAYOUTS)
    folder = path
    if str(path) == QUESTIONS and not path.exists():
        folder = benchmark_folder(QUESTIONS)
    return tables_of(folder, QUESTIONS)[0] if is_benchmark(folder) else path


def _recognised(source: QuestionFile) -> QuestionLayout:
    if (layout := next((one for one in LAYOUTS.values() if one.fits(source)), None)) is not None:
        return layout
    columns = sorted(source.columns())
    if len(lacking := [name for name in _NEEDED if name not in columns]) <= 2:
        what = listed([f"{shown(one)}{nearest(one, columns)}" for one in lacking])
        message = f"lacks {what}; questions need {', '.join(_NEEDED)}"
    else:
        has = listed(columns, _MOST_NAMED) or "no fields"
        message = (
            f"has no known layout of questions ({has}); give your own as JSON lines with "
            f"{', '.join(_NEEDED)}, or name the layout as in tuna:{source.file.name} "
            f"({', '.join(LAYOUTS)})"
        )
    place = source.records[0].place if source.records else ""
    raise InputError(message, file=source.file, where=place)


def question_line(question: Question) -> dict[str, Any]:
    """Return a question in capeval's own layout: a JSON line with its tags beside its fields."""
    return {**question.model_dump(exclude={"benchmark", "tags"}), **question.tags}


def questions_hash(questions: Sequence[Question]) -> str:
    """Return the SHA-256 (hex) of what is answered: ids, videos, questions, options, answers."""
    digest = hashlib.sha256()
    for question in questions:
        digest.update(dumps(question.model_dump(exclude={"tags"})).encode("utf-8") + b"\n")
    return digest.hexdigest()


def with_tags(questions: Sequence[_Tagged], where: Sequence[str]) -> tuple[_Tagged, ...]:
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
