"""Load the responses to grade: responses.jsonl, or the files of the benchmarks' own code.

TOMATO's are `REASONING_TYPE+DEMONSTRATION_TYPE/FRAMES/MODEL.jsonl`, with lines of `{"id",
"question", "response", "all_choices", "index2ans", "gt"}`. The number of a question restarts for
each reasoning type, which only the name of the folder has. Video-MME's is a template of results.
Both can be written too.
"""

from __future__ import annotations

import gc
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import from_json

from capeval.errors import InputError, UsageError
from capeval.files.captions import recorded_reply
from capeval.files.jsonl import dumps, first_line, json_lines, parse_json, read_text, validated
from capeval.files.tables import is_binary_table
from capeval.mcq.find_run import RESPONSES
from capeval.mcq.layouts import (
    LAYOUTS,
    OWN,
    NameField,
    QuestionFile,
    QuestionRecord,
    harness_id,
    read_source,
    record_of,
)
from capeval.options import Notices, ignore
from capeval.runs.folder import file_of, shards_in
from capeval.schema.question import OPTION_LETTERS, Question, Response, Text, option_lines
from capeval.text import complaint, counted, listed, shown


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the search for cycles, which would go through all responses again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            # All objects count as old, and are not searched at once.
            gc.freeze()
            gc.unfreeze()
            gc.enable()


@collection_paused()
def load_responses(
    path: Path, on_notice: Notices = ignore, questions: Sequence[Question] | None = None
) -> tuple[Response, ...]:
    """Return responses in the order of their file; none may be there twice.

    `path` is a responses.jsonl, or a folder with one or with the files of shards; a filled template
    of Video-MME; a result file of TOMATO's code or a folder of such files; predictions of
    VLMEvalKit's, or a log of lmms-eval's. TOMATO's code and lmms-eval do not record the `questions`
    completely.
    """
    file = path / RESPONSES if path.is_dir() and (path / RESPONSES).exists() else path
    found: Sequence[Response]
    run = file.parent if file.name == RESPONSES else file
    files = [file_of(run, "responses", shard) for shard in (None, *shards_in(run))]
    if any(one.exists() for one in files[1:]):
        parts = [_lines(one, questions, on_notice) for one in files if one.exists()]
        found = [response for part in parts for response in part]
    elif file.is_dir():
        found = tomato_responses(file, questions, on_notice)
    elif file.suffix.lower() == ".jsonl" or _is_lines(file):
        found = _lines(file, questions, on_notice)
    else:
        found = predictions(file, questions, on_notice)
    refuse_duplicates(found, file)
    return tuple(found)


def _is_lines(file: Path) -> bool:
    if is_binary_table(file):
        return False
    text = first_line(file)
    if not text.startswith("{"):
        return False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return is_tomato_line(value) or (isinstance(value, dict) and {"reply", "options"} <= {*value})


def _lines(
    file: Path, questions: Sequence[Question] | None, on_notice: Notices
) -> Sequence[Response]:
    result: list[Response] = []
    text = read_text(file)
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        value = _value(line, file, number)
        if not result and is_tomato_line(value):
            return tomato_responses(file, questions, on_notice)
        if not result and is_lmms_line(value):
            return predictions(file, questions, on_notice)
        result.append(_response(value, file, number))
    return result


def _value(line: str, file: Path, number: int) -> Any:
    try:
        value = from_json(line)
    except ValueError:
        value = parse_json(line, file=file, line=number)  # which says what is wrong
    if not isinstance(value, dict):
        raise InputError("must be a JSON object", file=file, where=f"line {number}")
    return value


def _response(value: dict[str, Any], file: Path, number: int) -> Response:
    where = f"line {number}"
    try:
        response = Response.model_validate(value)
    except ValidationError as faults:
        if "reply" not in value and "question" in value:
            message = "is a question without a reply; `capeval mcq answer` writes responses"
            raise InputError(message, file=file, where=where) from None
        name, message = complaint(faults)
        if (tag := name.partition(".")[0]) not in Response.model_fields:
            name, kinds = tag, "text, a number, true, false, null or a list of texts"
            message = f"must be {kinds}, not {shown(value.get(name))}"
        raise InputError(message, file=file, where=where, field=name) from None
    count = len(response.options)
    if not 2 <= count <= len(OPTION_LETTERS):
        raise InputError("must be 2 to 26 options", file=file, where=where, field="options")
    if len(response.answer) != 1 or response.answer not in OPTION_LETTERS[:count]:
        last = OPTION_LETTERS[count - 1]
        message = f"must be a letter from A to {last}, not {shown(response.answer)}"
        raise InputError(message, file=file, where=where, field="answer")
    return response


def refuse_duplicates(responses: Iterable[Response], file: Path) -> None:
    """Refuse two responses to one question, and no response at all."""
    seen: set[tuple[str, str]] = set()
    for one in responses:
        key = (one.benchmark, one.id)
        if key in seen:
            message = f"the response to {shown(one.id)} is duplicated; remove one of them"
            raise InputError(message, file=file)
        seen.add(key)
    if not seen:
        raise InputError("has no responses", file=file)


def models_of(responses: Iterable[Response]) -> list[str]:
    """Return the models that replied, as far as the responses name them."""
    named = (one.call.get("model") for one in responses if one.call)
    return sorted({name for name in named if isinstance(name, str) and name.strip()})


def responses_hash(responses: Sequence[Response]) -> str:
    """Return the SHA-256 (hex) of the questions: ids, texts, options and right answers."""
    lines = {
        "\0".join((r.benchmark, r.id, r.question, *r.options, r.answer)) + "\n" for r in responses
    }
    return hashlib.sha256("".join(sorted(lines)).encode("utf-8", "surrogatepass")).hexdigest()


# ---- Files of the benchmarks' own code -----------------------------------------------------------

_FOLDER = re.compile(r"(?:shuffle_)?(?P<reasoning_type>[^+/]+)\+(?P<demonstration_type>[^+/]+)")
_PART = re.compile(r"(?!\.)[^/\\+\x00-\x1f]+")
# Models that take the whole video have -1 frames.
_WHOLE_VIDEO = -1
_HARNESSES = "VLMEvalKit's predictions or lmms-eval's log"


class _TomatoLine(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    id: NameField
    question: Text
    response: str | None
    all_choices: list[str]
    index2ans: dict[str, Text]
    gt: Annotated[str, BeforeValidator(str)]


# ---- Results that are graded -------------------------------------------------------------------


def predictions(
    path: Path, questions: Sequence[Question] | None = None, on_notice: Notices = ignore
) -> list[Response]:
    """Return the responses of a benchmark's own file with replies, in its order.

    It is a filled template or table of Video-MME, a table of VLMEvalKit's, or a log of lmms-eval's,
    which needs `questions`. A question whose reply is null or an empty cell has none; an empty text
    in Video-MME's JSON is an empty reply. InputError if no question has a reply.
    """
    source = read_source(path, on_notice)
    logs = source.value.get("logs") if isinstance(source.value, dict) else None
    if isinstance(logs, list):
        entries = [record_of(path, f"entry {n}", one) for n, one in enumerate(logs, start=1)]
        source = QuestionFile(path, records=entries)
    if source.records and is_lmms_line(source.records[0].fields):
        return _of_log(source, questions, on_notice)
    layout = next((one for one in LAYOUTS.values() if one.fits(source)), OWN)
    rows = [*layout.records(source, on_notice)] if layout.reply else []
    if not any(layout.reply in one.fields for one in rows):
        what = f"JSON lines as in responses.jsonl, a file of a benchmark's code, {_HARNESSES}"
        raise InputError(f"has no responses; give {what}", file=path)
    replies = [one.fields.get(layout.reply) for one in rows]
    if layout.reply == "prediction":
        on_notice(f"{path}: VLMEvalKit's predictions for {layout.benchmark}")
        replies = [*map(recorded_reply, replies)]
    elif path.suffix.lower() in (".csv", ".tsv", ".xlsx"):
        replies = [None if reply == "" else reply for reply in replies]
    ids = {one.id: one for one in questions or ()}
    texts = {(one.video, one.question): one for one in questions or ()}
    # VLMEvalKit numbers the rows of Video-MME.
    named = [
        one if one.id in ids else texts.get((one.video, one.question), one)
        for _, one in layout.questions(source, on_notice)
    ]
    return [_to(*pair, path) for pair in zip(named, replies, strict=True)]


def _to(question: Question, reply: Any, file: Path) -> Response:
    reason = f"no response in {file.name}" if reply is None else None
    return Response.to(question, None if reply is None else str(reply), reason=reason)


def is_lmms_line(value: Any) -> bool:
    """Return whether a JSON value is a sample in a log of lmms-eval's."""
    return isinstance(value, Mapping) and "doc_id" in value and bool({*_RESPONSES} & value.keys())


_RESPONSES = ("filtered_resps", "resps")
_QUESTION_IDS: Mapping[str, Callable[[QuestionRecord], str]] = {
    "tomato_score": lambda record: "/".join(harness_id(record, "question_id")),
    "videomme_perception_score": lambda record: record.part("question_id"),
    "videomme_percetion_score": lambda record: record.part("question_id"),  # before version 0.3
}
"""The id of a question, by the name of the metric that lmms-eval logs with its fields."""


def _of_log(
    source: QuestionFile, questions: Sequence[Question] | None, on_notice: Notices
) -> list[Response]:
    """Return the responses of a log of lmms-eval's, which has no options."""
    file, first = source.file, source.records[0].fields
    if not questions:
        message = "lmms-eval's log has replies only; name the questions with --questions"
        raise InputError(message, file=file)
    metric = next((name for name in _QUESTION_IDS if isinstance(first.get(name), dict)), None)
    how = "doc_id in the order of the questions" if metric is None else f"{metric}.question_id"
    on_notice(f"{file}: lmms-eval's log, joined by {how}")
    known = {one.id: one for one in questions}
    found = []
    for record in source.records:
        if metric is None:
            question = _numbered(record, questions)
        else:
            part = record_of(file, record.place, record.fields.get(metric))
            name = _QUESTION_IDS[metric](part)
            if name not in known:
                raise record.error(metric, f"{shown(name)} is not among the questions")
            question = known[name]
        replies = next(record.fields[name] for name in _RESPONSES if name in record.fields)
        found.append(_to(question, recorded_reply(replies), file))
    return found


def _numbered(record: QuestionRecord, questions: Sequence[Question]) -> Question:
    """Return the question of a row number from 0, whose answer must be the target."""
    number, target = record.fields["doc_id"], record.fields.get("target")
    if type(number) is not int or not 0 <= number < len(questions):
        raise record.error("doc_id", f"must be a number from 0 to {len(questions) - 1}")
    question = questions[number]
    if target not in (question.answer, question.options[question.right]):
        message = f"{shown(target)} is not the answer of question {question.id}, row {number}"
        raise record.error("target", f"{message}; name the questions of this log")
    return question


def is_tomato_line(value: Any) -> bool:
    """Return whether a JSON value is a line of a result file of TOMATO's code."""
    return isinstance(value, dict) and _TomatoLine.model_fields.keys() <= value.keys()


def tomato_responses(
    path: Path, questions: Sequence[Question] | None, on_notice: Notices
) -> list[Response]:
    """Return the responses of a result file of TOMATO's code, or of a folder of results.

    With `questions`, each response gets its question's video and tags; without, a notice says what
    is not known. A file says of which model it is, so a folder must have files of one model.
    """
    files = [path]
    if path.is_dir():
        found = sorted(path.rglob("*.jsonl"))
        files = [file for file in found if _FOLDER.fullmatch(file.parent.parent.name)]
    if not files:
        what = "results of TOMATO's code such as count+human/16/MODEL.jsonl"
        raise InputError(f"has no responses.jsonl, and no {what}", file=path)
    models = sorted({file.stem for file in files})
    if len(models) > 1:
        raise InputError(
            f"has results of {counted(len(models), 'model')} ({listed(models)}); name the files of "
            "one of them",
            file=path,
        )
    if not questions:
        on_notice(
            "without --questions, the videos and tags of TOMATO's questions are not known: "
            "intervals treat every question as a video of its own"
        )
    known = {question.id: question for question in questions or ()}
    return [one for file in files for one in _of_file(file, known)]


def _of_file(file: Path, known: Mapping[str, Question]) -> Iterator[Response]:
    place = file.absolute()
    folder = _FOLDER.fullmatch(place.parent.parent.name)
    frames: dict[str, Any] = {}
    if folder and re.fullmatch(r"-?\d{1,6}", place.parent.name):
        number = int(place.parent.name)
        frames = {"number": "whole video" if number == _WHOLE_VIDEO else number}
    for number, value in json_lines(read_text(file), file=file):
        where = f"line {number}"
        if not is_tomato_line(value):
            fields = ", ".join(_TomatoLine.model_fields)
            what = f"is not a result of TOMATO's code, which has {fields}"
            raise InputError(what, file=file, where=where)
        line = validated(_TomatoLine, value, file=file, where=where)
        options = tuple(line.index2ans.get(letter, "") for letter in line.all_choices)
        lines = option_lines(options)
        letter = line.gt[:1]
        for field, fits in (
            ("all_choices", "".join(line.all_choices) == OPTION_LETTERS[: len(options)]),
            ("index2ans", all(options)),
            ("gt", line.gt in (*lines, *line.all_choices)),
        ):
            if not fits:
                message = (
                    "does not fit: there must be letters from A, a text for each, and the answer"
                )
                raise InputError(message, file=file, where=where, field=field)
        name = line.id
        if folder is not None and "/" not in name:
            name = f"{folder['reasoning_type']}/{name}"
        question = known.get(name)
        if known and question is None:
            raise InputError(f"{shown(name)} is not among the questions", file=file, where=where)
        if question is not None and (question.options, question.answer) != (options, letter):
            message = f"the options or the answer differ from those of question {name}"
            raise InputError(message, file=file, where=where)
        tags = folder.groupdict() if folder else {}
        yield Response(
            id=name,
            benchmark="tomato",
            video=question.video if question else "",
            question=line.question,
            options=options,
            answer=letter,
            reply=line.response,
            reason=None if line.response is not None else "no response in the file",
            frames=frames,
            call={} if line.response is None else {"model": file.stem},
            **(dict(question.tags) if question else tags),
        )


# ---- Results to submit -------------------------------------------------------------------------


def benchmark_files(
    responses: Sequence[Response], layout: str, out: Path, model: str | None
) -> dict[Path, str]:
    """Return the files of a layout, `tomato` or `video-mme`, by their paths under `out`.

    A failed call is left out of TOMATO's files, so that its code asks again, and has an empty
    response in Video-MME's template, whose script leaves it out. Raises `InputError` where a
    response is to another benchmark, and `UsageError` without a model for TOMATO's names of files.
    """
    if layout == "video-mme":
        return {out: dumps(_template(responses), indent=4) + "\n"}
    if not model or not _PART.fullmatch(model):
        raise UsageError("--layout tomato: name the model with --model, without slashes")
    texts: dict[Path, str] = {}
    for one in responses:
        if one.reply is not None:
            file = out / _tomato_folder(one) / f"{model}.jsonl"
            texts[file] = texts.get(file, "") + dumps(_tomato_line(one)) + "\n"
    return texts


def _tomato_folder(one: Response) -> str:
    reasoning, demonstration = one.id.rpartition("/")[0], one.tags.get("demonstration_type")
    indices = one.frames.get("indices")
    frames = len(indices) if isinstance(indices, list) else one.frames.get("number")
    number = frames if isinstance(frames, int) else _WHOLE_VIDEO
    if not (_PART.fullmatch(reasoning) and _PART.fullmatch(str(demonstration or ""))):
        raise InputError(
            "does not answer a question of TOMATO: an id is REASONING_TYPE/NUMBER, and the "
            "tag demonstration_type must be given, both without slashes",
            where=f"id {shown(one.id)}",
        )
    return f"{reasoning}+{demonstration}/{number}"


def _tomato_line(one: Response) -> dict[str, Any]:
    letters = list(OPTION_LETTERS[: len(one.options)])
    return {
        "id": one.id.rpartition("/")[2],
        "question": one.question,
        "response": one.reply,
        "all_choices": letters,
        "index2ans": dict(zip(letters, one.options, strict=True)),
        "gt": option_lines(one.options)[letters.index(one.answer)],
    }


def _template(responses: Sequence[Response]) -> list[dict[str, Any]]:
    of_video = ("duration", "domain", "sub_category")
    videos: dict[str, dict[str, Any]] = {}
    for one in responses:
        if lacking := [name for name in (*of_video, "task_type") if name not in one.tags]:
            raise InputError(
                f"does not answer a question of Video-MME: it has no {', '.join(lacking)}",
                where=f"id {shown(one.id)}",
            )
        # Questions of the published table name the video's file; its number is in the id.
        video = str(one.tags.get("video_id") or one.id.rpartition("-")[0] or one.video)
        about = {name: one.tags[name] for name in of_video}
        record = videos.setdefault(video, {"video_id": video, **about, "questions": []})
        record["questions"].append(
            {
                "question_id": one.id,
                "task_type": one.tags["task_type"],
                "question": one.question,
                "options": option_lines(one.options),
                "answer": one.answer,
                "response": one.reply or "",
            }
        )
    return list(videos.values())
