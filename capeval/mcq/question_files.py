"""Multiple-choice questions: the layouts of their files, as data."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from capeval.errors import InputError
from capeval.files.annotations import (
    QUESTIONS,
    SUFFIXES,
    benchmark_folder,
    is_benchmark,
    tables_of,
)
from capeval.files.jsonl import json_object, json_values, lines_hash, validated
from capeval.files.tables import Name, table_or_json
from capeval.options import Notices, ignore
from capeval.schema import OPTION_LETTERS, Question, Tag, Text
from capeval.text import complaint, listed, nearest, shown

M = TypeVar("M", bound=BaseModel)

_NEEDED = ("id", "video", "question", "options", "answer")


# ---- Loading -------------------------------------------------------------------------------------


def load_questions(path: Path | str, on_notice: Notices = ignore) -> tuple[Question, ...]:
    """Return the questions of a file or a folder, in its order.

    The layout is recognised from the content.
    """
    file = question_file(path)
    source = read_source(file, on_notice)
    places: dict[str, str] = {}
    questions = []
    for place, question in _recognised(source).questions(source, on_notice):
        if question.id in places:
            raise InputError(
                f"{shown(question.id)} is duplicated ({places[question.id]} and {place})",
                file=file,
                field="id",
            )
        places[question.id] = place
        questions.append(question)
    return tuple(questions)


def question_file(named: Path | str) -> Path:
    """Return the file that a path names, or TUNA-MCQ's own file."""
    path = Path(named)
    if str(path) == QUESTIONS and not path.exists():
        path = benchmark_folder(QUESTIONS)
    return tables_of(path, QUESTIONS)[0] if is_benchmark(path) else path


def question_line(question: Question) -> dict[str, Any]:
    """Return a question in capeval's own layout: a JSON line with its tags beside its fields."""
    return {**question.model_dump(exclude={"benchmark", "tags"}), **question.tags}


def questions_hash(questions: Sequence[Question]) -> str:
    """Return the SHA-256 (hex) of ids, videos, questions, options and answers; not of tags."""
    return lines_hash(question.model_dump(exclude={"tags"}) for question in questions)


# ---- Files and their records ---------------------------------------------------------------------

# A string may be unterminated: it is then read once, not from each of its quotes.
_STRING_OR_TRAILING_COMMA = re.compile(
    r'("(?:[^"\\]++|\\(?:.|\Z))*+(?:"|\Z))|,(?=\s*[\]}])', re.DOTALL
)


@dataclass(frozen=True)
class QuestionRecord:
    """One record of a file; `place` is its place for messages, such as "line 3"."""

    file: Path
    place: str
    fields: Mapping[str, Any]

    def error(self, field: str, message: str) -> InputError:
        return InputError(message, file=self.file, where=self.place, field=field)

    def name(self, field: str) -> str:
        return self.read(_Named, {"name": self.fields.get(field)}, lambda _: field).name

    def read(self, model: type[M], fields: Any, name_of: Callable[[str], str]) -> M:
        try:
            return model.model_validate(fields)
        except ValidationError as faults:
            field, message = complaint(faults)
            name, *rest = field.split(".", 1)
            raise self.error(".".join(filter(None, [name_of(name), *rest])), message) from None


@dataclass(frozen=True)
class QuestionFile:
    """The contents of a question file: one JSON `value`, or `records` of a table or a list."""

    file: Path
    value: Any = None
    records: Sequence[QuestionRecord] = ()

    def columns(self) -> frozenset[str]:
        return frozenset(self.records[0].fields) if self.records else frozenset()


def read_source(file: Path, on_notice: Notices) -> QuestionFile:
    """Read a question file, whose kind is recognised from its content; a folder has no content."""
    if file.is_dir():
        return QuestionFile(file)
    found = table_or_json(file)
    if not isinstance(found, str):
        return QuestionFile(file, records=[QuestionRecord(file, *row) for row in found.records()])
    # Video-MME's template is published with trailing commas.
    try:
        records, whole = json_values(file, found)
    except InputError as fault:
        text = _STRING_OR_TRAILING_COMMA.sub(lambda part: part[1] or " ", found)
        if not text.lstrip().startswith("["):
            raise
        records, whole = json_values(file, text)
        on_notice(
            f"{file}: has trailing commas, which JSON forbids; they are ignored "
            f"(the first at {fault.where})"
        )
    if not records:
        raise InputError("has no questions", file=file)
    return QuestionFile(file, whole, [record_of(file, *one) for one in records])


def record_of(file: Path, place: str, value: Any) -> QuestionRecord:
    return QuestionRecord(file, place, json_object(value, file=file, where=place))


# ---- The fields of a question --------------------------------------------------------------------

# A bare dot needs a blank after it: "A.D." and "B.C." carry no letters.
_LETTERED = re.compile(r"(\(?)([A-Za-z])([.):])(?:\s+|(?<=\)))(?=\S)(.*)", re.DOTALL)


def parse_list(text: str) -> list[str]:
    r"""Return the items of a list that a table stores as text: JSON, or as Python prints it.

    ValueError if it is neither.

    >>> parse_list("['left', \"it's right\", 2.5]")
    ['left', "it's right", '2.5']
    """
    try:
        items = json.loads(text, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        items = _printed(text)
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise ValueError(
            "is not a list of texts in quotes, with commas between all of them; "
            'write it like ["left", "right"]'
        )
    return items


def _printed(text: str) -> list[Any] | None:
    try:
        items = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    # Adjacent strings, as numpy prints a list, would be fused into one item.
    if not isinstance(items, list) or "".join(repr(items).split()) != "".join(text.split()):
        return None
    return [str(item) if isinstance(item, int | float) else item for item in items]


def without_letters(options: Sequence[str]) -> tuple[str, ...]:
    """Remove the letters that options carry, if each carries its own in the same way.

    >>> without_letters(["A. Apples.", "B. Candles."])
    ('Apples.', 'Candles.')
    >>> without_letters(["A. Smith", "C. Jones"])
    ('A. Smith', 'C. Jones')
    """
    parts = [match.groups() for one in options if (match := _LETTERED.fullmatch(one.strip()))]
    letters = "".join(letter for _, letter, _, _ in parts)
    in_order = OPTION_LETTERS[: len(options)]
    styles = {(opening, closing) for opening, _, closing, _ in parts}
    if letters not in (in_order, in_order.lower()) or len(styles) != 1:
        return tuple(options)
    return tuple(text.strip() for *_, text in parts)


_Text = Annotated[Text, BeforeValidator(lambda one: str(one) if type(one) in (int, float) else one)]


class _Named(BaseModel):
    name: Name


class _Fields(BaseModel):
    """The fields of a question as its file has them; options may carry letters."""

    id: Name
    video: Name
    question: _Text
    options: Annotated[
        tuple[_Text, ...],
        Field(min_length=2, max_length=len(OPTION_LETTERS)),
        BeforeValidator(lambda given: parse_list(given) if isinstance(given, str) else given),
    ]
    answer: _Text
    tags: dict[str, Tag]


_Ways = Mapping[str, Callable[[_Fields], int | None]]
"""How the right option may be given, in words, and what finds its number from 0."""


def _by_letter(row: _Fields) -> int | None:
    letter, valid = row.answer.strip(), OPTION_LETTERS[: len(row.options)]
    return valid.index(letter) if len(letter) == 1 and letter in valid else None


def _by_number(row: _Fields) -> int | None:
    numbers = [str(n) for n in range(len(row.options))]
    return int(row.answer) if row.answer.strip() in numbers else None


def _by_text(row: _Fields) -> int | None:
    # The answer may repeat the letter that its option carries.
    for options in (row.options, without_letters(row.options)):
        found = [n for n, text in enumerate(options) if text.split() == row.answer.split()]
        if found:
            return found[0] if len(found) == 1 else None
    return None


_LETTER: _Ways = {"a letter": _by_letter}
_NUMBER: _Ways = {"the number of an option from 0": _by_number}
_TEXT: _Ways = {"the text of one option": _by_text, **_LETTER}


# ---- The layouts ---------------------------------------------------------------------------------


def _has(*names: str) -> Callable[[QuestionFile], bool]:
    return lambda source: source.columns() >= {*names}


@dataclass(frozen=True)
class QuestionLayout:
    """A layout of question files, recognised by `fits`, and how the right option is given in it.

    `benchmark` is empty where each record names it. `names` are the file's names of question
    fields, where they differ; `ignored` fields become no tags; `reply` has a model's reply.
    """

    benchmark: str
    answers: _Ways
    fits: Callable[[QuestionFile], bool]
    records: Callable[[QuestionFile, Notices], Iterable[QuestionRecord]] = lambda source, _: (
        source.records
    )
    names: Mapping[str, str] | None = None
    ignored: Sequence[str] = ()
    reply: str = "prediction"

    def questions(self, source: QuestionFile, on_notice: Notices) -> Iterator[tuple[str, Question]]:
        rows = [(one, self._fields(one)) for one in self.records(source, on_notice)]
        for (record, row), letter in zip(rows, self._letters(rows), strict=True):
            tags = dict(row.tags)
            parts = {
                **dict(row),
                "benchmark": self.benchmark or str(tags.pop("benchmark", "own")),
                "options": without_letters(row.options),
                "answer": letter,
                "tags": tags,
            }
            yield record.place, validated(Question, parts, file=record.file, where=record.place)

    def _name_of(self, field: str) -> str:
        return (self.names or {}).get(field, field)

    def _fields(self, record: QuestionRecord) -> _Fields:
        names = {field: self._name_of(field) for field in _NEEDED}
        known = {*names.values(), *self.ignored, self.reply}
        tags = {str(name): tag for name, tag in record.fields.items() if name not in known}
        given = {f: record.fields[name] for f, name in names.items() if name in record.fields}
        return record.read(_Fields, {**given, "tags": tags}, lambda field: names.get(field, ""))

    def _letters(self, rows: Sequence[tuple[QuestionRecord, _Fields]]) -> list[str]:
        """Return the letters of the right options; each answer is read by itself."""
        found = [
            {way: n for way, read in self.answers.items() if (n := read(row)) is not None}
            for _, row in rows
        ]
        # If one option's text is the letter of another, it is read like the other answers.
        clear = {way for one in found if len(one) == 1 for way in one}
        letters = []
        for (record, row), one in zip(rows, found, strict=True):
            numbers = {n for way, n in one.items() if {way} == clear} or {*one.values()}
            if len(numbers) != 1:
                message = f"must be {' or '.join(self.answers)}, not {shown(row.answer)}"
                if numbers:
                    what = "is the text of one option and the letter of another"
                    message = f"{shown(row.answer)} {what}"
                raise record.error(self._name_of("answer"), message)
            letters.append(OPTION_LETTERS[numbers.pop()])
        return letters


def _recognised(source: QuestionFile) -> QuestionLayout:
    for layout in LAYOUTS:
        if layout.fits(source):
            return layout
    columns = sorted(source.columns())
    lacking = [f"{shown(one)}{nearest(one, columns)}" for one in _NEEDED if one not in columns]
    raise InputError(
        f"lacks {listed(lacking)}; questions need {', '.join(_NEEDED)}, or the fields of "
        "TUNA-MCQ, TOMATO or Video-MME",
        file=source.file,
        where=source.records[0].place,
    )


# ---- What is particular to a benchmark -----------------------------------------------------------

_TOMATO_FILES = (
    *("count.json", "direction.json", "rotation.json", "shape&trend.json"),
    *("velocity&frequency.json", "visual_cues.json"),
)
"""The files of TOMATO, one for each reasoning type."""


def _of_tuna(source: QuestionFile, _: Notices) -> Iterator[QuestionRecord]:
    has_index = any("index" in record.fields for record in source.records)
    for at, record in enumerate(source.records):
        # The benchmark's own code numbers the rows from 0.
        fields = dict(record.fields) if has_index else {**record.fields, "index": at}
        found = fields.get("visual_characteristic")
        if isinstance(found, str):
            parts = [part.strip() for part in found.split(",")]
            fields["visual_characteristic"] = [part for part in parts if part]
        yield QuestionRecord(record.file, record.place, fields)


def _of_tomato(source: QuestionFile, on_notice: Notices) -> Iterator[QuestionRecord]:
    """Yield the questions of TOMATO's files, or of one of them.

    Numbers of questions restart in each file, and a video's key is unique only within its
    demonstration type.
    """
    sources = [source]
    if source.file.is_dir():
        total = len(_TOMATO_FILES)
        lacking = [name for name in _TOMATO_FILES if not (source.file / name).exists()]
        if len(lacking) == total:
            message = f"has none of TOMATO's files ({listed(_TOMATO_FILES, total)})"
            raise InputError(message, file=source.file)
        if lacking:
            on_notice(
                f"{source.file}: has {total - len(lacking)} of TOMATO's {total} files; missing: "
                f"{listed(lacking, total)}"
            )
        present = [source.file / name for name in _TOMATO_FILES if name not in lacking]
        sources = [read_source(file, on_notice) for file in present]
    for one in sources:
        for number, value in one.value.items():
            record = record_of(one.file, f"question {number}", value)
            yield _with_ids(record, one.file.stem, number, record.name("key"))


def _of_harness(source: QuestionFile, _: Notices) -> Iterator[QuestionRecord]:
    for record in source.records:
        path = PurePosixPath(record.name("video_path").replace("\\", "/"))
        key = path.stem if path.suffix.lower() in SUFFIXES else path.name
        if "demonstration_type" not in record.fields:
            key = f"{path.parent.name}/{key}" if path.parent.name else key
        yield _with_ids(record, *harness_id(record, "id"), key)


def harness_id(record: QuestionRecord, field: str) -> tuple[str, str]:
    """Return the reasoning type and the number of a question of TOMATO, from harnesses' fields."""
    # The file of "visual cues" is called visual_cues.
    reasoning_type = "_".join(record.name("reason_type").split())
    return reasoning_type, re.sub(rf"^{re.escape(reasoning_type)}[_/-]", "", record.name(field))


def _with_ids(record: QuestionRecord, reasoning_type: str, number: str, key: str) -> QuestionRecord:
    """Return a question with its id, its video and the flags of its variation as tags."""
    flags = record.fields.get("variation") or {}
    if not isinstance(flags, dict):
        raise record.error("variation", "must be a JSON object")
    has_type = "demonstration_type" in record.fields
    folder = f"{record.name('demonstration_type')}/" if has_type else ""
    fields = {"reasoning_type": "", **record.fields, **flags, "video": f"{folder}{key}"}
    fields |= {"id": f"{reasoning_type}/{number}", "reasoning_type": reasoning_type}
    return QuestionRecord(record.file, record.place, fields)


def _of_template(source: QuestionFile, _: Notices) -> Iterator[QuestionRecord]:
    for record in source.records:
        questions = record.fields.get("questions", [{}])
        if not isinstance(questions, list) or not questions:
            raise record.error("questions", "must be a list of questions")
        of_video = {name: value for name, value in record.fields.items() if name != "questions"}
        if "videoID" not in of_video:  # the template has only the number of the video
            of_video["videoID"] = of_video.get("video_id")
        for number, question in enumerate(questions, start=1):
            is_nested = "questions" in record.fields
            place = f"{record.place}, question {number}" if is_nested else record.place
            fields = {**of_video, **record_of(record.file, place, question).fields}
            yield QuestionRecord(record.file, place, fields)


def _is_of_tomato(source: QuestionFile) -> bool:
    first = next(iter(source.value.values()), None) if isinstance(source.value, dict) else None
    return source.file.is_dir() or (isinstance(first, dict) and "options" in first)


def _is_of_video_mme(source: QuestionFile) -> bool:
    columns = source.columns()
    is_table = columns >= {"question_id", "question", "options", "answer"}
    return ("questions" in columns or is_table) and bool(columns & {"video_id", "videoID"})


_CANDIDATES = {"id": "index", "options": "candidates"}
_HAS_CANDIDATES = ("video", "question", "answer", "candidates")

LAYOUTS = (
    QuestionLayout(
        "video-mme",
        _LETTER,
        _has(*_HAS_CANDIDATES, "duration", "sub_category", "task_type"),
        names=_CANDIDATES,
        ignored=("video_path", "subtitle_path"),
    ),
    QuestionLayout(
        *("tuna", _TEXT, _has(*_HAS_CANDIDATES), _of_tuna),
        names=_CANDIDATES,
        ignored=("video_path",),
    ),
    QuestionLayout(
        *("tomato", _NUMBER, _is_of_tomato, _of_tomato), ignored=("variation",), reply=""
    ),
    QuestionLayout(
        *("tomato", _NUMBER, _has("id", "video_path", "reason_type"), _of_harness),
        ignored=("video_path", "reason_type", "variation"),
    ),
    QuestionLayout(
        *("video-mme", _LETTER, _is_of_video_mme, _of_template),
        names={"id": "question_id", "video": "videoID"},
        reply="response",
    ),
    QuestionLayout("", _TEXT, _has(*_NEEDED), reply=""),
)
"""The layouts of question files, as they are tried; the last is a user's own."""
