"""TOMATO: its six files, one per reasoning type, and the table that evaluation harnesses publish.

Numbers of questions restart in each file, and a video's key is unique only within its
demonstration type, so an id is `REASONING_TYPE/ID` and a video `DEMONSTRATION_TYPE/KEY`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from capeval.errors import InputError
from capeval.files.reading import reading
from capeval.files.tables import CONTROL
from capeval.files.videos import SUFFIXES
from capeval.mcq.formats.layout import Layout, Notices, as_question, records_of
from capeval.mcq.formats.letters import without_letters
from capeval.mcq.formats.records import Record, Source, is_folder, read_source
from capeval.schema.question import OPTION_LETTERS, Question
from capeval.text import counted, listed, shown

REASONING_TYPES = (
    "count",
    "direction",
    "rotation",
    "shape&trend",
    "velocity&frequency",
    "visual_cues",
)
"""The names of the benchmark's files, without `.json`."""

_HARNESS = frozenset({"id", "video_path", "reason_type", "question", "options", "answer"})


def _fits(source: Source) -> bool:
    if not isinstance(source.value, dict):
        return is_folder(source.file)
    first = next(iter(source.value.values()), None)
    return isinstance(first, dict) and "options" in first


def _read(source: Source, on_notice: Notices) -> Iterator[tuple[str, Question]]:
    if not is_folder(source.file):
        yield from _of_file(source)
        return
    files = {name: source.file / f"{name}.json" for name in REASONING_TYPES}
    with reading():
        found = [name for name, file in files.items() if file.exists()]
    names = listed([file.name for file in files.values()], len(files))
    if not found:
        raise InputError(f"has none of TOMATO's files ({names})", file=source.file)
    lacking = [files[name].name for name in REASONING_TYPES if name not in found]
    if lacking:
        on_notice(
            f"{source.file}: has {counted(len(found), 'file')} of TOMATO's {len(files)}; "
            f"{listed(lacking, len(files))} {'is' if len(lacking) == 1 else 'are'} missing"
        )
    for name in found:
        for place, question in _of_file(read_source(files[name])):
            yield f"{name}: {place}", question


def _of_file(source: Source) -> Iterator[tuple[str, Question]]:
    if source.fault is not None:
        raise source.fault
    if is_folder(source.file):
        raise InputError("is a folder; name a file", file=source.file)
    if not isinstance(source.value, dict):
        raise InputError('must be a JSON object of questions such as {"0": {…}}', file=source.file)
    reasoning_type = source.file.stem
    for number, fields in source.value.items():
        place = f"question {number}"
        if not isinstance(fields, dict):
            message = f"must be a JSON object, not {shown(fields)}"
            raise InputError(message, file=source.file, where=place)
        if not number.strip() or CONTROL.search(number):
            raise InputError(f"{shown(number)} is no number of a question", file=source.file)
        record = Record(source.file, place, fields)
        tags = record.tags("reasoning_type", "question", "options", "answer", "variation")
        yield _question(
            record,
            f"{reasoning_type}/{number}",
            f"{record.name('demonstration_type')}/{record.name('key')}",
            {"reasoning_type": reasoning_type, **tags, **_variation(record)},
        )


def _read_harness(source: Source, _: Notices) -> Iterator[tuple[str, Question]]:
    for record in records_of(source):
        # The file of "visual cues" is called visual_cues.
        reasoning_type = "_".join(record.name("reason_type").split())
        number = re.sub(rf"^{re.escape(reasoning_type)}[_/-]", "", record.name("id"))
        tags = record.tags(*_HARNESS, "variation")
        yield _question(
            record,
            f"{reasoning_type}/{number}",
            _video_of(record),
            {"reasoning_type": reasoning_type, **tags, **_variation(record)},
        )


def _video_of(record: Record) -> str:
    """Return a path as the benchmark names the video: its folder and its name without suffix."""
    path = PurePosixPath(record.name("video_path").replace("\\", "/"))
    name = path.stem if path.suffix.lower() in SUFFIXES else path.name
    if "demonstration_type" in record.fields:
        return f"{record.name('demonstration_type')}/{name}"
    return f"{path.parent.name}/{name}" if path.parent.name else name


def _variation(record: Record) -> dict[str, Any]:
    """Return the flags of `variation` as tags of their own."""
    flags = record.fields.get("variation")
    if flags is None:
        return {}
    if not isinstance(flags, dict):
        raise record.error("variation", "must be a JSON object")
    return {str(name): record.tag(f"variation.{name}", flag) for name, flag in flags.items()}


def _question(record: Record, name: str, video: str, tags: Any) -> tuple[str, Question]:
    options = record.options("options")
    answer = record.whole("answer")
    if answer >= len(options):
        message = f"must be the number of an option, from 0 to {len(options) - 1}, not {answer}"
        raise record.error("answer", message)
    return as_question(
        record,
        id=name,
        benchmark="tomato",
        video=video,
        question=record.text("question"),
        options=without_letters(options),
        answer=OPTION_LETTERS[answer],
        tags=tags,
    )


def _fits_harness(source: Source) -> bool:
    return source.columns() >= {"id", "video_path", "reason_type"}


LAYOUT = Layout(_fits, _read)
HARNESS = Layout(_fits_harness, _read_harness)
