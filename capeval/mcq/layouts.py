"""The layouts of question files, as data: how the fields of a file map to those of a question."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from capeval.errors import InputError
from capeval.files.jsonl import json_object, json_values, validated
from capeval.files.tables import CONTROL, is_table, read_table
from capeval.files.videos import SUFFIXES
from capeval.options import Notices
from capeval.schema.annotation import id_text
from capeval.schema.question import OPTION_LETTERS, VISIBLE, Question, Tag
from capeval.text import counted, listed, shown

# A string may be unterminated: it is then read once, not from each of its quotes.
_STRING_OR_TRAILING_COMMA = re.compile(
    r'("(?:[^"\\]++|\\(?:.|\Z))*+(?:"|\Z))|,(?=\s*[\]}])', re.DOTALL
)
# A bare dot needs a blank after it: "A.D." and "B.C." carry no letters.
_LETTERED = re.compile(r"(\(?)([A-Za-z])([.):])(?:\s+|(?<=\)))(?=\S)(.*)", re.DOTALL)


# ---- The fields --------------------------------------------------------------------------------


def _text(value: Any) -> str:
    """Return a text that is not blank; a number becomes text."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("is empty" if value is None else f"must be text, not {shown(value)}")  # noqa: TRY004
    if re.search(VISIBLE, str(value)) is None:
        raise ValueError("is empty")
    return str(value)


def _name(value: Any) -> str:
    value = id_text(value)
    if isinstance(value, float):
        raise ValueError(f"must be text or a whole number, not {shown(value)}")  # noqa: TRY004
    name = _text(value).strip()
    if CONTROL.search(name):
        raise ValueError(f"{shown(name)} has a control character, which names must not have")
    return name


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


def _options(value: Any) -> Any:
    options = parse_list(value) if isinstance(value, str) else value
    if not isinstance(options, list | tuple):
        what = "is empty" if value is None else f"must be a list of options, not {shown(options)}"
        raise ValueError(what)  # noqa: TRY004
    if not 2 <= len(options) <= len(OPTION_LETTERS):
        raise ValueError(f"must have 2 to 26 options; it has {len(options)}")
    return options


def _tag(value: Any) -> Any:
    if isinstance(value, bytes):
        raise ValueError("a tag must not be bytes")  # noqa: TRY004 - pydantic reports it with its place
    # A table's empty field of numbers is not a number.
    return None if isinstance(value, float) and value != value else value  # noqa: PLR0124


NameField = Annotated[str, BeforeValidator(_name)]
_TextField = Annotated[str, BeforeValidator(_text)]


class _Fields(BaseModel):
    """A record of a file under the names of a question; all other fields are tags."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)
    __pydantic_extra__: dict[str, Annotated[Tag, BeforeValidator(_tag)]] = Field(init=False)

    id: NameField
    video: NameField
    question: _TextField
    options: Annotated[tuple[_TextField, ...], BeforeValidator(_options)]
    answer: _TextField


# ---- The files ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class QuestionRecord:
    """One record: the file, the place in it for messages, such as "line 3", and its fields."""

    file: Path
    place: str
    fields: Mapping[str, Any]

    def error(self, field: str, message: str) -> InputError:
        return InputError(message, file=self.file, where=self.place, field=field)

    def part(self, name: str) -> str:
        """Return a field that becomes part of an id or a video's name."""
        try:
            return _name(self.fields.get(name))
        except ValueError as fault:
            raise self.error(name, str(fault)) from None


@dataclass(frozen=True)
class QuestionFile:
    """What a question file contains.

    Attributes
    ----------
    value : of JSON that is one value, that value; else None
    records : of a table, parquet, JSON lines or a JSON list of objects
    """

    file: Path
    value: Any = None
    records: Sequence[QuestionRecord] = ()

    def columns(self) -> frozenset[str]:
        return frozenset(self.records[0].fields) if self.records else frozenset()


def read_source(file: Path, on_notice: Notices) -> QuestionFile:
    """Read a question file, whose kind is recognised from its content; a folder has no content."""
    if file.is_dir():
        return QuestionFile(file)
    if is_table(file):
        rows = read_table(file).records()
        return QuestionFile(file, records=[QuestionRecord(file, *row) for row in rows])
    # Video-MME's template is published with trailing commas.
    found = json_values(
        file, mend=lambda text: _STRING_OR_TRAILING_COMMA.sub(lambda part: part[1] or " ", text)
    )
    if found.mended:
        on_notice(
            f"{file}: has trailing commas, which JSON forbids; they are ignored "
            f"(the first at {found.mended})"
        )
    if not found.records:
        raise InputError("has no questions", file=file)
    return QuestionFile(file, found.whole, [record_of(file, *one) for one in found.records])


def record_of(file: Path, place: str, value: Any) -> QuestionRecord:
    """Return a record of a file, which must be a JSON object."""
    return QuestionRecord(file, place, json_object(value, file=file, where=place))


# ---- The layouts -------------------------------------------------------------------------------


def _as_they_are(source: QuestionFile, _: Notices) -> Iterable[QuestionRecord]:
    if not source.records:
        message = "is a folder; name a file" if source.file.is_dir() else "has no questions"
        raise InputError(message, file=source.file)
    return source.records


@dataclass(frozen=True)
class QuestionLayout:
    """A layout of question files.

    Attributes
    ----------
    benchmark : its name; empty where each record names it
    names : the file's names for the fields of a question, where they differ
    answers : how the right option is given
    needs : the fields by which the layout is recognised
    records : yields the records, one for each question, under the file's names
    ignored : fields that do not become tags
    reply : the field with a model's reply, in files of predictions
    """

    benchmark: str
    answers: Literal["letter", "number", "letter or text"]
    needs: frozenset[str]
    names: Mapping[str, str] = field(default_factory=dict)
    records: Callable[[QuestionFile, Notices], Iterable[QuestionRecord]] = _as_they_are
    ignored: frozenset[str] = frozenset()
    reply: str = "prediction"

    def fits(self, source: QuestionFile) -> bool:
        """Return whether a file has this layout, judged by its first record."""
        return bool(self.needs) and source.columns() >= self.needs

    def questions(self, source: QuestionFile, on_notice: Notices) -> Iterator[tuple[str, Question]]:
        """Yield the questions of a file that has been read, each with its place."""
        rows = [(one, self._row(one)) for one in self.records(source, on_notice)]
        for (record, row), letter in zip(rows, self._letters(rows), strict=True):
            tags = dict(row.__pydantic_extra__ or {})
            benchmark = self.benchmark or str(tags.pop("benchmark", "own"))
            parts = row.model_dump(include={"id", "video", "question"})
            options = without_letters(row.options)
            parts |= {"benchmark": benchmark, "options": options, "answer": letter, "tags": tags}
            yield record.place, validated(Question, parts, file=record.file, where=record.place)

    def _row(self, record: QuestionRecord) -> _Fields:
        names = {theirs: ours for ours, theirs in self.names.items()}
        fields = {
            names.get(name, str(name)): value
            for name, value in record.fields.items()
            if name not in self.ignored and name != self.reply
        }
        try:
            return _Fields.model_validate(fields)
        except ValidationError as faults:
            fault = faults.errors(include_url=False)[0]
            name, *item = fault["loc"]
            message = str(fault.get("ctx", {}).get("error", "is missing"))
            if name not in _Fields.model_fields:
                kinds = "text, a number, true, false, null or a list of texts"
                message, item = f"must be {kinds}, not {shown(fields[str(name)])}", []
            place = "".join(f".{int(at) + 1}" for at in item)
            raise record.error(f"{self.names.get(str(name), name)}{place}", message) from None

    def _letters(self, rows: Sequence[tuple[QuestionRecord, _Fields]]) -> list[str]:
        """Return the letters of the right options; each answer is read by itself."""
        ways = {
            "letter": {"a letter": _by_letter},
            "number": {"the number of an option from 0": _by_number},
            "letter or text": {"the text of one option": _by_text, "a letter": _by_letter},
        }[self.answers]
        found = [
            {kind: n for kind, read in ways.items() if (n := read(row)) is not None}
            for _, row in rows
        ]
        # One that is the text of one option and the letter of another is like all the others.
        clear = {kind for one in found if len(one) == 1 for kind in one}
        letters = []
        for (record, row), one in zip(rows, found, strict=True):
            numbers = {n for kind, n in one.items() if {kind} == clear} or {*one.values()}
            if len(numbers) != 1:
                message = f"must be {' or '.join(ways)}, not {shown(row.answer)}"
                if numbers:
                    message = (
                        f"{shown(row.answer)} is the text of one option and the letter of another"
                    )
                raise record.error(self.names.get("answer", "answer"), message)
            letters.append(OPTION_LETTERS[numbers.pop()])
        return letters


def _by_letter(row: _Fields) -> int | None:
    letter, valid = row.answer.strip(), OPTION_LETTERS[: len(row.options)]
    return valid.index(letter) if len(letter) == 1 and letter in valid else None


def _by_number(row: _Fields) -> int | None:
    text = row.answer.strip()
    is_number = text.isascii() and text.isdigit() and int(text[:9]) < len(row.options)
    return int(text) if is_number and len(text) < 10 else None


def _by_text(row: _Fields) -> int | None:
    # The answer may repeat the letter that its option carries.
    for options in (row.options, without_letters(row.options)):
        found = [n for n, text in enumerate(options) if text.split() == row.answer.split()]
        if found:
            return found[0] if len(found) == 1 else None
    return None


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
    (opening, closing) = styles.pop()
    if opening and closing != ")":
        return tuple(options)
    return tuple(text.strip() for *_, text in parts)


# ---- What is particular to a benchmark ---------------------------------------------------------

REASONING_TYPES = (
    "count",
    "direction",
    "rotation",
    "shape&trend",
    "velocity&frequency",
    "visual_cues",
)
"""The names of TOMATO's files, without `.json`."""


def _of_tuna(source: QuestionFile, on_notice: Notices) -> Iterator[QuestionRecord]:
    records = _as_they_are(source, on_notice)
    has_index = any("index" in record.fields for record in records)
    for at, record in enumerate(records):
        # The benchmark's own code numbers the rows from 0.
        fields = dict(record.fields) if has_index else {**record.fields, "index": at}
        found = fields.get("visual_characteristic")
        if isinstance(found, str):
            parts = [part.strip() for part in found.split(",")]
            fields["visual_characteristic"] = [part for part in parts if part]
        yield QuestionRecord(record.file, record.place, fields)


def _of_tomato(source: QuestionFile, on_notice: Notices) -> Iterator[QuestionRecord]:
    """Yield the questions of TOMATO's files, one per reasoning type, or of one of them.

    Numbers of questions restart in each file, and a video's key is unique only within its
    demonstration type.
    """
    sources = [source]
    if source.file.is_dir():
        files = {name: source.file / f"{name}.json" for name in REASONING_TYPES}
        names = [file.name for file in files.values()]
        lacking = [file.name for file in files.values() if not file.exists()]
        if len(lacking) == len(files):
            message = f"has none of TOMATO's files ({listed(names, len(names))})"
            raise InputError(message, file=source.file)
        if lacking:
            on_notice(
                f"{source.file}: has {counted(len(files) - len(lacking), 'file')} of TOMATO's "
                f"{len(files)}; without {listed(lacking, len(files))}"
            )
        sources = [read_source(file, on_notice) for file in files.values() if file.exists()]
    for one in sources:
        if not isinstance(one.value, dict):
            raise InputError('must be a JSON object of questions such as {"0": {…}}', file=one.file)
        for number, value in one.value.items():
            record = record_of(one.file, f"question {number}", value)
            yield _with_ids(record, one.file.stem, number, f"{record.part('key')}")


def _of_harness(source: QuestionFile, on_notice: Notices) -> Iterator[QuestionRecord]:
    for record in _as_they_are(source, on_notice):
        path = PurePosixPath(record.part("video_path").replace("\\", "/"))
        key = path.stem if path.suffix.lower() in SUFFIXES else path.name
        if "demonstration_type" not in record.fields:
            key = f"{path.parent.name}/{key}" if path.parent.name else key
        yield _with_ids(record, *harness_id(record, "id"), key)


def harness_id(record: QuestionRecord, field: str) -> tuple[str, str]:
    """Return the reasoning type and the number of a question of TOMATO, from harnesses' fields."""
    # The file of "visual cues" is called visual_cues.
    reasoning_type = "_".join(record.part("reason_type").split())
    return reasoning_type, re.sub(rf"^{re.escape(reasoning_type)}[_/-]", "", record.part(field))


def _with_ids(record: QuestionRecord, reasoning_type: str, number: str, key: str) -> QuestionRecord:
    """Return a question with its id, its video and the flags of its variation as tags."""
    flags = record.fields.get("variation") or {}
    if not isinstance(flags, dict):
        raise record.error("variation", "must be a JSON object")
    has_type = "demonstration_type" in record.fields
    folder = f"{record.part('demonstration_type')}/" if has_type else ""
    parts = {"id": f"{reasoning_type}/{number}", "video": f"{folder}{key}"}
    fields = {"reasoning_type": "", **record.fields, **flags, **parts}
    fields["reasoning_type"] = reasoning_type
    return QuestionRecord(record.file, record.place, fields)


def _of_template(source: QuestionFile, on_notice: Notices) -> Iterator[QuestionRecord]:
    for record in _as_they_are(source, on_notice):
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


class _Tomato(QuestionLayout):
    def fits(self, source: QuestionFile) -> bool:
        first = next(iter(source.value.values()), None) if isinstance(source.value, dict) else None
        return source.file.is_dir() or (isinstance(first, dict) and "options" in first)


class _VideoMme(QuestionLayout):
    def fits(self, source: QuestionFile) -> bool:
        columns = source.columns()
        has_questions = "questions" in columns or columns >= self.needs
        return has_questions and bool(columns & {"video_id", "videoID"})


_CANDIDATES = {"id": "index", "options": "candidates"}
_HAS_CANDIDATES = frozenset({"video", "question", "answer", "candidates"})
OWN = QuestionLayout(
    "", "letter or text", frozenset({"id", "video", "question", "options", "answer"}), reply=""
)

LAYOUTS: Mapping[str, QuestionLayout] = {
    "video-mme-harness": QuestionLayout(
        "video-mme",
        "letter",
        _HAS_CANDIDATES | {"duration", "sub_category", "task_type"},
        _CANDIDATES,
        ignored=frozenset({"video_path", "subtitle_path"}),
    ),
    "tuna": QuestionLayout(
        "tuna",
        "letter or text",
        _HAS_CANDIDATES,
        _CANDIDATES,
        _of_tuna,
        ignored=frozenset({"video_path"}),
    ),
    "tomato": _Tomato(
        "tomato", "number", frozenset(), {}, _of_tomato, ignored=frozenset({"variation"}), reply=""
    ),
    "tomato-harness": QuestionLayout(
        "tomato",
        "number",
        frozenset({"id", "video_path", "reason_type"}),
        {},
        _of_harness,
        ignored=frozenset({"video_path", "reason_type", "variation"}),
    ),
    "video-mme": _VideoMme(
        "video-mme",
        "letter",
        frozenset({"question_id", "question", "options", "answer"}),
        {"id": "question_id", "video": "videoID"},
        _of_template,
        reply="response",
    ),
    "own": OWN,
}
"""The layouts of question files by name, in the order in which they are tried."""
