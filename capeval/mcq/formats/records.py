"""The records of a question file, whatever it is stored as: JSON, a table or parquet."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capeval.errors import InputError
from capeval.files.reading import json_lines, parse_json, read_text
from capeval.files.tables import CONTROL, is_binary_table, read_table
from capeval.mcq.formats.list_text import parse_list
from capeval.schema.question import OPTION_LETTERS, VISIBLE, Tag
from capeval.text import nearest, shown

# A string may be unterminated: it is then read once, not from each of its quotes.
_STRING_OR_TRAILING_COMMA = re.compile(
    r'("(?:[^"\\]++|\\(?:.|\Z))*+(?:"|\Z))|,(?=\s*[\]}])', re.DOTALL
)


@dataclass(frozen=True)
class Record:
    """One record: the file, the place in it for messages, such as "line 3", and its fields."""

    file: Path
    place: str
    fields: Mapping[str, Any]

    def error(self, field: str, message: str) -> InputError:
        """Return an error about a field."""
        return InputError(message, file=self.file, where=self.place, field=field)

    def value(self, name: str) -> Any:
        """Return a field's value; InputError if it is missing or empty."""
        if name not in self.fields:
            given = list(map(str, self.fields))
            raise self.error(name, f"is missing{nearest(name, given)}")
        value = self.fields[name]
        if value is None or (isinstance(value, str) and _is_blank(value)):
            raise self.error(name, "is empty")
        return value

    def text(self, name: str) -> str:
        """Return a text that is not blank; a number becomes text."""
        value = self.value(name)
        text = as_text(value)
        if text is None:
            raise self.error(name, f"must be text, not {shown(value)}")
        return text

    def name(self, field: str) -> str:
        """Return a name: a text without blanks around it and without control characters."""
        name = self.text(field).strip()
        if CONTROL.search(name):
            message = f"{shown(name)} has a control character, which names must not have"
            raise self.error(field, message)
        return name

    def whole(self, name: str) -> int:
        """Return a whole number that is not negative, which may be text."""
        text = self.text(name).strip()
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise self.error(name, f"must be a whole number from 0, not {shown(self.fields[name])}")
        return int(text)

    def options(self, name: str) -> tuple[str, ...]:
        """Return 2 to 26 options, of a list or of a list's text, with the letters they carry."""
        value = self.value(name)
        if isinstance(value, str):
            try:
                value = parse_list(value)
            except ValueError as fault:
                raise self.error(name, str(fault)) from None
        if not isinstance(value, list | tuple):
            raise self.error(name, f"must be a list of options, not {shown(value)}")
        if not 2 <= len(value) <= len(OPTION_LETTERS):
            raise self.error(name, f"must have 2 to 26 options; it has {len(value)}")
        options = []
        for number, item in enumerate(value, start=1):
            text = as_text(item)
            if text is None:
                raise self.error(f"{name}.{number}", f"must be text, not {shown(item)}")
            if _is_blank(text):
                raise self.error(f"{name}.{number}", "is empty")
            options.append(text)
        return tuple(options)

    def tags(self, *used: str) -> dict[str, Tag]:
        """Return the fields that are not `used` otherwise."""
        return {
            str(name): self.tag(name, value)
            for name, value in self.fields.items()
            if name not in used
        }

    def tag(self, name: str, value: Any) -> Tag:
        """Return a value as a tag: text, a number, true, false, null or a list of texts."""
        if value is None or isinstance(value, str | bool | int):
            return value
        if isinstance(value, float) and not math.isinf(value):
            return None if math.isnan(value) else float(value)
        if isinstance(value, list):
            texts = [as_text(item) for item in value]
            if None not in texts:
                return [text for text in texts if text is not None]
        raise self.error(
            name,
            f"must be text, a number, true, false, null or a list of texts, not {shown(value)}",
        )


def _is_blank(text: str) -> bool:
    return re.search(VISIBLE, text) is None


def as_text(value: Any) -> str | None:
    """Return a text, or a number as text; None for anything else.

    >>> as_text("left"), as_text(3), as_text(True)
    ('left', '3', None)
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return str(value) if math.isfinite(value) else None


@dataclass(frozen=True)
class Source:
    """What a question file contains.

    Attributes
    ----------
    value : of JSON that is one value, that value; else None
    records : of a table, parquet, JSON lines or a JSON list of objects
    fault : the error of JSON that can only be read without its trailing commas
    """

    file: Path
    value: Any = None
    records: Sequence[Record] = ()
    fault: InputError | None = None

    def columns(self) -> frozenset[str]:
        """Return the names of the first record's fields."""
        return frozenset(self.records[0].fields) if self.records else frozenset()


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder; no name is too long or otherwise impossible."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def read_source(file: Path) -> Source:
    """Read a question file, whose kind is recognised from its content; a folder has no content."""
    if is_folder(file):
        return Source(file)
    if is_binary_table(file):
        return _of_table(file)
    text = read_text(file)
    if text.lstrip()[0] not in "{[":
        return _of_table(file)
    first, _, rest = text.strip().partition("\n")
    if first.lstrip()[0] == "{" and rest.strip() and _is_whole(first, file):
        lines = json_lines(text, file=file)
        return Source(file, records=[_record(file, f"line {n}", value) for n, value in lines])
    return _of_json(file, text)


def _is_whole(line: str, file: Path) -> bool:
    try:
        parse_json(line, file=file)
    except InputError:
        return False
    return True


def _of_json(file: Path, text: str) -> Source:
    fault = None
    try:
        value = parse_json(text, file=file)
    except InputError as error:
        relaxed = _STRING_OR_TRAILING_COMMA.sub(lambda found: found[1] or " ", text)
        if relaxed == text:
            raise
        fault = error
        try:
            value = parse_json(relaxed, file=file)
        except InputError:
            raise fault from None
    if isinstance(value, list):
        return Source(file, value, _entries(file, value), fault)
    return Source(file, value, [Record(file, "line 1", value)], fault)


def _of_table(file: Path) -> Source:
    records = [Record(file, place, cells) for place, cells in read_table(file).records()]
    if not records:
        raise InputError("has no questions", file=file)
    return Source(file, records=records)


def _entries(file: Path, values: Sequence[Any]) -> list[Record]:
    if not values:
        raise InputError("has no questions", file=file)
    return [_record(file, f"entry {n}", value) for n, value in enumerate(values, start=1)]


def _record(file: Path, place: str, value: Any) -> Record:
    if not isinstance(value, dict):
        raise InputError(f"must be a JSON object, not {shown(value)}", file=file, where=place)
    return Record(file, place, value)
