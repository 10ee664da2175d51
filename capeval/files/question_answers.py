"""Questions with correct answers: as the VDC benchmark publishes them, or by index.

VDC has JSON lines of `{VIDEO: [{"question", "answer", "category"}]}`. The other layout is JSON
lines of `{"index": VIDEO, "questions": [{"question", "answer"}]}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capeval.errors import InputError
from capeval.files.judgments import short_hash
from capeval.files.reading import json_records, parse_json, read_text
from capeval.files.validation import validated
from capeval.schema.question_answer import QuestionAnswer, VideoQuestions
from capeval.text import counted, shown

Numbered = tuple[int, QuestionAnswer]


@dataclass(frozen=True)
class QuestionSet:
    """The questions of a file.

    Attributes
    ----------
    place : the file's name, for messages
    videos : by index, each question with its number; those without text are left out
    notices : a sentence for everything that was left out
    """

    place: Path
    videos: Mapping[str, tuple[Numbered, ...]]
    notices: tuple[str, ...]

    @property
    def label(self) -> str:
        """A hash of the questions and answers, and the number of videos, as in a signature."""
        texts = [
            [index, [[number, one.question, one.answer] for number, one in questions]]
            for index, questions in sorted(self.videos.items())
        ]
        return f"{short_hash(texts)[:6]}@{len(self.videos)}"


def load_questions(source: Path | str | Mapping[str, Sequence[Any]]) -> QuestionSet:
    """Return the questions of a file, or of a dict by index; raises `InputError`.

    Of a video that is listed twice, the last list counts, as in the authors' code.
    """
    if isinstance(source, Mapping):
        given = (
            (f"index {shown(index)}", {"index": index, "questions": of})
            for index, of in source.items()
        )
        return _question_set(Path("qa"), given)
    return _question_set(Path(source), _of_file(Path(source)))


def _question_set(place: Path, records: Iterable[tuple[str, dict[str, Any]]]) -> QuestionSet:
    found: dict[str, VideoQuestions] = {}
    replaced: dict[str, None] = {}
    for line, record in records:
        index = record.get("index")
        named = f"index {shown(index)}" if isinstance(index, str) else ""
        where = ": ".join(filter(None, (line, named)))
        one = validated(VideoQuestions, record, file=place, where=where)
        if found.get(one.index, one).questions != one.questions:
            replaced[one.index] = None
        found[one.index] = one
    if not found:
        raise InputError("has no questions", file=place)
    videos: dict[str, tuple[Numbered, ...]] = {}
    blank: list[str] = []
    for video, one in found.items():
        numbered = [*enumerate(one.questions, start=1)]
        blank += [f"{n} of {shown(video)}" for n, question in numbered if question.is_blank]
        videos[video] = tuple(each for each in numbered if not each[1].is_blank)
    notices = []
    if replaced:
        notices.append(
            f"{place}: different lists of questions for {counted(len(replaced), 'video')} (such as "
            f"{shown(next(iter(replaced)))}); the last one counts"
        )
    if blank:
        notices.append(
            f"{place}: no text or no answer in {counted(len(blank), 'question')} (such as "
            f"{blank[0]}), which will not be asked"
        )
    return QuestionSet(place, videos, tuple(notices))


def _of_file(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the records of a file in the layout by index, each with its place."""
    text = read_text(path)
    records: Iterable[tuple[str, Any]]
    if path.suffix == ".json" and text.lstrip().startswith("{"):
        records = [("", parse_json(text, file=path))]
    else:
        records = json_records(path)
    for place, record in records:
        if not isinstance(record, dict) or not record:
            message = f"must be a JSON object with the questions of a video, not {shown(record)}"
            raise InputError(message, file=path, where=place)
        if "index" in record or "questions" in record:
            yield place, record
            continue
        for index, questions in record.items():
            yield place, {"index": index, "questions": questions}
