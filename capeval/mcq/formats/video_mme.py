"""Video-MME: the published parquet, and the template of results, which can have responses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from capeval.errors import InputError
from capeval.mcq.formats.layout import Layout, Notices, as_question, records_of
from capeval.mcq.formats.letters import Answered, letter_of, without_letters
from capeval.mcq.formats.records import Record, Source, read_source
from capeval.schema.question import Question, Response

_QUESTION = ("question_id", "question", "options", "answer")


def filled_template(path: Path, on_notice: Notices = lambda _: None) -> tuple[Response, ...]:
    """Return the responses of a filled template or table, in its order.

    A question without `response`, or where it is null, has no reply; an empty text is an empty
    reply. InputError if no question has a response.
    """
    source = read_source(path)
    if not _fits(source):
        raise InputError(
            "has neither responses, as JSON lines, nor the layout of Video-MME's results", file=path
        )
    questions = [question for _, question in LAYOUT.questions(source, on_notice)]
    records = list(_rows(source))
    if not any("response" in record.fields for record in records):
        raise InputError("has no responses", file=path)
    return tuple(
        Response.to(
            question,
            reply=_reply(record),
            reason=None if _reply(record) is not None else f"no response in {path.name}",
        )
        for question, record in zip(questions, records, strict=True)
    )


def _reply(record: Record) -> str | None:
    reply = record.fields.get("response")
    if reply is None:
        return None
    return reply if isinstance(reply, str) else record.text("response")


def _fits(source: Source) -> bool:
    columns = source.columns()
    if "questions" in columns:
        return bool(columns & {"video_id", "videoID"})
    return columns >= {*_QUESTION} and bool(columns & {"video_id", "videoID"})


def _read(source: Source, _: Notices) -> Iterator[tuple[str, Question]]:
    for record in _rows(source):
        answered = Answered(record, record.options("options"), record.text("answer"))
        # Files of videos are called by their YouTube id; the template has only the number.
        video = "videoID" if "videoID" in record.fields else "video_id"
        yield as_question(
            record,
            id=record.name("question_id"),
            benchmark="video-mme",
            video=record.name(video),
            question=record.text("question"),
            options=without_letters(answered.options),
            answer=letter_of(answered),
            tags=record.tags(*_QUESTION, "videoID", "response"),
        )


def _rows(source: Source) -> Iterator[Record]:
    """Yield one record per question; the template has one per video."""
    for record in records_of(source):
        if "questions" not in record.fields:
            yield record
            continue
        questions = record.value("questions")
        if not isinstance(questions, list) or not questions:
            raise record.error("questions", "must be a list of questions")
        video = {name: value for name, value in record.fields.items() if name != "questions"}
        for number, question in enumerate(questions, start=1):
            if not isinstance(question, dict):
                raise record.error(f"questions.{number}", "must be a JSON object")
            yield Record(record.file, f"{record.place}, question {number}", {**video, **question})


LAYOUT = Layout(_fits, _read, trailing_commas=True)
